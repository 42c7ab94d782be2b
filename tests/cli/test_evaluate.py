import json

import pytest
import torch
from transformers import AutoModelForSequenceClassification


@pytest.fixture
def task(table_file):
    return [
        "task.name=table",
        f"task.train={table_file}",
        "task.text=sentence",
        "task.label=label",
        "training.max_length=16",
    ]


@pytest.fixture
def good_at_it(tiny_classifier_folder, tmp_path, tiny):
    """A classifier that is always right: its head reads a token's own embedding. Class names as given."""

    def save(*names):
        folder = tiny.save_bert(tmp_path / "-".join(names), names=names)
        model = AutoModelForSequenceClassification.from_pretrained(folder)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
            words = model.bert.embeddings.word_embeddings.weight
            words[5:9, 0], words[9:13, 0] = 1.0, -1.0  # the good and the bad words, by their place in the vocabulary
            for name, module in model.named_modules():
                if name.endswith("LayerNorm"):
                    module.weight.fill_(1.0)
            for name in ("query", "key", "value"):  # one layer's attention carries the mean over all tokens
                getattr(model.bert.encoder.layer[0].attention.self, name).weight.zero_()
            model.bert.encoder.layer[0].attention.self.value.weight.copy_(torch.eye(32))
            model.bert.encoder.layer[0].attention.output.dense.weight.copy_(torch.eye(32))
            model.bert.pooler.dense.weight.copy_(torch.eye(32))
            model.classifier.weight[0, 0], model.classifier.weight[1, 0] = -1.0, 1.0
        model.save_pretrained(folder)
        return folder

    return save


def test_the_metrics_are_shown_and_written(command, good_at_it, task, tmp_path):
    folder = good_at_it("negative", "positive")
    result = command("evaluate", folder, *task, "--out", tmp_path / "metrics.json")
    assert result.code == 0, result.err
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["score"] == metrics["accuracy"] == metrics["f1"] == 1.0
    assert "score     1.0000" in result.out
    assert "dev: 10 examples" in result.out
    assert "train:" not in result.out


def test_a_model_in_a_run_is_scored_on_the_runs_task(command, good_at_it, recipe, tmp_path):
    from plankwise.config import load_config

    folder = good_at_it("negative", "positive").rename(tmp_path / "successor")
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


def test_a_model_without_names_and_with_swapped_classes_is_not_scored(command, good_at_it, task, table_file):
    swapped = table_file.read_text().replace("positive", "0").replace("negative", "1")
    table_file.write_text(swapped)
    result = command("evaluate", good_at_it("LABEL_0", "LABEL_1"), *task)
    assert result.code == 2
    assert "set task.labels = ['1', '0']" in result.err
    assert "predecessor.finetune" not in result.err


def test_other_names_are_refused(command, good_at_it, task):
    assert (
        "has the classes no, yes, the task negative, positive"
        in command("evaluate", good_at_it("no", "yes"), *task).err
    )


def test_a_length_that_the_model_does_not_take_is_refused(command, tiny_classifier_folder, task):
    result = command("evaluate", tiny_classifier_folder, *task, "training.max_length=100")
    assert result.code == 2
    assert "training.max_length is 100, but" in result.err


def test_an_encoder_without_a_head_is_refused(command, tiny_model_folder, task):
    assert "has no trained head for classification; give" in command("evaluate", tiny_model_folder, *task).err
