"""Three real processes (gloo): the weights of one, also where a rank has no example; and what is said when a rank is killed."""

import json

import pytest
import torch
from safetensors.torch import load_file

from workers import as_rank, compress, free_port, join_ranks, kill_when, last_step, start, wait


@pytest.fixture
def recipe(tmp_path, tiny):
    """38 examples in steps of 12: the last of an epoch has 2, so that of three ranks one has none."""
    expert = tiny.save_expert(tmp_path / "expert", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    path = tiny.save_recipe(tmp_path / "tiny.toml", tiny.save_table(tmp_path / "reviews.csv"), expert)
    text = path.read_text("utf-8").replace("max_steps = 2", "max_steps = 20\nevaluate_every = 20\nbatch_size = 12")
    path.write_text(f"{text}\nlatency = false\nestimate = false\n", "utf-8")
    return str(path)


@pytest.mark.parametrize("method", ["replacing", "kd"])
def test_three_processes_have_the_weights_of_one_after_20_steps(recipe, tmp_path, method):
    given = [f"method.name={method}", "run.folder="]
    one = start(compress, recipe, [given[0], f"{given[1]}{tmp_path / 'one'}"])
    shared = [given[0], f"{given[1]}{tmp_path / 'three'}", "training.batch_size=4"]
    three = join_ranks(compress, 3, free_port(), recipe, shared)
    assert [wait(process, 60) for process in [one, *three]] == [0, 0, 0, 0]
    records = [json.loads((tmp_path / name / "record.json").read_text()) for name in ("one", "three")]
    assert [record["processes"] for record in records] == [1, 3]
    assert records[0]["steps"] == records[1]["steps"] == 20
    expected, found = (load_file(tmp_path / name / "successor" / "model.safetensors") for name in ("one", "three"))
    for key, value in expected.items():
        torch.testing.assert_close(found[key], value, atol=2e-4, rtol=0)


def test_when_a_rank_is_killed_the_others_end_with_a_sentence(recipe, tmp_path):
    overrides = [f"run.folder={tmp_path / 'run'}", "training.max_steps=5000", "training.save_every=3"]
    port, said = free_port(), [tmp_path / f"said-{rank}.txt" for rank in range(3)]
    ranks = [start(as_rank, compress, rank, 3, port, recipe, overrides, str(said[rank])) for rank in range(3)]
    assert kill_when(ranks[1], lambda: last_step(tmp_path / "run" / "checkpoints" / "replacing") >= 3)
    assert [wait(process, 60) for process in ranks] == [2, -9, 2]
    for rank in (0, 2):
        text = said[rank].read_text("utf-8")
        assert "one of the other 2 ranks has ended" in text
        assert "the same command goes on from the last checkpoint" in text
        assert "Traceback" not in text


def test_going_on_with_fewer_processes_is_refused_since_a_step_would_have_fewer_examples(recipe, tmp_path):
    run, said = tmp_path / "run", tmp_path / "said.txt"
    overrides = [f"run.folder={run}", "training.max_steps=5000", "training.save_every=3"]
    both = join_ranks(compress, 2, free_port(), recipe, overrides)
    assert kill_when(both[0], lambda: last_step(run / "checkpoints" / "replacing") >= 3)
    assert wait(both[1], 60) == 2
    assert wait(start(compress, recipe, overrides, str(said)), 60) == 2
    text = said.read_text("utf-8")
    assert "was written by steps of 24 examples, and training.batch_size 12 on 1 process makes steps of 12" in text
    assert "Traceback" not in text
