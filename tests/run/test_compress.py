"""The whole flow on a tiny encoder and a table: one command, from raw data to a checkpoint."""

import json
import tomllib

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification

from plankwise.config import load_config, validate_config
from plankwise.errors import ConfigError
from plankwise.run.compress import compress
from plankwise.task_kinds.labels import prepare_task
from workers import compress as compress_recipe
from workers import kill_when, last_step, start, wait

QUIET = Console(quiet=True)
MODEL_KEYS = {"parameters", "size_mb", "score", "metrics", "latency_ms"}


def make_settings(folder, table, encoder):
    """Overrides for a run of a few seconds in which the tiny predecessor learns the task."""
    return [
        f"run.folder={folder}",
        f"predecessor.path={encoder}",
        "predecessor.training.epochs=12",
        "predecessor.training.learning_rate=3e-3",
        "predecessor.training.batch_size=8",
        "task.name=table",
        f"task.train={table}",
        "task.text=sentence",
        "task.label=label",
        "training.epochs=6",
        "training.batch_size=8",
        "training.max_length=16",
        "training.learning_rate=1e-3",
        "evaluation.latency_batch_sizes=[1]",
        "evaluation.latency_predictions=2",
    ]


@pytest.fixture
def settings(tmp_path, table_file, tiny_model_folder):
    return make_settings(tmp_path / "run", table_file, tiny_model_folder)


@pytest.fixture(scope="module")
def finished(tmp_path_factory, tiny, tiny_model_folder):
    """A run that is done once for all tests that only look at it: its config, its record, its folder."""
    place = tmp_path_factory.mktemp("finished")
    config = load_config(None, make_settings(place / "run", tiny.save_table(place / "reviews.csv"), tiny_model_folder))
    return config, compress(config, QUIET), place / "run"


def test_a_run_leaves_a_config_a_record_and_a_successor_that_plain_transformers_loads(finished):
    config, record, folder = finished
    assert {path.name for path in folder.iterdir()} == {
        "config.toml",
        "log.txt",
        "record.json",
        "predecessor",
        "successor",
        "truncated",
    }
    assert validate_config(tomllib.loads((folder / "config.toml").read_text())) == config
    assert json.loads((folder / "record.json").read_text()) == json.loads(json.dumps(record))
    for name in ("predecessor", "successor", "truncated"):
        assert record[name].keys() >= MODEL_KEYS
    successor = AutoModelForSequenceClassification.from_pretrained(folder / "successor")
    assert successor.config.num_hidden_layers == 2
    assert successor.config.id2label == {0: "negative", 1: "positive"}
    assert sum(p.numel() for p in successor.parameters()) == record["successor"]["parameters"]
    assert not list(folder.rglob("*.bin")) + list(folder.rglob("*.pt*"))


def test_the_figures_of_the_record_follow_from_each_other(finished):
    _, record, _ = finished
    before, after = record["predecessor"], record["successor"]
    assert record["retained"] == after["score"] / before["score"]
    assert record["compression_ratio"] == before["parameters"] / after["parameters"]
    (faster,) = record["speedups"]["successor"].values()
    assert record["speedup"] == after["speedup"] == faster["median"]
    assert record["speedup_interval"] == after["speedup_interval"] == [faster["low"], faster["high"]]
    assert record["timing"]["bound"]["successor"] == before["multiply_adds"] / after["multiply_adds"]
    assert record["timing"]["rounds"] == {"1": after["latency"]["1"]["predictions"]}
    assert record["steps"] == 30
    assert 0 <= record["skipped_steps"] < 15
    assert record["stages"]["replacing"]["best_score"] == after["score"]
    assert (
        record["task"]["train"] + record["task"]["dev"]["dev"] + sum(record["task"]["dropped"]["train"].values()) == 48
    )
    assert before["score"] > 0.9  # the label is told by one word
    for name, stage in {"predecessor": "predecessor", "successor": "replacing", "truncated": "truncated"}.items():
        held_back = record[name]["held_back"]
        assert held_back == record["stages"][stage]["held_back"]
        assert held_back["chosen_among"] == sum("eval_score" in entry for entry in record["stages"][stage]["history"])
    assert record["seconds_by"].keys() == {"predecessor", "successor", "truncated"}
    assert record["seconds"] == sum(record["seconds_by"].values())
    logs = [entry for entry in record["stages"]["replacing"]["history"] if "loss" in entry]
    assert all(entry["expected_learning_rate"] <= entry["learning_rate"] for entry in logs)


def test_the_same_command_again_changes_nothing_and_gives_the_same_record(finished):
    config, record, folder = finished
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert compress(config, QUIET) == json.loads(json.dumps(record))
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_running_its_own_config_repeats_the_run(finished, tmp_path):
    _, record, folder = finished
    again = load_config(folder / "config.toml", [f"run.folder={tmp_path / 'again'}"])
    assert compress(again, QUIET)["successor"]["metrics"] == record["successor"]["metrics"]
    one, two = (load_file(run / "successor" / "model.safetensors") for run in (folder, tmp_path / "again"))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_a_trained_predecessor_is_taken_as_it_is(finished, tmp_path):
    _, before, folder = finished
    trained = folder / "predecessor"
    given = [f"predecessor.path={trained}", f"run.folder={tmp_path / 'second'}", "evaluation.truncated=false"]
    record = compress(load_config(folder / "config.toml", given), QUIET)
    assert record["predecessor"]["path"] == str(trained)
    assert record["predecessor"]["score"] == before["predecessor"]["score"]
    assert not (tmp_path / "second" / "predecessor").exists()
    assert "truncated" not in record
    assert record["successor"]["metrics"] == before["successor"]["metrics"]


