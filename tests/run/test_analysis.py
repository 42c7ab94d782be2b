"""The analysis of a finished run: two tiny models, neither trained, and the record that names them."""

import inspect
import json
import shutil

import pytest
import torch
from rich.console import Console
from transformers import AutoModelForSequenceClassification

from plankwise.config import validate_config
from plankwise.errors import ConfigError, DataError, RunError
from plankwise.evaluation.cost import measure_cost
from plankwise.evaluation.latency import Speed
from plankwise.evaluation.speedup import Speedup
from plankwise.record import Shown
from plankwise.report.card import write_card
from plankwise.run import analysis
from plankwise.run.analysis import AnalysisRequest, analyse
from plankwise.run.inference import evaluate

QUIET = Console(quiet=True)
PLAN = [{"path": "bert.encoder.layer", "span": span, "part": "layers"} for span in ([0, 1], [2, 3])]
ERRORS = AnalysisRequest(sections=("errors",))


@pytest.fixture
def make_run(tmp_path, table_file, tiny):
    """Writes what a finished run leaves: its config, its record, and two models with these classes."""

    def make(names=("negative", "positive"), folder="run", seeds=(0, 3), **sections):
        place = tmp_path / folder
        depths = {"predecessor": 4, "successor": 2}
        for seed, (name, depth) in zip(seeds, depths.items(), strict=True):
            tiny.save_bert(place / name, seed=seed, names=names, num_hidden_layers=depth, initializer_range=1.0)
        table = {"name": "table", "train": str(table_file), "text": "sentence", "label": "label", "dev_share": 0.5}
        data = {"task": table, "training": {"max_length": 16}, "run": {"folder": str(place)}, **sections}
        (place / "config.toml").write_text(validate_config(data).to_toml(), "utf-8")
        record = {name: {"path": str(place / name)} for name in depths} | {"plan": PLAN, "retained": 0.9}
        (place / "record.json").write_text(json.dumps(record), "utf-8")
        return place

    return make


SPEED = Speed(
    latency={name: {"8": {"p50_ms": time}} for name, time in {"predecessor": 30.0, "successor": 20.0}.items()},
    speedups={"successor": {"8": Speedup(1.5, 1.45, 1.55, steady=True)}},
    measured={},
    bound={"successor": 2.0},
    multiply_adds={"predecessor": 600, "successor": 300},
    uncounted={},
    conditions={"device": "cpu", "threads": 1, "rounds": {"8": 100}, "batch_sizes": [8]},
)


@pytest.fixture
def cheap_cost(monkeypatch):
    """The costs are not measured; gives what was asked for, by the names in the real function's signature."""
    asked = {}

    def record_what_is_asked(*args, **kwargs):
        asked.update(inspect.signature(measure_cost).bind(*args, **kwargs).arguments)
        return {"device": "cpu"}, SPEED

    monkeypatch.setattr(analysis, "measure_cost", record_what_is_asked)
    return asked


def read(folder):
    return json.loads((folder / "record.json").read_text("utf-8"))


def score(folder, model):
    """The metrics of `plankwise evaluate` on the run's own dev examples."""
    from plankwise.cli._models import config_for

    return evaluate(config_for(str(folder / model), []), QUIET)


def test_all_parts_are_added_to_the_record_and_the_rest_stays(make_run, cheap_cost):
    folder = make_run()
    record = analyse(
        folder, AnalysisRequest(batch_sizes=(1, 3), predictions=2, threads=1, sentence="a fine film"), QUIET
    )
    assert record == read(folder)
    assert record["retained"] == 0.9
    assert record["analysis"].keys() == {"errors", "inside", "cost"}
    assert record["analysis"]["inside"]["paths"]["sentence"] == "a fine film"
    assert len(record["analysis"]["inside"]["impact"]["slots"]) == 2
    models, timed = cheap_cost["models"], cheap_cost["timed"]
    assert list(models.paths) == ["predecessor", "successor"]
    assert (cheap_cost["batch_sizes"], cheap_cost["predictions"], cheap_cost["threads"]) == ([1, 3], 2, 1)
    assert (len(timed.texts), timed.encode([("film " * 99,)])["input_ids"].shape) == (24, (1, 16))
    assert models.open(str(folder / "successor")).module.config.num_hidden_layers == 2


