"""Checkpoints that were damaged since they were written: found, told, and gone round where there is one before."""

import io
import json
import os
import re
import shutil

import pytest
import torch
from rich.console import Console

from plankwise.context import Context
from plankwise.errors import RunError
from plankwise.training.checkpoint import find_fault, list_checkpoints
from stages import make_bert, make_stage

FILES = ("weights.safetensors", "optimiser.safetensors", "state.json", "trainer_state.json", "checksums.json")


class StopError(Exception):
    """What ends a stage half way."""


def make(folder, stop_at=None, file=None):
    """A stage of 18 steps that saves at 3, 6, 9, …, and logs losses every 4 steps; with `stop_at` it ends there."""
    context = Context(Console(file=file or io.StringIO(), width=400), folder, seed=3)
    scores = iter(range(1, 100))

    def score(model):
        return {"score": float(next(scores))}

    stage = make_stage(folder, score, context=context, evaluate_every=16, save_every=3)
    model = make_bert()
    forward, calls = model.forward, []

    def stopping(*args, input_ids=None, attention_mask=None, labels=None, **kwargs):
        calls.append(1)
        if stop_at is not None and len(calls) > stop_at:
            raise StopError
        return forward(*args, input_ids=input_ids, attention_mask=attention_mask, labels=labels, **kwargs)

    model.forward = stopping
    return stage, model


def run(folder, **more):
    stage, model = make(folder, **more)
    result = stage.run(model)
    history = [{key: value for key, value in one.items() if key != "eval_seconds"} for one in result.history]
    return {name: value.clone() for name, value in model.state_dict().items()}, history


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run(tmp_path_factory.mktemp("whole") / "s")


@pytest.fixture(scope="module")
def _stopped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stopped") / "s"
    with pytest.raises(StopError):
        run(folder, stop_at=10)
    return folder


@pytest.fixture
def stopped(_stopped, tmp_path):
    """The folder of a stage that was stopped at step 10, with checkpoints of steps 6 and 9."""
    shutil.copytree(_stopped, tmp_path / "s")
    return tmp_path / "s"


def flip(path, place=-100):
    """Changes one bit."""
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def empty(path):
    path.write_bytes(b"")


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def write_braces(path):
    path.write_text("{}")


def equal(one, other):
    weights = one[0].keys() == other[0].keys() and all(torch.equal(one[0][name], other[0][name]) for name in one[0])
    return weights and one[1] == other[1]


def test_the_last_two_checkpoints_are_kept_and_whole(stopped):
    assert [path.name for path in list_checkpoints(stopped)] == ["checkpoint-6", "checkpoint-9"]
    assert [find_fault(path) for path in list_checkpoints(stopped)] == [None, None]


def test_a_resumed_stage_has_the_weights_and_the_logged_losses_of_one_left_alone(stopped, whole):
    told = io.StringIO()
    assert equal(run(stopped, file=told), whole)
    assert "damaged" not in told.getvalue()
    assert [one["step"] for one in whole[1] if "loss" in one] == [4, 8, 12, 16]  # 12 is the mean of steps 9 to 12


@pytest.mark.parametrize(("damage", "name"), [
    (flip, "weights.safetensors"), (flip, "optimiser.safetensors"), (truncate, "optimiser.safetensors"),
    (empty, "optimiser.safetensors"), (os.remove, "optimiser.safetensors"), (os.remove, "weights.safetensors"),
    (write_braces, "trainer_state.json"), (write_braces, "state.json"), (truncate, "state.json"),
    (write_braces, "checksums.json"), (empty, "checksums.json"), (os.remove, "checksums.json"),
])  # fmt: skip
def test_a_damaged_checkpoint_is_told_and_the_one_before_is_taken(stopped, whole, damage, name):
    damage(stopped / "checkpoint-9" / name)
    told = io.StringIO()
    assert equal(run(stopped, file=told), whole)
    said = re.search(r"checkpoint-9 is damaged \((.*)\) and is now called damaged-checkpoint-9; going on from checkpoint-6",
                     told.getvalue())  # fmt: skip
    assert said, told.getvalue()
    assert name in said[1] or damage is write_braces  # of which the first file that it does not name is said
    assert "going on at step 6 of 18" in told.getvalue()


