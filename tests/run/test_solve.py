"""A run whose method is `solve`: nothing but its predecessor is trained, and the truncated model is not either."""

import json

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification

from plankwise.config import load_config
from plankwise.run.compress import compress
from workers import compress as compress_recipe
from workers import kill_when, start, wait

QUIET = Console(quiet=True)


@pytest.fixture(scope="module")
def finished(tmp_path_factory, tiny):
    """A run that is done once: its record and its folder."""
    place = tmp_path_factory.mktemp("solved")
    expert = tiny.save_expert(place / "expert", initializer_range=0.2)
    table = tiny.save_table(place / "reviews.csv")
    settings = [f"run.folder={place / 'run'}", f"predecessor.path={expert}", "task.name=table", f"task.train={table}"]
    settings += ["task.text=sentence", "task.label=label", "method.name=solve", "training.max_length=16"]
    settings += ["evaluation.latency_batch_sizes=[1]", "evaluation.latency_predictions=1"]
    return compress(load_config(None, settings), QUIET), place / "run"


def test_nothing_is_trained(finished):
    record, folder = finished
    assert (record["steps"], record["skipped_steps"], record["init"]) == (0, 0, "solved")
    assert {name: stage["steps"] for name, stage in record["stages"].items()} == {"solving": 0, "truncated": 0}
    assert set(record["seconds_by"]) == {"successor"}
    assert record["seconds"] == record["stages"]["solving"]["seconds"] > 0
    assert json.loads((folder / "record.json").read_text("utf-8")) == json.loads(json.dumps(record))


def test_successor_and_truncated_model_load_with_plain_transformers_and_differ(finished):
    _, folder = finished
    models = {
        name: AutoModelForSequenceClassification.from_pretrained(folder / name) for name in ("successor", "truncated")
    }
    assert all(model.config.num_hidden_layers == 2 for model in models.values())
    one, other = (model.state_dict() for model in models.values())
    name = "bert.encoder.layer.{}.output.dense.weight"
    assert torch.equal(one[name.format(0)], other[name.format(0)])  # a block alone in its span stays as it is
    assert not torch.equal(one[name.format(1)], other[name.format(1)])


def test_the_truncated_model_has_the_predecessors_own_weights(finished, tmp_path):
    _, folder = finished
    before = load_file(folder.parent / "expert" / "model.safetensors")
    after = load_file(folder / "truncated" / "model.safetensors")
    for index in range(2):
        name = f"bert.encoder.layer.{index}.output.dense.weight"
        assert torch.equal(after[name], before[name.replace(f"layer.{index}", f"layer.{2 * index}")])
    assert torch.equal(after["classifier.weight"], before["classifier.weight"])


def test_its_estimate_has_no_training_either(finished):
    record, _ = finished
    phases = record["estimate"]["phases"]
    assert list(phases) == ["solving", "evaluations", "latency"]
    assert all(phase["steps"] is None and phase["measured"] > 0 for phase in phases.values())
    assert record["estimate"]["memory"]["phase"] == "solving"


def test_a_run_killed_while_it_solves_ends_with_the_very_successor_of_one_left_alone(tmp_path, recipe):
    overrides = ["method.name=solve", "evaluation.latency=false", "evaluation.estimate=false"]
    whole = start(compress_recipe, str(recipe), [*overrides, f"run.folder={tmp_path / 'whole'}"])
    worker = start(compress_recipe, str(recipe), overrides)
    stage = tmp_path / "run" / "checkpoints" / "solving"
    kill_when(worker, lambda: any(stage.glob(".states.*/*.npy")))
    assert wait(start(compress_recipe, str(recipe), overrides)) == 0
    assert wait(whole) == 0
    one, other = (load_file(tmp_path / name / "successor" / "model.safetensors") for name in ("run", "whole"))
    assert all(torch.equal(value, other[name]) for name, value in one.items())
    assert not [path for path in (tmp_path / "run").rglob("*") if path.suffix == ".part"]


def test_training_can_follow_a_solved_start(recipe):
    overrides = ["method.name=kd", "plan.init=solved", "evaluation.latency=false", "evaluation.estimate=false"]
    record = compress(load_config(recipe, overrides), QUIET)
    assert [name for name, stage in record["stages"].items() if not stage["steps"]] == ["solving"]
    assert (record["init"], record["steps"], record["stages"]["truncated"]["steps"]) == ("solved", 2, 2)
    assert record["seconds_by"]["successor"] > record["stages"]["solving"]["seconds"]