def test_the_measured_speed_is_the_records_own_from_then_on_and_a_card_that_nobody_edited_shows_it(
    make_run, cheap_cost
):
    folder = make_run()
    record = read(folder) | {"task": {"name": "films", "shown": Shown("accuracy").to_json()}, "speedup": 2.59}
    for name in ("predecessor", "successor"):
        record[name] |= {"score": 0.9, "parameters": 9, "speedup": 2.59, "latency": {"1": {"p50_ms": 7.0}}}
    (folder / "record.json").write_text(json.dumps(record), "utf-8")
    card = write_card(record, folder / "successor")
    assert "2.59×" in card.read_text("utf-8")
    only_cost = AnalysisRequest(sections=("cost",))
    record = analyse(folder, only_cost, QUIET)
    assert (record["speedup"], record["successor"]["speedup_interval"]) == (1.5, [1.45, 1.55])
    assert list(record["successor"]["latency"]) == ["8"]
    assert "1.50× (1.45–1.55)" in card.read_text("utf-8")
    assert "2.59×" not in card.read_text("utf-8")
    card.write_text("my own words", "utf-8")
    analyse(folder, only_cost, QUIET)
    assert card.read_text("utf-8") == "my own words"


def test_the_cells_agree_with_the_scores_of_evaluate(make_run):
    folder = make_run()
    found = analyse(folder, ERRORS, QUIET)["analysis"]["errors"]
    cells, count = found["cells"], found["examples"]
    assert count == sum(cells.values()) == 24
    assert 0 < cells["lost"] + cells["gained"] == found["flips_total"]
    assert (cells["both_right"] + cells["lost"]) / count == pytest.approx(score(folder, "predecessor")["accuracy"])
    assert (cells["both_right"] + cells["gained"]) / count == pytest.approx(score(folder, "successor")["accuracy"])


def test_classes_are_in_the_tasks_own_order_also_where_the_models_have_another(make_run, tiny, tmp_path):
    rows = [f"{index}\t{text}\tthe plot\t" for index, (text, _) in enumerate(tiny.make_rows(40))]
    for name in ("train", "dev"):
        lines = [f"{row}{('entailment', 'not_entailment')[index % 2]}" for index, row in enumerate(rows)]
        (tmp_path / f"{name}.tsv").write_text("\n".join(["index\tsentence1\tsentence2\tlabel", *lines]), "utf-8")
    names, found = ["entailment", "not_entailment"], []
    for labels in (names, names[::-1]):
        task = {"name": "glue", "subset": "rte", "folder": str(tmp_path), "labels": labels, "overlap": "keep"}
        folder = make_run(tuple(labels), folder=labels[0], task=task)
        if labels != names:
            for model in ("predecessor", "successor"):
                swap_classes(tmp_path / names[0] / model, folder / model)
        found.append(analyse(folder, ERRORS, QUIET)["analysis"]["errors"])
    assert found[0]["labels"] == found[1]["labels"] == names
    assert found[0]["confusion"] == found[1]["confusion"]
    assert found[0]["classes"] == found[1]["classes"]
    assert [flip["row"] for flip in found[0]["flips"]] == [flip["row"] for flip in found[1]["flips"]]
    assert found[0]["flips"][0]["text_pair"] == "the plot"


def swap_classes(given, wanted):
    """Saves the classifier with its two outputs exchanged."""
    model = AutoModelForSequenceClassification.from_pretrained(given)
    with torch.no_grad():
        for parameter in model.classifier.parameters():
            parameter.copy_(parameter.flip(0))
    model.save_pretrained(wanted)


def test_parts_that_are_not_asked_for_are_kept(make_run, cheap_cost):
    folder = make_run()
    before = analyse(folder, ERRORS, QUIET)["analysis"]
    after = analyse(folder, AnalysisRequest(sections=("cost",)), QUIET)["analysis"]
    assert after == {**before, "cost": {"device": "cpu"}}


def test_a_run_that_was_moved_is_analysed_where_it_lies(make_run, tmp_path):
    make_run()
    shutil.move(tmp_path / "run", tmp_path / "elsewhere")
    assert analyse(tmp_path / "elsewhere", ERRORS, QUIET)["analysis"]["errors"]["examples"] == 24


def test_a_predecessor_that_was_given_is_taken_from_where_the_record_says(make_run, tmp_path):
    folder = make_run()
    within = analyse(folder, ERRORS, QUIET)["analysis"]
    shutil.move(folder / "predecessor", tmp_path / "given")
    record = read(folder)
    record["predecessor"]["path"] = str(tmp_path / "given")
    (folder / "record.json").write_text(json.dumps(record))
    assert analyse(folder, ERRORS, QUIET)["analysis"] == within
    shutil.rmtree(tmp_path / "given")
    with pytest.raises(ConfigError, match="given does not exist; give an existing folder"):
        analyse(folder, ERRORS, QUIET)
    assert read(folder)["analysis"] == within


def test_rules_are_those_of_the_config_or_of_another_recipe(make_run, tmp_path):
    folder = make_run(analysis={"rules": [{"kind": "length", "above": 3}], "margin": 0.1})
    classes = analyse(folder, ERRORS, QUIET)["analysis"]["errors"]["classes"]
    assert classes["rules"] == [{"name": "length", "rule": "more than 3 words"}]
    assert classes["margin"] == 0.1
    assert all(row["before"]["share"] == 1 for row in classes["rows"])  # all texts have four words
    assert classes["rows"]
    recipe = tmp_path / "rules.toml"
    recipe.write_text("[analysis]\nrules = [{kind = 'regex', name = 'films', pattern = '^film'}]\ntexts = false")
    found = analyse(folder, AnalysisRequest(sections=("errors",), recipe=recipe), QUIET)["analysis"]["errors"]
    assert {row["name"] for row in found["classes"]["rows"]} == {"films"}
    assert {flip["text"] for flip in found["flips"]} == {""}


