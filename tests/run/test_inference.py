import csv
import io

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from plankwise.config import validate_config
from plankwise.data.pieces import Layout
from plankwise.errors import ConfigError, DataError
from plankwise.evaluation.predict import predict
from plankwise.models.loading import Loader
from plankwise.run import inference
from plankwise.task_kinds import _label_predictions as predictions


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=200)


def config_of(model, /, **task):
    sections = {"predecessor": {"path": str(model)}, "training": {"max_length": 16}}
    return validate_config({**sections, "task": task} if task else sections)


@pytest.fixture
def rte(tmp_path):
    """RTE's test file in the distributed layout, with ids that are not row numbers."""
    folder = tmp_path / "RTE"
    folder.mkdir()
    rows = "0\tthe film is fine\ta film\n5\tthe plot was dull\tthe end\n9\ta scene\tvery weak music and plot\n"
    (folder / "test.tsv").write_text("index\tsentence1\tsentence2\n" + rows, "utf-8")
    return folder


def read_csv(path):
    return list(csv.DictReader(path.open(encoding="utf-8")))


def test_predictions_name_the_class_with_the_highest_logit(tiny_classifier_folder, table_file, tmp_path, console):
    config = config_of(tiny_classifier_folder)
    inference.predict_table(config, table_file, ["sentence"], Layout(), tmp_path / "out.csv", console)
    classifier = predictions.Classifier(config, Loader())
    table = pa.table({"text": [row["sentence"] for row in read_csv(table_file)]})
    logits = classifier.outputs(table, console)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    found = read_csv(tmp_path / "out.csv")
    assert [row["prediction"] for row in found] == [("negative", "positive")[i] for i in logits.argmax(axis=1)]
    assert np.allclose([float(row["confidence"]) for row in found], shares.max(axis=1), atol=1e-4)


def test_a_large_table_is_predicted_in_chunks_without_losing_the_order(
    tiny_classifier_folder, tiny, console, monkeypatch
):
    classifier = predictions.Classifier(config_of(tiny_classifier_folder), Loader())
    table = pa.table({"text": [text for text, _ in tiny.make_rows(11)]})
    whole = classifier.outputs(table, console)
    monkeypatch.setattr(predictions, "CHUNK", 4)
    assert np.allclose(classifier.outputs(table, console), whole, atol=1e-5)
    assert len(np.unique(whole, axis=0)) == 11


def test_texts_that_are_cut_are_counted_over_all_chunks(tiny_classifier_folder, console, monkeypatch):
    classifier = predictions.Classifier(config_of(tiny_classifier_folder), Loader())
    monkeypatch.setattr(predictions, "CHUNK", 2)
    classifier.outputs(pa.table({"text": ["film", "film " * 20, "plot", "plot " * 30, "end"]}), console)
    assert "2 of 5 texts were longer than 16 tokens and cut" in console.file.getvalue()


def test_a_model_with_one_output_gives_numbers(tiny, table_file, tmp_path, console):
    folder = tiny.save_bert(tmp_path / "numbers", names=("LABEL_0",))
    config = config_of(folder)
    inference.predict_table(config, table_file, ["sentence"], Layout(), tmp_path / "out.csv", console)
    found = read_csv(tmp_path / "out.csv")
    assert len(found) == 48
    assert list(found[0]) == ["sentence", "label", "prediction"]
    assert len({float(row["prediction"]) for row in found}) > 1


@pytest.mark.parametrize(
    "names",
    [("entailment", "not_entailment"), ("NOT_ENTAILMENT", "entailment"), ("LABEL_0", "LABEL_1")],
)
def test_a_submission_has_the_boards_header_and_labels_in_any_order_of_classes(
    tiny, rte, tmp_path, console, monkeypatch, names
):
    folder = tiny.save_bert(tmp_path / "model", names=names)
    logits = np.array([[2.0, 0.0], [0.0, 2.0], [1.0, 0.0]])
    monkeypatch.setattr(predictions, "predict", lambda *args: logits)
    config = config_of(folder, name="glue", subset="rte", folder=str(rte))
    assert inference.predict_tests(config, tmp_path / "board", console) == [tmp_path / "board" / "RTE.tsv"]
    lines = [line.split("\t") for line in (tmp_path / "board" / "RTE.tsv").read_text().splitlines()]
    first, second = ("not_entailment", "entailment") if names[0].startswith("NOT") else ("entailment", "not_entailment")
    assert lines == [["index", "prediction"], ["0", first], ["5", second], ["9", first]]


def test_a_submission_with_other_classes_is_refused(tiny_classifier_folder, rte, tmp_path, console):
    config = config_of(tiny_classifier_folder, name="glue", subset="rte", folder=str(rte))
    with pytest.raises(
        DataError, match=r"has the classes negative, positive, the task entailment, not_entailment; give"
    ):
        inference.predict_tests(config, tmp_path / "board", console)
    assert not (tmp_path / "board").exists()


def test_the_test_file_of_a_table_task_is_predicted(tiny_classifier_folder, table_file, tmp_path, console):
    (tmp_path / "new.csv").write_text("number,sentence\n7,fine film\n8,dull plot\n")
    task = {"train": str(table_file), "test": str(tmp_path / "new.csv"), "text": "sentence", "label": "label"}
    config = config_of(tiny_classifier_folder, name="table", **task)
    assert inference.predict_tests(config, tmp_path / "out", console) == [tmp_path / "out" / "new.csv"]
    found = read_csv(tmp_path / "out" / "new.csv")
    assert [(row["number"], row["sentence"]) for row in found] == [("7", "fine film"), ("8", "dull plot")]
    assert list(found[0]) == ["number", "sentence", "prediction", "confidence"]


def test_a_table_that_changes_meanwhile_is_refused_and_nothing_written(
    tiny_classifier_folder, table_file, tmp_path, console, monkeypatch
):
    before = predictions.Classifier.outputs

    def outputs(self, table, console):
        with table_file.open("a") as file:
            file.write("one more,positive\n")
        return before(self, table, console)

    monkeypatch.setattr(predictions.Classifier, "outputs", outputs)
    with pytest.raises(DataError, match="another number of rows than the 48 that were predicted"):
        inference.predict_table(
            config_of(tiny_classifier_folder), table_file, ["sentence"], Layout(), tmp_path / "out.csv", console
        )
    assert not (tmp_path / "out.csv").exists()


def test_a_task_without_tests_and_a_file_for_a_folder_are_refused(
    tiny_classifier_folder, table_file, tmp_path, console
):
    config = config_of(tiny_classifier_folder, name="table", train=str(table_file), text="sentence", label="label")
    with pytest.raises(DataError, match=r"task.test is not given; .*or give --table and --text"):
        inference.predict_tests(config, tmp_path / "out", console)
    with pytest.raises(ConfigError, match=r"which is a file; test files are written into a folder"):
        inference.predict_tests(config, table_file, console)


def test_a_table_is_scored_on_dev_alone(tiny_classifier_folder, table_file, console, monkeypatch):
    seen = []

    def count(model, encoded, *args):
        seen.append(len(encoded.lengths))
        return predict(model, encoded, *args)

    monkeypatch.setattr("plankwise.evaluation.scoring.predict", count)
    task = {"train": str(table_file), "text": "sentence", "label": "label", "dev_share": 0.25}
    metrics = inference.evaluate(config_of(tiny_classifier_folder, name="table", **task), console)
    assert seen == [12]
    assert 0 <= metrics["score"] <= 1
