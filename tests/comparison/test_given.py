"""Rows of models that were made elsewhere: the same examples, the same test, and a refusal where they do not fit."""

import json

import pytest
from rich.console import Console
from transformers import AutoModelForSequenceClassification

from plankwise.comparison.given import Given
from plankwise.comparison.grid import Variant, run_grid
from plankwise.comparison.tables import figures_of, tabulate
from plankwise.comparison.writing import write_tables
from plankwise.errors import ConfigError, RunError

QUIET = Console(quiet=True)
KD = Variant("kd", ("method.name=kd",))


@pytest.fixture(scope="module")
def compared(trained, tmp_path_factory):
    """The trained predecessor once more, as if made elsewhere, beside a row of one step."""
    folder = tmp_path_factory.mktemp("given")
    recipe = {**trained, "evaluation": {**trained["evaluation"], "latency": True}}
    given = [Given("elsewhere", trained["predecessor"]["path"])]
    (task,) = run_grid([recipe], [KD], [0, 1], folder, QUIET, given)
    return task, folder, recipe


def test_a_given_model_scores_what_it_scores_as_the_predecessor_in_every_seed(compared):
    task, _, _ = compared
    cells = task.cells_of("elsewhere")
    assert [cell.seed for cell in cells] == [0, 1]
    assert {cell.score for cell in cells} == {task.predecessor["score"]}
    assert cells[0].parameters == task.predecessor["parameters"]
    assert task.methods == {"kd": "kd", "elsewhere": "given"}
    assert set(task.latency) == {"kd", "elsewhere"}


def test_its_row_is_tested_and_called_given_and_has_no_seconds(compared, tmp_path):
    task, _, _ = compared
    table = tabulate(task)
    row = next(row for row in table.rows if row.label == "elsewhere")
    assert row.name == "elsewhere, given"
    assert (row.summary.seconds, row.summary.spread) == (None, 0)
    assert figures_of(row)[4] == ""
    assert row.summary.retained == 1
    assert row.verdict.startswith("best baseline")
    assert any(
        note.startswith("given, not trained here, and one model for all seeds: elsewhere (") for note in table.notes
    )
    write_tables([table], tmp_path)
    written = json.loads((tmp_path / "table.json").read_text("utf-8"))["tasks"][0]
    assert written["given"] == {"elsewhere": task.given[0].path}
    assert [one["given"] for one in written["rows"]] == [False, False, True]
    assert "elsewhere, given" in (tmp_path / "table.md").read_text("utf-8")


def test_a_second_call_trains_nothing_and_times_nothing_again(compared, monkeypatch):
    task, folder, recipe = compared
    monkeypatch.setattr("plankwise.comparison.grid._run_cell", lambda *given: pytest.fail("trained again"))
    monkeypatch.setattr("plankwise.comparison.speed.measure_latency", lambda *given, **more: pytest.fail("timed again"))
    (again,) = run_grid([recipe], [KD], [0, 1], folder, QUIET, list(task.given))
    assert again.latency == task.latency
    assert [cell.score for cell in again.cells] == [cell.score for cell in task.cells]


def test_of_a_runs_folder_the_successor_is_taken_with_the_runs_method(compared):
    _, folder, _ = compared
    cell = next(path.parent for path in (folder / "films" / "kd").glob("seed-*/successor"))
    row = Given("again", str(cell))
    assert (row.model, row.method) == (str(cell / "successor"), "kd")


def save_with(trained, folder, tiny, **changes):
    model = AutoModelForSequenceClassification.from_pretrained(trained["predecessor"]["path"])
    for key, value in changes.items():
        setattr(model.config, key, value)
    model.save_pretrained(folder)
    tiny.save_tokenizer(folder)
    return str(folder)


def test_models_that_do_not_fit_the_task_are_refused_before_anything_is_written(
    given, tiny, tiny_model_folder, tmp_path
):
    classes = {0: "apples", 1: "pears"}
    other = save_with(given, tmp_path / "other", tiny, id2label=classes, label2id={v: k for k, v in classes.items()})
    for path, why in ((other, "apples"), (str(tiny_model_folder), "has no trained head"), ("nowhere", "nowhere")):
        with pytest.raises(ConfigError, match=rf"^row 'mine': .*{why}"):
            run_grid([given], [KD], [0], tmp_path / "all", QUIET, [Given("mine", path)])
        assert not (tmp_path / "all").exists()


@pytest.mark.parametrize(
    ("recipes", "rows", "sentence"),
    [
        (1, [Given("kd", "x")], "row label 'kd' is given twice"),
        (1, [Given("a/b", "x")], "row label 'a/b' cannot name a folder"),
        (
            2,
            [Given("mine", "x")],
            "row 'mine' is a trained model, which is for one task, but there are 2 recipes; give one",
        ),
    ],
)
def test_labels_and_recipes_are_checked(given, tmp_path, recipes, rows, sentence):
    data = [{**given, "run": {**given["run"], "name": f"films-{index}"}} for index in range(recipes)]
    with pytest.raises(ConfigError) as error:
        run_grid(data, [KD], [0], tmp_path / "all", QUIET, rows)
    assert str(error.value).startswith(sentence)


def test_answers_in_another_order_of_classes_are_refused_before_training(given, tiny, tmp_path, monkeypatch):
    """A head without names of classes, whose two answers are exchanged."""
    model = AutoModelForSequenceClassification.from_pretrained(given["predecessor"]["path"])
    for value in (model.classifier.weight, model.classifier.bias):
        value.data = value.data.flip(0)
    model.config.id2label, model.config.label2id = {0: "LABEL_0", 1: "LABEL_1"}, {"LABEL_0": 0, "LABEL_1": 1}
    model.save_pretrained(tmp_path / "swapped")
    tiny.save_tokenizer(tmp_path / "swapped")
    monkeypatch.setattr("plankwise.comparison.grid._run_cell", lambda *given: pytest.fail("trained"))
    with pytest.raises(RunError, match=r"^row 'mine': "):
        run_grid([given], [KD], [0], tmp_path / "all", QUIET, [Given("mine", str(tmp_path / "swapped"))])