def test_labels_by_hand_are_read_back_and_stay_until_others_come(make_run, tmp_path):
    folder, sheet = make_run(), tmp_path / "errors.csv"
    analyse(folder, AnalysisRequest(sections=("errors",), sample=sheet, count=6), QUIET)
    sheet.write_text("\n".join(f"{line}{'odd' * (i > 0)}" for i, line in enumerate(sheet.read_text().splitlines())))
    found = analyse(folder, AnalysisRequest(sections=("errors",), labels=sheet), QUIET)["analysis"]["errors"]
    assert found["hand_labels"]["labelled"] == 6
    assert {row["name"] for row in found["hand_labels"]["rows"]} == {"odd"}
    assert analyse(folder, ERRORS, QUIET)["analysis"]["errors"]["hand_labels"] == found["hand_labels"]
    other = make_run(folder="other", seeds=(5, 7))
    with pytest.raises(DataError, match=r"csv line \d: (predecessor|successor) is .* of this run"):
        analyse(other, AnalysisRequest(sections=("errors",), labels=sheet), QUIET)
    assert "analysis" not in read(other)


def number_run(make_run, table_file):
    table_file.write_text("sentence,label\n" + "".join(f"film {'plot ' * n},{n / 2}\n" for n in range(12)), "utf-8")
    task = {"name": "table", "train": str(table_file), "text": "sentence", "label": "label", "kind": "number"}
    return make_run(("LABEL_0",), task=task)


def test_a_task_on_numbers_has_no_errors_and_says_so(make_run, table_file, capsys):
    folder = number_run(make_run, table_file)
    analysed = analyse(folder, AnalysisRequest(sections=("errors", "inside")), Console(width=200))["analysis"]
    assert analysed.keys() == {"inside"}
    assert "errors: left out, since the task is on numbers" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="task is on numbers, so no answer is right or wrong; leave --sample"):
        analyse(folder, AnalysisRequest(sections=("errors",), sample=folder / "errors.csv"), QUIET)


def test_a_text_task_has_a_view_of_its_own_and_nothing_to_label_by_hand(make_run, tiny, tmp_path, cheap_cost):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(text for text, _ in tiny.make_rows(60)), "utf-8")
    folder = make_run(task={"name": "text", "path": str(corpus), "unit": "line", "dev_share": 0.3})
    before = {path.name for path in folder.iterdir()}
    found = analyse(folder, AnalysisRequest(), QUIET)["analysis"]
    assert found.keys() == {"errors", "inside", "cost"}
    assert found["inside"]["cka"]["tokens"] > 0
    assert found["errors"]["kind"] == "text"
    assert found["errors"]["tables"][0]["rows"][0]["of"] == found["errors"]["examples"] > 0
    assert {path.name for path in folder.iterdir()} == before | {"log.txt"}
    with pytest.raises(
        ConfigError, match="task is on text, but errors are labelled by hand only where whole texts have"
    ):
        analyse(folder, AnalysisRequest(sections=("errors",), sample=tmp_path / "errors.csv"), QUIET)
    assert not (tmp_path / "errors.csv").exists()


def test_what_is_no_finished_compression_is_refused(make_run, tmp_path):
    with pytest.raises(RunError, match=r"has no record.json: it is not a finished run"):
        analyse(tmp_path, AnalysisRequest(), QUIET)
    folder = make_run()
    (folder / "config.toml").unlink()
    with pytest.raises(RunError, match=r"has no config.toml, so its task is not known"):
        analyse(folder, AnalysisRequest(), QUIET)
    (folder / "record.json").write_text('{"model": {}}')
    with pytest.raises(RunError, match="holds no predecessor and successor to compare; give the folder of a finished"):
        analyse(folder, AnalysisRequest(), QUIET)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"sections": ("costs",)}, "--only names 'costs'; there is no such section. Did you mean 'cost'?"),
        (
            {"sections": ("cost",), "count": 5, "sample": "x.csv"},
            "--only is cost, but --sample and --labels need errors",
        ),
        ({"count": 0}, "--count is 0; give 1 or more"),
        ({"threads": -1}, "--threads is -1; give 1 or more"),
        ({"batch_sizes": (4, 0)}, r"--batch-sizes is [4, 0]; give numbers of 1 or more"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(asked, sentence):
    with pytest.raises(ConfigError) as caught:
        AnalysisRequest(**asked)
    assert sentence in str(caught.value)
