"""The solved start: written once and whole, taken by every later call, on texts alone."""

import errno
import json
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from plankwise.config import FitOptions, PlanOptions
from plankwise.core.chain import find_chains
from plankwise.core.plan import even_plan
from plankwise.data.batch import without_labels
from plankwise.errors import DataError, RunError
from plankwise.estimate.phases import Estimate
from plankwise.estimate.rehearsal import RehearsedStage
from plankwise.files import sweep_leftovers
from plankwise.models.plans import build_successors
from plankwise.training import solved as module
from plankwise.training.interruption import InterruptedRunError, interruptible
from plankwise.training.job import Job
from plankwise.training.solved import draw_texts, solve_start

TOKENS = 60


@pytest.fixture
def start(bert, texts):
    """Solves two successors of a BERT of 4 layers on some of the texts."""
    plan = even_plan(find_chains(bert), 2)

    def run(train=None, tokens=TOKENS, stage=None):
        stage = stage or texts.make_stage("solving", FitOptions(max_steps=1), train)
        return solve_start(
            stage, bert, plan, lambda init: build_successors(bert, plan, init=init, seed=0), tokens=tokens
        )

    return run


@pytest.fixture
def job(bert, texts):
    """A job whose stages train for 6 steps; `rehearse` makes other stages of them."""

    def make(rehearse=lambda stage: stage, **options):
        training = FitOptions(max_steps=6, batch_size=8, learning_rate=1e-2)
        plan = even_plan(find_chains(bert), 2)
        options = PlanOptions(**{**options, "solving": {"tokens": TOKENS, **options.get("solving", {})}})
        return Job(bert, plan, options, 3, 16, texts.train, lambda name: rehearse(texts.make_stage(name, training)))

    return make


def weights_of(successors):
    return nn.ModuleList(successors).state_dict()


def assert_equal(one, other):
    one, other = weights_of(one), weights_of(other)
    assert one.keys() == other.keys()
    assert all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.fixture
def folder(texts):
    return texts.make_stage("solving", FitOptions(max_steps=1)).folder


def test_what_is_solved_is_written_and_nothing_else_is_left(start, bert, folder):
    found = start()
    assert sorted(path.name for path in folder.iterdir()) == ["solved.json", "solved.safetensors"]
    assert (found.stage.name, found.stage.steps, found.stage.best_score) == ("solving", 0, -found.notes["effect"])
    assert found.notes == json.loads((folder / "solved.json").read_text("utf-8"))["notes"]
    assert found.notes["effect"] < found.notes["effect_before"]
    first = "output.dense.weight"
    assert not torch.equal(found.successors[0].state_dict()[first], bert.bert.encoder.layer[0].state_dict()[first])


def test_a_second_call_takes_what_was_written(start, monkeypatch):
    once = start()
    monkeypatch.setattr(module, "solve", lambda *given, **named: pytest.fail("solved again"))
    again = start()
    assert_equal(once.successors, again.successors)
    assert (again.stage, again.notes) == (once.stage, once.notes)


def test_the_notes_say_how_many_texts_and_tokens_were_solved_on(start, texts):
    calibration, _ = draw_texts(texts.train, TOKENS, seed=3)
    notes = start().notes
    assert (notes["texts"], notes["tokens"]) == (len(calibration.lengths), calibration.lengths.sum())
    texts.forget()
    assert start(tokens=10**6).notes["tokens"] < texts.train.lengths.sum()  # all but those held out


def test_what_is_stopped_in_the_middle_leaves_nothing_and_is_solved_again_to_the_bit(start, texts, folder, stopping):
    whole = start()
    texts.forget()
    stage = texts.make_stage("solving", FitOptions(max_steps=1))
    console = stopping("1 of 2", signal.SIGTERM)
    with pytest.raises(InterruptedRunError), interruptible():
        start(stage=replace(stage, context=replace(stage.context, console=console)))
    assert not list(folder.iterdir())
    assert_equal(start().successors, whole.successors)


