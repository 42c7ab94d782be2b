import json

import torch
from transformers import AutoModelForSequenceClassification


def test_a_model_is_trained_on_a_task_and_loads_with_plain_transformers(command, recipe, tiny_model_folder, tmp_path):
    out = tmp_path / "tuned"
    result = command("finetune", recipe, f"run.folder={out}", "--model", tiny_model_folder)
    assert result.code == 0, result.err
    record = json.loads((out / "record.json").read_text())
    assert f"model: {out / 'model'}" in result.out.replace("\n", "")
    assert record["model"]["score"] > 0.6
    assert 0 < record["seconds_to_best"] <= record["seconds"]
    assert AutoModelForSequenceClassification.from_pretrained(out / "model").config.num_hidden_layers == 4


def test_the_same_command_again_shows_the_results_and_trains_nothing(command, recipe, tiny_model_folder, tmp_path):
    arguments = ("finetune", recipe, f"run.folder={tmp_path / 'tuned'}", "--model", tiny_model_folder)
    command(*arguments)
    weights = (tmp_path / "tuned" / "model" / "model.safetensors").stat().st_mtime_ns
    result = command(*arguments)
    assert "is finished already" in " ".join(result.out.split())
    assert (tmp_path / "tuned" / "model" / "model.safetensors").stat().st_mtime_ns == weights


def test_the_task_may_be_said_by_keys_alone(command, table_file, tiny_model_folder, tmp_path):
    keys = ["task.name=table", f"task.train={table_file}", "task.text=sentence", "task.label=label"]
    keys += ["predecessor.training.max_steps=1", "training.max_length=16", "evaluation.latency=false"]
    result = command("finetune", *keys, f"run.folder={tmp_path / 'tuned'}", "--model", tiny_model_folder)
    assert result.code == 0, result.err


def test_a_successor_of_a_run_is_trained_further(command, recipe, tmp_path):
    command("compress", recipe, "evaluation.latency=false", "evaluation.floor=false")
    given = tmp_path / "run" / "successor"
    out = tmp_path / "tuned"
    result = command("finetune", recipe, f"run.folder={out}", "evaluation.latency=false", "--model", given)
    assert result.code == 0, result.err
    before, after = (AutoModelForSequenceClassification.from_pretrained(path) for path in (given, out / "model"))
    assert after.config.num_hidden_layers == 2
    assert not torch.equal(before.classifier.weight, after.classifier.weight)


def test_two_recipes_are_refused(command, recipe, tiny_model_folder):
    result = command("finetune", recipe, recipe, "--model", tiny_model_folder)
    assert result.code == 2
    assert "a model is trained on one task" in result.err


def test_a_model_that_is_not_there_is_refused_before_anything_is_written(command, recipe, tmp_path):
    result = command("finetune", recipe, f"run.folder={tmp_path / 'tuned'}", "--model", tmp_path / "none")
    assert result.code == 2
    assert "does not exist" in result.err
    assert not (tmp_path / "tuned").exists()


def test_without_a_model_the_recipes_own_predecessor_is_trained(command, recipe, tiny_model_folder, tmp_path):
    keys = ["predecessor.training.max_steps=1", "evaluation.latency=false"]
    result = command("finetune", recipe, *keys, f"run.folder={tmp_path / 'tuned'}")
    assert result.code == 0, result.err
    record = json.loads((tmp_path / "tuned" / "record.json").read_text())
    assert record["config"]["predecessor"]["path"] == str(tiny_model_folder)
