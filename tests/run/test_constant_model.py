"""Models that give every text one answer, made by hand, through every command that scores them: each says so, none is praised."""

import csv
import json

import pytest
import torch
from transformers import AutoModelForSequenceClassification

SAID = "answers only 'negative'"
ADVICE = "train longer (training.epochs), cut less (plan.successors) or try another training.learning_rate"
STILL = ["training.max_steps=1", "training.learning_rate=1e-9", "training.max_length=16"]


def lean(folder, bias):
    """Makes a classifier prefer its first class by a constant."""
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    with torch.no_grad():
        model.classifier.bias.copy_(torch.tensor([bias, -bias]))
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def forgetful(tiny, tmp_path_factory):
    """Is always right; its upper blocks alone, which move nothing between tokens, answer "negative" to everything."""
    return lean(tiny.save_expert(tmp_path_factory.mktemp("models") / "forgetful"), 0.25)


@pytest.fixture(scope="module")
def stubborn(tiny, tmp_path_factory):
    """Answers "negative" to everything."""
    return lean(tiny.save_expert(tmp_path_factory.mktemp("models") / "stubborn"), 50.0)


@pytest.fixture
def keys(table_file):
    task = ["task.name=table", f"task.train={table_file}", "task.text=sentence", "task.label=label"]
    return [*task, *STILL, "plan.init=upper", "evaluation.latency=false", "evaluation.estimate=false"]


def words(result):
    return " ".join(result.out.split())


@pytest.fixture
def empty_recipe(tmp_path):
    path = tmp_path / "films.toml"
    path.write_text("", "utf-8")
    return path


def test_a_constant_successor_is_called_that_in_record_verdict_table_card_and_page(
    command, empty_recipe, forgetful, keys, tmp_path
):
    folder = tmp_path / "run"
    result = command("compress", empty_recipe, *keys, f"predecessor.path={forgetful}", f"run.folder={folder}")
    assert result.code == 0, result.err
    record = json.loads((folder / "record.json").read_text("utf-8"))
    assert record["predecessor"]["score"] == 1.0
    assert record["predecessor"]["beyond_constant"]["shown"] is True
    for name in ("successor", "truncated"):
        found = record[name]["beyond_constant"]
        assert (found["shown"], found["answered"], found["most_answered"]) == (False, 1, "negative")
        assert (found["most_answered_share"], found["constant_score"], found["p"]) == (1.0, record[name]["score"], 1.0)
    assert record["ignored_guards"] == {}
    assert f"the successor {SAID}: {ADVICE}" in words(result)
    assert "50.0%*" in result.out
    card, page = (
        (folder / "successor" / "README.md").read_text("utf-8"),
        (folder / "report.html").read_text("utf-8"),
    )
    assert f"The successor {SAID}: train longer (training.epochs)" in card
    assert "| 50.0%\\* |" in card
    assert "answers only &#x27;negative&#x27;: train longer (training.epochs)" in page
    for text in (card, page, words(command("report", folder))):
        assert "keeps 50" not in text
    assert f"The successor {SAID}: {ADVICE}." in words(command("report", folder))


def test_the_seconds_of_the_three_models_are_told_apart(command, empty_recipe, forgetful, keys, tmp_path):
    folder = tmp_path / "run"
    result = command("compress", empty_recipe, *keys, f"predecessor.path={forgetful}", f"run.folder={folder}")
    record = json.loads((folder / "record.json").read_text("utf-8"))
    assert set(record["seconds_by"]) == {"successor", "truncated"}  # the predecessor was given
    assert record["seconds"] == sum(record["seconds_by"].values())
    assert record["seconds_by"]["truncated"] == record["stages"]["truncated"]["seconds"]
    assert "training: successor " in result.out


def test_a_constant_predecessor_is_refused_and_goes_on_if_the_guard_is_ignored_by_name(
    command, empty_recipe, stubborn, keys, tmp_path
):
    folder = tmp_path / "run"
    arguments = ("compress", empty_recipe, *keys, f"predecessor.path={stubborn}", f"run.folder={folder}")
    refused = command(*arguments)
    assert refused.code == 2
    assert 'or go on anyway with evaluation.ignore_guards=["majority"]' in refused.err
    assert not folder.exists()
    result = command(*arguments, 'evaluation.ignore_guards=["majority"]')
    assert result.code == 0, result.err
    record = json.loads((folder / "record.json").read_text("utf-8"))
    assert list(record["ignored_guards"]) == ["majority"]
    sentence = record["ignored_guards"]["majority"]
    assert sentence in refused.err
    assert "no better than always answering the most frequent class (0.5000)" in sentence
    told = "the guard majority was ignored (evaluation.ignore_guards): the predecessor"
    assert told in words(result)
    assert "The guard majority was ignored" in (folder / "successor" / "README.md").read_text("utf-8")
    assert "The guard majority was ignored" in (folder / "report.html").read_text("utf-8")
    assert f"the predecessor itself {SAID}" in words(command("report", folder))


