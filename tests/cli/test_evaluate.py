import json

import pytest


@pytest.fixture
def task(table_file):
    return [
        "task.name=table",
        f"task.train={table_file}",
        "task.text=sentence",
        "task.label=label",
        "training.max_length=16",
    ]


def test_the_metrics_are_shown_and_written(command, tiny_expert_folder, task, tmp_path):
    result = command("evaluate", tiny_expert_folder, *task, "--out", tmp_path / "metrics.json")
    assert result.code == 0, result.err
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["score"] == metrics["accuracy"] == metrics["f1"] == 1.0
    assert "score     1.0000" in result.out
    assert "dev: 10 examples" in result.out
    assert "train:" not in result.out


def test_a_model_in_a_run_is_scored_on_the_runs_task(command, tiny, recipe, tmp_path):
    from plankwise.config import load_config

    folder = tiny.save_expert(tmp_path / "successor")
    (tmp_path / "config.toml").write_text(load_config(recipe, []).to_toml())
    result = command("evaluate", folder)
    assert result.code == 0, result.err
    assert "score     1.0000" in result.out


def test_without_a_run_the_task_must_be_said(command, tiny_classifier_folder):
    result = command("evaluate", tiny_classifier_folder)
    assert result.code == 2
    assert "does not lie in the folder of a run, so its task is not known; say it, for example task.name=" in result.err


def test_the_folder_of_a_run_is_refused_with_the_model_in_it(command, recipe, tmp_path):
    (tmp_path / "config.toml").touch()
    assert f"is the folder of a run; give one of its models, for example {tmp_path}/successor" in (
        command("evaluate", tmp_path).err
    )


def test_a_model_without_names_and_with_swapped_classes_is_not_scored(command, tiny, task, table_file, tmp_path):
    swapped = table_file.read_text().replace("positive", "0").replace("negative", "1")
    table_file.write_text(swapped)
    result = command("evaluate", tiny.save_expert(tmp_path / "plain", names=("LABEL_0", "LABEL_1")), *task)
    assert result.code == 2
    assert "set task.labels = ['1', '0']" in result.err
    assert "predecessor.finetune" not in result.err


def test_other_names_are_refused(command, tiny, task, tmp_path):
    folder = tiny.save_expert(tmp_path / "other", names=("no", "yes"))
    assert "has the classes no, yes, the task negative, positive" in command("evaluate", folder, *task).err


def test_a_length_that_the_model_does_not_take_is_refused(command, tiny_classifier_folder, task):
    result = command("evaluate", tiny_classifier_folder, *task, "training.max_length=100")
    assert result.code == 2
    assert "training.max_length is 100, but" in result.err


def test_an_encoder_without_a_head_is_refused(command, tiny_model_folder, task):
    assert "has no trained head for this task (labels); give" in command("evaluate", tiny_model_folder, *task).err