@pytest.mark.parametrize("name", FILES)
def test_every_flipped_bit_of_a_checkpoint_is_found(stopped, name):
    folder = stopped / "checkpoint-9"
    size = (folder / name).stat().st_size
    for place in range(0, size, max(1, size // 40)):
        flip(folder / name, place)
        assert find_fault(folder) is not None, place
        flip(folder / name, place)
    assert find_fault(folder) is None


def test_what_is_called_a_checkpoint_and_is_none_is_told(stopped, whole):
    (stopped / "checkpoint-12").write_text("a file")
    (stopped / "checkpoint-999999").mkdir()
    (stopped / "checkpoint-²").mkdir()  # not a number that Python reads
    told = io.StringIO()
    assert equal(run(stopped, file=told), whole)
    assert "checkpoint-12 is damaged (it is a file, not a folder)" in told.getvalue()
    assert "checkpoint-999999 is damaged (it has no checksums.json" in told.getvalue()
    assert told.getvalue().count("going on from checkpoint-9 instead") == 2


def test_with_no_checkpoint_left_the_error_says_which_are_damaged_and_what_to_do(stopped, whole):
    for path in list_checkpoints(stopped):
        flip(path / "weights.safetensors")
    with pytest.raises(RunError) as raised:
        run(stopped)
    fault = "weights.safetensors is not what was written: its checksum differs"
    assert f"can be used (checkpoint-9: {fault}; checkpoint-6: {fault}); delete that folder" in str(raised.value)
    shutil.rmtree(stopped)
    assert equal(run(stopped), whole)


def test_a_checkpoint_of_another_model_is_refused(stopped):
    stage, _ = make(stopped)
    with pytest.raises(RunError, match=r"belongs to another model: .*layer\.4.* is not in both.*; delete .*s to train"):
        stage.run(make_bert(num_hidden_layers=5))
    with pytest.raises(RunError, match=r"belongs to another model: .*; delete .*s to train"):
        stage.run(make_bert(num_hidden_layers=3))
    with pytest.raises(RunError, match=r"belongs to another model: .*; delete .*s to train"):
        stage.run(make_bert(intermediate_size=16))


@pytest.mark.parametrize(("damage", "name", "fault"), [
    (write_braces, "result.json", "name: field required"), (empty, "result.json", "it is empty"),
    (flip, "best.safetensors", "its tensors are not those"), (truncate, "best.safetensors", "cannot be read"),
    (os.remove, "best.safetensors", "cannot be read"),
])  # fmt: skip
def test_a_damaged_result_of_a_finished_stage_is_named(tmp_path, damage, name, fault):
    stage, model = make(tmp_path / "s")
    stage = stage.with_steps(1)
    stage.run(model)
    damage(tmp_path / "s" / name)
    with pytest.raises(RunError, match=rf"{name} .*{fault}.*; delete .*s to train that stage anew"):
        stage.run(model)


def test_best_weights_that_are_gone_are_missed_before_training_goes_on(tmp_path):
    scores = iter([2.0, 1.0, 1.0])

    def score(model):
        if (found := next(scores, None)) is None:
            raise StopError
        return {"score": found}

    options = {"evaluate_every": 2, "save_every": 2}
    with pytest.raises(StopError):
        make_stage(tmp_path / "s", score, **options).run(make_bert())
    os.remove(tmp_path / "s" / "best.safetensors")
    with pytest.raises(RunError, match=r"best.safetensors cannot be read .*; delete .*s to train that stage anew"):
        make_stage(tmp_path / "s", lambda model: pytest.fail("trained"), **options).run(make_bert())


def test_a_checkpoints_files_are_safetensors_and_json_with_a_checksum_each(stopped):
    folder = stopped / "checkpoint-9"
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    assert json.loads((folder / "checksums.json").read_text()).keys() == set(FILES) - {"checksums.json"}
