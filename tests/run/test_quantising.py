"""Runs that end with training for int8: whatever the method, in the budget, and of no influence where it is not asked for."""

import json

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification

from plankwise.config import load_config, validate_config
from plankwise.errors import ConfigError
from plankwise.kinds import list_kinds, load_kind
from plankwise.run.compress import compress
from plankwise.run.estimating import preview
from workers import compress as compress_recipe
from workers import kill_when, last_step, start, wait

QUIET = Console(quiet=True)
METHODS = {name: getattr(load_kind("methods", name, key=""), "NOT_QUANTISED", None) for name in list_kinds("methods")}
SHARE = "training.quantising.share=0.3"


@pytest.fixture
def run(recipe, tiny_expert_folder, tmp_path):
    """Runs a recipe of 10 steps from a predecessor that is always right; gives its record and the successor's weights."""

    def run(*keys, name="run"):
        config = load_config(recipe, [*settings(tiny_expert_folder), f"run.folder={tmp_path / name}", *keys])
        record = compress(config, QUIET)
        return record, load_file(tmp_path / name / "successor" / "model.safetensors")

    return run


def settings(predecessor):
    return [
        f"predecessor.path={predecessor}",
        "training.max_steps=10",
        "training.batch_size=8",
        "evaluation.latency=false",
        "evaluation.estimate=false",
        "evaluation.truncated=false",
    ]


@pytest.mark.parametrize("method", [name for name, why_not in METHODS.items() if not why_not])
def test_any_method_that_trains_leaves_its_last_steps_to_int8(method, run, tiny_expert_folder, tmp_path):
    record, weights = run(SHARE, f"method.name={method}")
    stages = {name: stage["steps"] for name, stage in record["stages"].items()}
    assert list(stages)[-1] == "quantising"
    assert stages.pop("quantising") == 3
    assert sum(stages.values()) == 7
    assert record["steps"] == 10
    assert record["quantising"]["learning_rate"] == pytest.approx(record["config"]["training"]["learning_rate"] / 5)
    successor = AutoModelForSequenceClassification.from_pretrained(tmp_path / "run" / "successor")
    assert set(successor.state_dict()) >= set(weights)
    before = load_file(tiny_expert_folder / "model.safetensors")
    trained = "bert.embeddings.word_embeddings.weight"  # which module replacing leaves alone
    assert not torch.equal(weights[trained], before[trained])


@pytest.mark.parametrize("method", [name for name, why_not in METHODS.items() if why_not])
def test_a_method_that_cannot_says_why(method):
    wanted = (
        rf"training\.quantising\.share is 0\.3, but method\.name is '{method}', and {METHODS[method]}; set the share"
    )
    with pytest.raises(ConfigError, match=wanted):
        validate_config({"method": {"name": method}, "training": {"quantising": {"share": 0.3}}})
    validate_config({"method": {"name": method}, "training": {"quantising": {"share": 0}}})


@pytest.mark.parametrize("method", ["kd", "replacing"])
def test_a_share_of_zero_changes_no_bit(method, run):
    others = ["training.quantising.learning_rate=0.1", "training.quantising.safe_range=true"]
    record, weights = run(f"method.name={method}", "training.quantising.share=0", *others)
    assert "quantising" not in {*record, *record["stages"]}
    _, plain = run(f"method.name={method}", name="plain")
    assert all(torch.equal(weights[name], value) for name, value in plain.items())


def test_the_method_trains_as_it_would_with_so_many_steps(run):
    shared, _ = run(SHARE, "method.name=kd")
    alone, _ = run("method.name=kd", "training.max_steps=7", name="alone")
    seconds = {"seconds", "eval_seconds"}

    def told(record):
        history = record["stages"]["kd"]["history"]
        return [{key: value for key, value in entry.items() if key not in seconds} for entry in history]

    assert told(shared) == told(alone)


