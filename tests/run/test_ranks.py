"""Real processes (gloo): the weights of one, whatever they share; killed, hanging and resumed, also in another number."""

import json
import os
import signal
import time

import pytest
import torch
from safetensors.torch import load_file

from workers import as_rank, compress, finetune, free_port, join_ranks, kill_when, last_step, start, wait


@pytest.fixture
def expert(tmp_path, tiny):
    return tiny.save_expert(tmp_path / "expert", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


@pytest.fixture
def recipe(tmp_path, tiny, expert):
    """38 examples in steps of 12: the last of an epoch has 2, so that of three ranks one has none."""
    path = tiny.save_recipe(tmp_path / "tiny.toml", tiny.save_table(tmp_path / "reviews.csv"), expert)
    steps = "max_steps = 20\nevaluate_every = 20\nbatch_size = 12\nlearning_rate = 1e-3"
    text = path.read_text("utf-8").replace("max_steps = 2", steps)
    path.write_text(f"{text}\nlatency = false\nestimate = false\ntruncated = false\n", "utf-8")
    return str(path)


def weights(folder, name="successor"):
    return load_file(folder / name / "model.safetensors")


def assert_close(found, expected, atol=2e-4):
    for key, value in expected.items():
        torch.testing.assert_close(found[key], value, atol=atol, rtol=0)


@pytest.mark.parametrize(("method", "accumulation"), [("replacing", 1), ("replacing", 2), ("kd", 1)])
def test_three_processes_have_the_weights_of_one_after_20_steps(recipe, tmp_path, method, accumulation):
    given = [f"method.name={method}", "run.folder="]
    one = start(compress, recipe, [given[0], f"{given[1]}{tmp_path / 'one'}"])
    shared = [given[0], f"{given[1]}{tmp_path / 'three'}", "training.batch_size=4"]
    shared += [f"training.accumulation={accumulation}"]
    three = join_ranks(compress, 3, free_port(), recipe, shared)
    assert [wait(process) for process in [one, *three]] == [0, 0, 0, 0]
    records = [json.loads((tmp_path / name / "record.json").read_text()) for name in ("one", "three")]
    assert [record["processes"] for record in records] == [1, 3]
    assert records[0]["steps"] == records[1]["steps"] == 20
    assert_close(weights(tmp_path / "three"), weights(tmp_path / "one"))


def test_three_processes_fine_tune_as_one(recipe, tmp_path, expert):
    keys = ["predecessor.training.max_steps=20", "predecessor.training.learning_rate=1e-3"]
    size = "predecessor.training.batch_size"
    one = start(finetune, recipe, [*keys, f"{size}=12", f"run.folder={tmp_path / 'one'}"], str(expert))
    shared = [*keys, f"{size}=4", f"run.folder={tmp_path / 'three'}"]
    three = join_ranks(finetune, 3, free_port(), recipe, shared, str(expert))
    assert [wait(process) for process in [one, *three]] == [0, 0, 0, 0]
    found, expected = (weights(tmp_path / name, "model") for name in ("three", "one"))
    assert_close(found, expected)
    before = load_file(expert / "model.safetensors")
    assert max((value - before[key]).abs().max() for key, value in expected.items()) > 2e-3  # ten times the tolerance


def test_two_processes_have_the_weights_of_one_in_bfloat16(recipe, tmp_path, expert):
    keys = ["training.precision=bfloat16", "training.learning_rate=1e-4"]
    one = start(compress, recipe, [*keys, f"run.folder={tmp_path / 'one'}"])
    two = join_ranks(
        compress, 2, free_port(), recipe, [*keys, f"run.folder={tmp_path / 'two'}", "training.batch_size=6"]
    )
    assert [wait(process) for process in [one, *two]] == [0, 0, 0]
    found, expected = weights(tmp_path / "two"), weights(tmp_path / "one")
    before = load_file(expert / "model.safetensors")
    blocks = [key for key in expected if ".layer." in key]
    apart, moved = (
        torch.cat([(one[key] - expected[key]).flatten() for key in blocks]).norm() for one in (found, before)
    )
    assert apart < moved / 4


def test_when_a_rank_is_killed_the_others_end_with_a_sentence(recipe, tmp_path):
    overrides = [f"run.folder={tmp_path / 'run'}", "training.max_steps=5000", "training.save_every=3"]
    port, said = free_port(), [tmp_path / f"said-{rank}.txt" for rank in range(3)]
    ranks = [start(as_rank, compress, rank, 3, port, recipe, overrides, str(said[rank])) for rank in range(3)]
    assert kill_when(ranks[1], lambda: last_step(tmp_path / "run" / "checkpoints" / "replacing") >= 3)
    assert [wait(process) for process in ranks] == [2, -9, 2]
    for rank in (0, 2):
        text = said[rank].read_text("utf-8")
        assert "one of the other 2 ranks has ended" in text
        assert "the same command goes on from the last checkpoint" in text
        assert "Traceback" not in text


def test_when_a_rank_hangs_the_other_ends_with_a_sentence(recipe, tmp_path):
    overrides = [f"run.folder={tmp_path / 'run'}", "training.max_steps=5000", "training.save_every=3"]
    port, said = free_port(), [tmp_path / f"said-{rank}.txt" for rank in range(2)]
    overrides += ["run.patience=8s"]
    first, second = (start(as_rank, compress, rank, 2, port, recipe, overrides, str(said[rank])) for rank in range(2))
    try:
        while first.is_alive() and last_step(tmp_path / "run" / "checkpoints" / "replacing") < 3:
            time.sleep(0.01)
        os.kill(second.pid, signal.SIGSTOP)
        assert wait(first) == 2
    finally:
        second.kill()
        second.join()
    text = said[0].read_text("utf-8")
    assert "one of the other 1 ranks has not answered in time (in a step of training 8 seconds, run.patience)" in text
    assert "Traceback" not in text


def test_another_number_of_processes_goes_on_where_steps_keep_their_size(recipe, tmp_path):
    run, said, length = tmp_path / "run", tmp_path / "said.txt", ["training.max_steps=60", "training.save_every=3"]
    whole = start(compress, recipe, [*length, "training.batch_size=24", f"run.folder={tmp_path / 'whole'}"])
    overrides = [*length, f"run.folder={run}"]
    both = join_ranks(compress, 2, free_port(), recipe, overrides)
    assert kill_when(both[0], lambda: last_step(run / "checkpoints" / "replacing") >= 3)
    assert wait(both[1]) == 2
    assert wait(start(compress, recipe, overrides, str(said))) == 2
    text = said.read_text("utf-8")
    assert "was begun by 2 processes in steps of 16 and 24 examples" in text
    assert "and 1 process would take 8 and 12" in text
    assert "set predecessor.training.batch_size = 16 and training.batch_size = 24, start 2 processes" in text
    assert "Traceback" not in text
    alone = [*overrides, "training.batch_size=24", "training.accumulation=3", "predecessor.training.batch_size=16"]
    assert wait(start(compress, recipe, alone)) == wait(whole) == 0
    assert_close(weights(run), weights(tmp_path / "whole"))
    assert json.loads((run / "record.json").read_text())["processes"] == 1


def test_all_ranks_killed_go_on_with_the_dropout_that_each_would_have_drawn(recipe, tmp_path, tiny):
    """A rank without examples draws no dropout, so that its random state differs from the others' by the end of an epoch."""
    model = tiny.save_expert(tmp_path / "dropping", hidden_dropout_prob=0.2)
    keys = [f"predecessor.path={model}", "training.max_steps=40", "training.save_every=3", "training.batch_size=4"]
    whole = join_ranks(compress, 3, free_port(), recipe, [*keys, f"run.folder={tmp_path / 'whole'}"])
    killed = [*keys, f"run.folder={tmp_path / 'killed'}"]
    ranks = join_ranks(compress, 3, free_port(), recipe, killed)
    assert kill_when(ranks[0], lambda: last_step(tmp_path / "killed" / "checkpoints" / "replacing") >= 9)
    assert [wait(rank) for rank in ranks[1:]] == [2, 2]
    again = join_ranks(compress, 3, free_port(), recipe, killed)
    assert [wait(process) for process in [*whole, *again]] == [0] * 6
    found = weights(tmp_path / "killed")
    assert all(torch.equal(found[key], value) for key, value in weights(tmp_path / "whole").items())