def test_what_a_killed_process_leaves_is_swept_and_not_read(start, texts, folder, monkeypatch):
    whole = start()
    texts.forget()
    with monkeypatch.context() as patch:
        # A process that is killed deletes nothing.
        patch.setattr(module.tempfile.TemporaryDirectory, "cleanup", lambda self: self._finalizer.detach())
        patch.setattr(module, "whole_file", lambda path: pytest.fail("killed"))
        with pytest.raises(pytest.fail.Exception):
            start()
    assert list(folder.rglob("*.npy"))
    assert_equal(start().successors, whole.successors)
    sweep_leftovers(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["solved.json", "solved.safetensors"]


def test_weights_without_their_result_are_solved_again(start, folder):
    whole = start()
    (folder / "solved.json").unlink()
    (folder / "solved.safetensors").write_bytes(b"of an earlier call")
    assert_equal(start().successors, whole.successors)


def test_a_full_disk_is_told(start, monkeypatch):
    def full(*given):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(RunError, match="the disk is full"):
        start()


def test_no_label_is_read(start, texts):
    with_labels = start()
    texts.forget()
    assert_equal(start(without_labels(texts.train)).successors, with_labels.successors)


def test_a_model_in_half_precision_gets_successors_in_half_precision(start, bert):
    bert.to(torch.bfloat16)
    assert {value.dtype for value in weights_of(start().successors).values()} == {torch.bfloat16}


def test_texts_are_drawn_by_the_seed_and_none_is_held_out_and_solved_on(texts):
    def rows(encoded):
        return [tuple(ids) for ids in encoded.dataset["input_ids"]]

    calibration, held_out = draw_texts(texts.train, 50, seed=0)
    assert 50 <= calibration.lengths.sum() < 50 + max(texts.train.lengths)
    assert not set(rows(calibration)) & set(rows(held_out))
    assert [len(ids) for ids in rows(calibration)] == calibration.lengths.tolist()
    assert rows(draw_texts(texts.train, 50, seed=0)[0]) == rows(calibration)
    assert rows(draw_texts(texts.train, 50, seed=1)[0]) != rows(calibration)


def test_a_single_text_is_solved_on_and_held_out(texts):
    one = replace(texts.train, dataset=texts.train.dataset.select([0]), lengths=texts.train.lengths[:1])
    assert [len(found.lengths) for found in draw_texts(one, 50, seed=0)] == [1, 1]


def test_a_plan_says_that_its_successors_are_solved(job):
    begun = job(init="solved").start()
    outcome = begun.outcome(nn.Identity())
    assert outcome.notes["init"] == "solved"
    assert outcome.notes["solving"] == begun.solved.notes
    assert (list(outcome.stages), outcome.steps) == (["solving"], 0)


@pytest.mark.parametrize("init", ["lower", "fitted", "auto"])
def test_other_starts_solve_nothing(job, init, monkeypatch):
    monkeypatch.setattr(module, "solve", lambda *given, **named: pytest.fail("solved"))
    assert job(init=init).start().solved is None


def test_texts_of_a_file_are_solved_on_instead_of_the_training_texts(job, texts, tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(["5 6 7 8 9", "10 11 12", "13 14 15 16"] * 3), "utf-8")
    trained = job(init="solved").start()
    texts.forget()
    given = job(init="solved", solving={"texts": str(path)}).start()
    assert given.solved.notes["texts"] < len(path.read_text("utf-8").splitlines())
    name = "0.output.dense.weight"
    assert not torch.equal(weights_of(given.successors)[name], weights_of(trained.successors)[name])
    texts.forget()
    one = replace(texts.train, dataset=texts.train.dataset.select([0]), lengths=texts.train.lengths[:1])
    again = job(lambda stage: replace(stage, train=one), init="solved", solving={"texts": str(path)}).start()
    assert_equal(again.successors, given.successors)  # whatever the training texts


def test_a_file_that_cannot_be_read_is_named_by_its_key(job, tmp_path):
    with pytest.raises(DataError, match=r"plan\.solving\.texts is .*none\.txt, which cannot be read"):
        job(init="solved", solving={"texts": str(tmp_path / "none.txt")}).start()


def test_fitting_can_start_from_what_was_solved(job, texts):
    solved = job(init="solved").start()
    texts.forget()
    begun = job(init="fitted", fitting={"start": "solved", "learning_rate": 1e-4}).start()
    outcome = begun.outcome(nn.Identity())
    assert list(outcome.stages) == ["solving", "fitting"]
    assert outcome.notes["init"] == "fitted"
    assert outcome.notes["solving"]["effect"] == solved.solved.notes["effect"]
    texts.forget()
    copied = job(init="fitted", fitting={"start": "lower", "learning_rate": 1e-4}).start()
    assert sum(begun.fit.before) < sum(copied.fit.before)
    assert not torch.equal(
        weights_of(begun.successors)["0.output.dense.weight"], weights_of(solved.successors)["0.output.dense.weight"]
    )


def rehearsing(estimate, bert, texts, tmp_path):
    return lambda stage: RehearsedStage(
        **{**vars(stage), "folder": tmp_path / "rehearsal"}, estimate=estimate, predecessor=bert
    )


def test_a_rehearsal_without_an_estimate_solves_nothing(job, bert, texts, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "solve", lambda *given, **named: pytest.fail("solved"))
    begun = job(rehearsing(None, bert, texts, tmp_path), init="solved").start()
    assert begun.outcome(nn.Identity()).notes["init"] == "solved"
    plain = build_successors(bert, begun.job.plan, init="lower", seed=3)
    assert_equal(begun.successors, plain)


def test_a_rehearsal_with_an_estimate_says_what_solving_takes(job, bert, texts, tmp_path, folder):
    estimate = Estimate()
    job(rehearsing(estimate, bert, texts, tmp_path), init="solved").start()
    phase = estimate.phases["solving"]
    assert phase.seconds > 0
    assert phase.steps is None
    memory = estimate.memory["solving"]
    assert memory["weights"] >= 2 * sum(one.nbytes for one in bert.parameters())
    widest = 8 * (33 * 33 + 33 * 16)  # of the last map: its Gram matrix and its moments
    assert memory["sums"] >= 2 * widest
    assert not folder.exists()  # the run itself has yet to solve
