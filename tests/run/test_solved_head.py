"""Runs whose head is solved on labels behind solved successors: told where solving is told, resumed to the bit, or refused."""

import json

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from plankwise.config import load_config, validate_config
from plankwise.errors import ConfigError
from plankwise.run.compress import compress
from workers import compress as compress_recipe
from workers import kill_when, start, wait

QUIET = Console(quiet=True)
KEYS = ["plan.solving.head=labels", "plan.solving.tokens=200", "evaluation.latency=false", "evaluation.truncated=false"]


def test_a_run_tells_the_head_wherever_it_tells_solving(command, recipe, tmp_path, tiny_expert_folder):
    done = command("compress", recipe, *KEYS, f"predecessor.path={tiny_expert_folder}", "run.effort=seconds")
    assert done.code == 0, done.err
    record = json.loads((tmp_path / "run" / "record.json").read_text("utf-8"))
    head = record["solving"]["head"]
    assert set(head) == {"examples", "strength", "score_before", "score", "losses"}
    assert list(record["stages"]) == ["solving", "solving_head"]
    assert list(record["estimate"]["phases"])[:2] == ["solving", "solving_head"]
    assert f"its head on {head['examples']:,} labels" in done.out
    assert "the head is solved on labels" in record["effort"]["why"]
    told = "The head was solved on" if head["strength"] is not None else "The head stayed as it was"
    assert told in (tmp_path / "run" / "report.html").read_text("utf-8")


def test_a_run_killed_behind_its_successors_ends_with_the_very_head_of_one_left_alone(tmp_path, recipe):
    overrides = [*KEYS, "method.name=solve", "evaluation.estimate=false"]
    whole = start(compress_recipe, str(recipe), [*overrides, f"run.folder={tmp_path / 'whole'}"])
    worker = start(compress_recipe, str(recipe), overrides)
    stages = tmp_path / "run" / "checkpoints"
    kill_when(worker, lambda: (stages / "solving" / "solved.json").exists())
    assert wait(start(compress_recipe, str(recipe), overrides)) == 0
    assert wait(whole) == 0
    one, other = (load_file(tmp_path / name / "successor" / "model.safetensors") for name in ("run", "whole"))
    assert all(torch.equal(value, other[name]) for name, value in one.items())


def test_distillation_can_follow(recipe, tiny_expert_folder):
    settings = [*KEYS, f"predecessor.path={tiny_expert_folder}", "method.name=kd", "evaluation.estimate=false"]
    record = compress(load_config(recipe, settings), QUIET)
    assert list(record["stages"]) == ["solving", "solving_head", "kd"]
    assert record["solving"]["head"]["examples"] > 0


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({}, "method.name is 'replacing', in which the predecessor's blocks answer through the same head"),
        ({"run": {"effort": "hours"}, "method": {"name": "kd"}}, "run.effort is 'hours', whose search"),
    ],
)
def test_it_is_refused_where_the_head_has_to_stay(data, told):
    with pytest.raises(ConfigError, match=r"plan\.solving\.head is 'labels', but") as raised:
        validate_config({"plan": {"solving": {"head": "labels"}}, **data})
    assert told in str(raised.value)


def test_a_text_task_has_no_labels_to_solve_it_on(tmp_path, tiny_model_folder):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("one sentence and another\n" * 20, "utf-8")
    task = {"name": "text", "path": str(corpus)}
    data = {"task": task, "predecessor": {"path": str(tiny_model_folder)}, "run": {"folder": str(tmp_path / "run")}}
    config = validate_config({**data, "method": {"name": "solve"}, "plan": {"solving": {"head": "labels"}}})
    with pytest.raises(ConfigError, match=r"plan\.solving\.head is 'labels', but the task is text, which has none"):
        compress(config, QUIET)