def test_a_guard_that_does_not_exist_is_refused(command, empty_recipe, stubborn, keys, tmp_path):
    result = command(
        "compress", empty_recipe, *keys, f"predecessor.path={stubborn}", 'evaluation.ignore_guards=["all"]'
    )
    assert result.code == 2
    assert "evaluation.ignore_guards" in result.err
    assert "majority" in result.err


def test_evaluate_says_it_below_the_metrics_and_in_the_file(command, stubborn, keys, tmp_path):
    keys = [key for key in keys if key.startswith(("task.", "training.max_length"))]
    result = command("evaluate", stubborn, *keys, "--out", tmp_path / "metrics.json")
    assert result.code == 0, result.err
    assert f"the model {SAID}: train it longer" in words(result)
    assert json.loads((tmp_path / "metrics.json").read_text("utf-8"))["beyond_constant"]["shown"] is False


def test_finetune_says_it(command, stubborn, keys, tmp_path):
    more = ["predecessor.training.max_steps=1", "predecessor.training.learning_rate=1e-9"]
    result = command("finetune", *keys, *more, f"run.folder={tmp_path / 'tuned'}", "--model", stubborn)
    assert result.code == 0, result.err
    assert f"the model {SAID}: train it longer (predecessor.training.epochs)" in words(result)


def test_a_constant_row_is_no_baseline_and_compare_says_so_everywhere(command, empty_recipe, forgetful, keys, tmp_path):
    keys = [key for key in keys if key != "plan.init=upper"]
    rows = ("--variant", "dead: method.name=finetune plan.init=upper", "--methods", "replacing")
    folder = tmp_path / "all"
    result = command(
        "compare", empty_recipe, *keys, f"predecessor.path={forgetful}", *rows, "--seeds", 1, "--folder", folder
    )
    assert result.code == 0, result.out + result.err
    assert f"dead: {SAID}" in words(result)
    assert f"dead: {ADVICE}" in words(result)
    (task,) = json.loads((folder / "table.json").read_text("utf-8"))["tasks"]
    assert task["baseline"] == "replacing"
    assert [row["verdict"] for row in task["rows"]] == ["", "highest median", SAID]
    assert [row["rank"] for row in task["rows"]] == [None, 1, None]
    (line,) = [line for line in (folder / "table.md").read_text("utf-8").splitlines() if line.startswith("| dead")]
    assert "50.0%*" in line
    assert line.endswith(f"| {SAID} |")
    assert [row["remark"] for row in csv.DictReader((folder / "table.csv").open(encoding="utf-8"))] == ["", "", SAID]
    told = command("report", folder)
    assert "replacing has the highest median" in words(told)
    assert "answers only &#x27;negative&#x27;" in (folder / "report.html").read_text("utf-8")


def test_rows_of_a_predecessor_whose_guard_was_ignored_are_not_praised(command, empty_recipe, stubborn, keys, tmp_path):
    folder = tmp_path / "all"
    arguments = [
        "compare",
        empty_recipe,
        *keys,
        f"predecessor.path={stubborn}",
        'evaluation.ignore_guards=["majority"]',
    ]
    result = command(*arguments, "--methods", "finetune,replacing", "--seeds", 1, "--folder", folder)
    assert result.code == 0, result.out + result.err
    assert f"no row is shown to have learnt the task: {ADVICE}" in words(result)
    assert "best baseline" not in words(result)
    assert "the guard majority was ignored" in (folder / "table.md").read_text("utf-8")
    assert "no row is shown to have learnt the task" in words(command("report", folder))


def test_a_study_says_which_arms_are_constant(command, empty_recipe, forgetful, keys, tmp_path):
    keys = [key for key in keys if key != "plan.init=upper"]
    arguments = [*keys, f"predecessor.path={forgetful}", "--values", "upper,lower", "--seeds", 1]
    result = command("study", "init", empty_recipe, *arguments, "--folder", tmp_path / "study")
    assert result.code == 0, result.out + result.err
    assert f"upper: {SAID}; {ADVICE}" in words(result)
    assert f"- upper: {SAID}" in (tmp_path / "study" / "table.md").read_text("utf-8")
    (task,) = json.loads((tmp_path / "study" / "table.json").read_text("utf-8"))["tasks"]
    assert [(arm["at"], arm["learnt"]) for arm in task["arms"]] == [("upper", False), ("lower", True)]
    assert "lower has the highest median" in words(command("report", tmp_path / "study"))
