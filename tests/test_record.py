import json
import re

import pytest

from plankwise.errors import RunError
from plankwise.record import Shown, describe_machine, read_record, read_run_record, upgrade_record, write_record


def test_a_record_is_read_as_it_was_written(tmp_path):
    record = {"successor": {"score": 0.5, "path": "läufe/[x]"}, "speedup": None}
    write_record(tmp_path, record)
    assert read_record(tmp_path) == record


def test_what_is_shown_survives_json_and_a_later_versions_keys():
    shown = Shown("perplexity", "perplexity", 2, True, "pieces of text", "fill-mask")
    assert Shown.from_json(shown.to_json()) == shown
    assert Shown.from_json({"metric": "f1", "of a later version": 1}) == Shown("f1")


def test_the_shown_figure_is_the_score_or_a_metric():
    model = {"score": 0.5, "metrics": {"perplexity": 2.0}}
    assert Shown("accuracy").value(model) == 0.5
    assert Shown("perplexity", "perplexity").value(model) == 2.0
    assert Shown("f1", "f1").value(model) is None


def test_an_old_record_says_floor_for_the_truncated_model(tmp_path):
    write_record(tmp_path, {
        "predecessor": {"score": 0.9},
        "floor": {"score": 0.8, "path": "runs/x/floor"},
        "successor": {"score": 0.85, "metrics": {"floor": 1}},
        "stages": {"replacing": {}, "floor": {"name": "truncated"}},
        "analysis": {
            "cost": {"device": "cpu", "latency": {"floor": {"1": {}}}, "size_mb": {"floor": 3.0}},
            "errors": {"labels": ["floor"], "by_label": {"floor": 1}},
        },
        "estimate": {"phases": {"floor": {"steps": 3}}, "memory": {"phase": "floor"}},
        "task": {"name": "x", "score": ["accuracy"], "labels": ["floor"]},
        "config": {"evaluation": {"floor": True}},
    })  # fmt: skip
    record = read_record(tmp_path)
    assert list(record)[:3] == ["predecessor", "truncated", "successor"]
    assert record["truncated"] == {"score": 0.8, "path": "runs/x/floor"}
    assert record["stages"] == {"replacing": {}, "truncated": {"name": "truncated"}}
    cost = {"device": "cpu", "latency": {"truncated": {"1": {}}}, "size_mb": {"truncated": 3.0}}
    assert record["analysis"] == {"cost": cost, "errors": {"labels": ["floor"], "by_label": {"floor": 1}}}
    assert record["estimate"] == {"phases": {"truncated": {"steps": 3}}, "memory": {"phase": "truncated"}}
    assert record["successor"]["metrics"] == {"floor": 1}
    assert record["config"] == {"evaluation": {"floor": True}}


def test_an_old_labelled_task_is_described_by_its_score():
    task = upgrade_record({"task": {"name": "x", "score": ["accuracy", "f1"]}})["task"]
    assert (task["kind"], task["facts"]) == ("labels", [])
    assert Shown.from_json(task["shown"]) == Shown(
        "accuracy and f1", "score", 4, False, "examples", "text-classification"
    )


@pytest.mark.parametrize(
    ("objective", "pipeline"), [("mlm", "fill-mask"), ("mlm+nsp", "fill-mask"), ("clm", "text-generation")]
)
def test_an_old_text_task_is_described_by_its_perplexity(objective, pipeline):
    old = {"task": {"name": "x", "score": ["1 / perplexity"], "objective": objective, "blocks": {}}}
    task = upgrade_record(old)["task"]
    assert (task["kind"], task["facts"]) == ("text", [["objective", objective]])
    shown = Shown("perplexity", "perplexity", 2, True, "pieces of text", pipeline)
    assert Shown.from_json(task["shown"]) == shown


def test_a_record_of_today_is_not_changed():
    shown = Shown("f1", "f1", 1, unit="sentences", pipeline="token-classification").to_json()
    record = {"task": {"kind": "tags", "shown": shown, "facts": [["tags", "3"]], "score": ["f1"]}, "truncated": {}}
    assert upgrade_record(record) == record


@pytest.mark.parametrize("damaged", [{"task": 3}, {"stages": 1, "analysis": {"cost": []}}])
def test_what_is_not_of_todays_form_is_read_as_it_is(tmp_path, damaged):
    (tmp_path / "record.json").write_text(json.dumps(damaged))
    assert read_record(tmp_path) == damaged


RUN = {"stages": {}, "task": {}, "predecessor": {}, "successor": {}, "config": {"run": {}}}


@pytest.mark.parametrize(("text", "fault"), [
    ("[]", "it holds list, not an object"), ("null", "it holds NoneType"), ("{}", "nothing is in it"),
    ("", "it is empty"), ('{"x": ' + "9" * 400 + "}", "a number of more than 300 digits"),
    ('{"x": ' + "9" * 5000 + "}", "a number of more than 300 digits"), ('{"x": "\\ud800"}', "half of a character"),
    ("[" * 100_000, "nested too deeply"), ('{"x": NaN', "it is not JSON"),
])  # fmt: skip
def test_a_record_that_is_none_says_why_and_what_to_do(tmp_path, text, fault):
    (tmp_path / "record.json").write_text(text)
    with pytest.raises(RunError) as raised:
        read_record(tmp_path)
    assert re.fullmatch(
        r".*record\.json cannot be read \((.*)\); delete it and run the same command again", str(raised.value)
    )
    assert fault in str(raised.value)


@pytest.mark.parametrize(("change", "lacking"), [
    ({"config": {"run": []}}, "config.run"), ({"config": []}, "config"), ({"task": 3}, "task"),
    ({"successor": None, "stages": None}, "stages, successor"), ({"model": []}, "model"),
])  # fmt: skip
def test_a_runs_record_without_its_sections_is_damaged(tmp_path, change, lacking):
    write_record(tmp_path, {**RUN, **change})
    with pytest.raises(
        RunError, match=rf"record.json is damaged: {lacking} is missing or not a section; delete it and run"
    ):
        read_run_record(tmp_path)
    write_record(tmp_path, RUN)
    assert read_run_record(tmp_path)["successor"] == {}


def test_an_unfinished_run_has_no_record_to_read(tmp_path):
    with pytest.raises(RunError, match=r"has no record.json: it is not a finished run; run `plankwise compress`"):
        read_record(tmp_path)


def test_a_damaged_record_is_named_with_a_remedy(tmp_path):
    (tmp_path / "record.json").write_text('{"score": ')
    with pytest.raises(RunError, match=r"record.json cannot be read .*; delete it and run the same command again"):
        read_record(tmp_path)


def test_the_machine_is_described_with_the_versions_that_matter():
    machine = describe_machine()
    assert machine["cores"] >= 1
    assert all(machine["versions"][name] for name in ("plankwise", "torch", "transformers"))