def test_the_learning_rate_and_the_range_can_be_set(run):
    record, weights = run(SHARE, "training.quantising.learning_rate=1e-6", "training.quantising.safe_range=true")
    assert record["quantising"] == {"learning_rate": 1e-6, "safe_range": True}
    _, others = run(
        SHARE, "training.quantising.learning_rate=1e-6", "training.quantising.safe_range=false", name="whole"
    )
    assert any(not torch.equal(weights[name], value) for name, value in others.items())


def test_the_truncated_model_is_trained_in_float32_alone(run, tmp_path):
    record, _ = run(SHARE, "evaluation.truncated=true")
    assert record["stages"]["truncated"]["steps"] == record["steps"] == 10
    run("evaluation.truncated=true", name="plain")
    one, other = (load_file(tmp_path / name / "truncated" / "model.safetensors") for name in ("run", "plain"))
    assert all(torch.equal(one[name], value) for name, value in other.items())


def test_one_step_cannot_be_shared(run):
    with pytest.raises(ConfigError, match=r"training\.quantising\.share is 0\.3, .* and there is 1 step; give more"):
        run(SHARE, "training.max_steps=1")


def test_the_estimate_has_the_stage_and_divides_the_steps(recipe, tiny_expert_folder):
    config = load_config(recipe, [*settings(tiny_expert_folder), SHARE, "method.name=kd"])
    phases = preview(config, QUIET, estimate=True)["estimate"]["phases"]
    assert {name: phases[name]["steps"] for name in ("kd", "quantising")} == {"kd": 7, "quantising": 3}
    assert phases["quantising"]["estimated"] > 0


def test_a_run_that_is_killed_while_quantising_goes_on_to_the_very_weights(recipe, tiny_expert_folder, tmp_path):
    keys = [*settings(tiny_expert_folder), "training.max_steps=60", "training.save_every=2"]
    keys += ["training.quantising.share=0.8", "method.name=finetune"]
    killed = [*keys, f"run.folder={tmp_path / 'killed'}"]
    stage = tmp_path / "killed" / "checkpoints" / "quantising"
    assert kill_when(start(compress_recipe, str(recipe), killed), lambda: last_step(stage) >= 6)
    assert not (tmp_path / "killed" / "record.json").exists()
    assert wait(start(compress_recipe, str(recipe), killed)) == 0
    compress(load_config(recipe, [*keys, f"run.folder={tmp_path / 'whole'}"]), QUIET)
    one, other = (load_file(tmp_path / name / "successor" / "model.safetensors") for name in ("killed", "whole"))
    assert all(torch.equal(one[name], value) for name, value in other.items())


def test_a_search_trains_its_trials_for_int8_and_not_what_it_only_solves(run):
    record, _ = run(SHARE, "run.effort=hours", "training.max_steps=4")
    assert record["stages"]["quantising"]["steps"] == 1
    assert record["steps"] == 4


def test_a_successor_keeps_its_answers_in_int8(run, command, tmp_path):
    run(SHARE, "method.name=kd", "training.max_steps=30", "training.learning_rate=1e-3")
    done = command("export", tmp_path / "run", "--to", "onnx", "--precision", "int8", "--check", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)["check"]
    assert found["equal_answers"] == 1
    assert found["score"] == found["torch_score"] > 0.9


def test_a_language_model_is_trained_for_int8_on_text(run, tiny, tiny_model_folder, tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(text for text, _ in tiny.make_rows(120)), "utf-8")
    recipe = tmp_path / "tiny.toml"
    kept = recipe.read_text("utf-8").split("[plan]")
    recipe.write_text(
        f'[predecessor]\ntraining = {{ max_steps = 4, batch_size = 8 }}\n[task]\nname = "text"\n'
        f"path = {json.dumps(str(corpus))}\ndev_share = 0.2\n[plan]{kept[1]}",
        "utf-8",
    )
    record, _ = run(SHARE, f"predecessor.path={tiny_model_folder}", 'evaluation.ignore_guards=["majority"]')
    assert record["stages"]["quantising"]["steps"] == 3
    AutoModelForMaskedLM.from_pretrained(tmp_path / "run" / "successor")