@pytest.mark.parametrize(
    ("extra", "depth"),
    [
        (["method.mode=reference"], 2),
        (["method.name=finetune"], 2),
        (["plan.spans=[[1, 2]]", "method.unfreeze=all", "method.schedule.kind=constant"], 3),
        (["plan.successors=1", "plan.init=mean", "method.schedule={kind='slope', k=0.1, b=0.2}"], 1),
        (
            [
                'plan.slots=[{path="bert.encoder.layer", span=[0, 1]}, {path="bert.embeddings"}]',
                "training.accumulation=2",
            ],
            3,
        ),
    ],
)
def test_other_methods_plans_and_schedules_run_through(settings, extra, depth, tmp_path):
    quick = [
        "predecessor.training.epochs=6",
        "training.epochs=2",
        "evaluation.truncated=false",
        "evaluation.latency=false",
    ]
    record = compress(load_config(None, [*settings, *quick, *extra]), QUIET)
    successor = AutoModelForSequenceClassification.from_pretrained(tmp_path / "run" / "successor")
    assert successor.config.num_hidden_layers == depth
    assert record["steps"] == 10
    assert record["speedup"] is None


def test_a_run_killed_again_and_again_ends_with_the_very_successor_of_one_left_alone(settings, tmp_path):
    quick = [
        *settings,
        "evaluation.latency=false",
        "evaluation.estimate=false",
        "training.save_every=2",
        "predecessor.training.save_every=3",
        "plan.init=fitted",
        "method.alpha=0.5",
    ]
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(load_config(None, quick).to_toml())
    whole = start(compress_recipe, str(recipe), [f"run.folder={tmp_path / 'whole'}"])
    kills = 0
    for stage, step in (("predecessor", 9), ("fitting", 4), ("replacing", 14), ("truncated", 8)):
        folder = tmp_path / "run" / "checkpoints" / stage
        worker = start(compress_recipe, str(recipe), [])
        kills += kill_when(worker, lambda folder=folder, step=step: last_step(folder) >= step)
    assert kills >= 2  # four, unless the machine stood still at the wrong moment
    assert wait(start(compress_recipe, str(recipe), [])) == 0
    assert wait(whole) == 0
    for name in ("predecessor", "successor", "truncated"):
        killed, whole = (load_file(tmp_path / run / name / "model.safetensors") for run in ("run", "whole"))
        assert all(torch.equal(killed[key], whole[key]) for key in whole), name
    assert not [path for path in (tmp_path / "run").rglob("*") if path.suffix == ".part"]


def test_a_fitted_start_shares_the_budget_with_the_method_and_its_error_is_in_the_record(settings):
    record = compress(load_config(None, [*settings, "plan.init=fitted", "plan.fitting.share=0.2"]), QUIET)
    stages = record["stages"]
    assert stages["fitting"]["steps"] + stages["replacing"]["steps"] == record["steps"] == stages["truncated"]["steps"]
    assert stages["fitting"]["steps"] == round(0.2 * record["steps"])
    fitting = record["fitting"]
    assert len(fitting["relative_error"]) == len(fitting["relative_error_before"]) == 2
    assert fitting["texts"] == record["task"]["train"]


def test_the_record_says_what_keeping_the_predecessors_outputs_saved(settings):
    record = compress(load_config(None, [*settings, "method.name=kd", "evaluation.truncated=false"]), QUIET)
    targets = record["targets"]
    assert (targets["names"], targets["kept"], targets["passes_saved"]) == (["logits"], "memory", 5)
    assert targets["seconds_saved"] == 5 * targets["seconds"] > 0
    trained = sum(stage["seconds"] for stage in record["stages"].values())
    assert record["seconds"] == pytest.approx(trained + targets["seconds"])


def test_one_step_cannot_be_shared_with_fitting(settings):
    with pytest.raises(ConfigError, match="shares the training steps with the method, and there is 1 step"):
        compress(load_config(None, [*settings, "plan.init=fitted", "training.max_steps=1"]), QUIET)


def test_the_seed_of_the_data_alone_decides_which_examples_there_are(settings):
    rows = {}
    for seed, data_seed in ((1, 5), (2, 5), (5, None)):
        extra = [f"run.seed={seed}"] if data_seed is None else [f"run.seed={seed}", f"run.data_seed={data_seed}"]
        config = load_config(None, [*settings, *extra])
        _, prepared = prepare_task(config, QUIET)
        rows[seed] = prepared.dev["dev"]["text"].to_pylist()
    assert rows[1] == rows[2] == rows[5]


@pytest.mark.skipif(torch.cuda.is_available(), reason="float16 works on this machine")
@pytest.mark.parametrize("section", ["training", "predecessor.training"])
def test_half_precision_without_a_gpu_is_refused_before_anything_is_written(settings, section, tmp_path):
    with pytest.raises(ConfigError, match=rf"^{section}.precision is 'float16', which needs a GPU"):
        compress(load_config(None, [*settings, f"{section}.precision=float16"]), QUIET)
    assert not (tmp_path / "run").exists()
