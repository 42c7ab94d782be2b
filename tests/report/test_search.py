"""A search for a plan as the page and the terminal show it."""

import copy
import io
import math

import pytest
from rich.console import Console

from plankwise.report._svg import show
from plankwise.report.search import make_search_charts, search_verdict, show_search
from plankwise.report.search_table import show_search_table

PATH = "bert.encoder.layer"


def slot(*span, part="layers", **options):
    return {"path": PATH, "span": list(span), "part": part, "options": options}


def candidate(effect, *span, part="layers", label=None, **options):
    return {
        **slot(*span, part=part, **options), "label": label or part, "effect": effect, "speedup": 2.0, "parameters": 1000,
        "time": 0.1, "failure": None,
    }  # fmt: skip


def row(name, kind, effect, speed, predicted, plan, *, steady=True):
    return {
        "name": name, "kind": kind, "solved": True, "plan": plan, "effect": effect, "score": 0.8, "kept": 0.9, "kept_other": 0.91,
        "predicted": {"effect": predicted, "speedup": speed, "parameters": 2000}, "parameters": 2000,
        "speedup": {"median": speed, "low": speed - 0.1, "high": speed + 0.1, "steady": steady},
    }  # fmt: skip


@pytest.fixture
def data():
    return {
        "search": {
            "task": "films <b>", "metric": "accuracy", "goal": {"kind": "target", "value": 2.0, "told": "2 times as fast"},
            "predecessor": {"score": 0.9, "parameters": 4000}, "outside": 0.1, "batch_size": 1, "length": 24, "timing": {},
            "chains": [{"path": PATH, "length": 4}], "scored": 3, "texts": 50, "tokens": 1000, "finalists": 2,
        },
        "library": [
            candidate(0.1, 0, 1), candidate(0.02, 2, 3),
            candidate(0.01, 0, part="thin", label="thin (ffn 0.5)", ffn=0.5),
            candidate(None, 1, part="thin", label="thin (ffn 0.5)", ffn=0.5),
        ],
        "rows": [
            row("found", "found", 0.05, 2.05, 0.03, [slot(2, 3), slot(0, part="thin", ffn=0.5)]),
            row("even spans, 2 blocks", "even", 0.12, 2.1, 0.12, [slot(0, 1), slot(2, 3)]),
            row("top layers dropped, 2 blocks", "dropped", 0.5, 2.1, None, [slot(1, 2, 3)], steady=False),
        ],
    }  # fmt: skip


def test_the_heat_map_has_a_field_for_each_candidate_that_has_an_effect_short_spans_first(data):
    (chart,) = make_search_charts(data)["library"]
    assert chart.rows == ["0", "1", "0–1", "2–3"]
    assert chart.columns == ["layers", "thin (ffn 0.5)"]
    known = [[None if math.isnan(value) else value for value in line] for line in chart.values]
    assert known == [[None, 0.01], [None, None], [0.1, None], [0.02, None]]
    assert show(chart).count("<rect") == 3


def test_plans_whose_effect_was_not_predicted_are_left_out_of_that_chart_alone(data):
    effects, speeds = make_search_charts(data)["predicted"]
    assert [(one.name, list(one.points)) for one in effects.series] == [
        ("found", [(0.03, 0.05)]),
        ("even", [(0.12, 0.12)]),
    ]
    assert [one.name for one in speeds.series] == ["found", "even", "dropped"]
    assert effects.diagonal


def test_the_verdict_names_the_best_simple_plan(data):
    told = search_verdict(data)
    assert told.startswith(
        "a plan for 2 times as fast: 2.05× as fast, 2.0 k parameters, effect 0.0500, 90.0% of the score"
    )
    assert told.endswith("the best simple plan beside it, even spans, 2 blocks: 2.10×, effect 0.1200")


def test_a_simple_plan_that_does_better_at_no_more_cost_is_told_first(data):
    data["rows"][1]["effect"] = 0.04
    assert search_verdict(data).endswith("; even spans, 2 blocks does better at no more cost: effect 0.0400")
    data["rows"][1]["predicted"]["speedup"] = 1.5
    assert "does better" not in search_verdict(data)


def test_a_speed_below_the_target_and_an_unsteady_one_are_called_so(data):
    data["rows"][0]["speedup"] = {"median": 1.7, "low": 1.6, "high": 1.8, "steady": False}
    assert "1.70× as fast (unsteady, less than asked for: ask for a little more)" in search_verdict(data)


def test_the_page_escapes_the_tasks_name_and_shows_plan_and_table(data):
    page = show_search(data)
    assert "films <b>" not in page
    assert "films &lt;b&gt;" in page
    assert "2–3 layers; 0 thin (ffn 0.5)" in page
    assert "What each candidate does alone" in page


def test_a_library_without_any_effect_has_no_heat_map(data):
    bare = copy.deepcopy(data)
    for one in bare["library"]:
        one["effect"] = None
    assert make_search_charts(bare)["library"] == []


def test_the_terminal_shows_slots_and_plans_whole_however_narrow_it_is(data):
    file = io.StringIO()
    show_search_table(data, Console(file=file, width=40))
    lines = file.getvalue().splitlines()
    assert any("bert.encoder.layer 2–3" in line and "0.0200" in line for line in lines)
    assert any(line.startswith("top layers dropped, 2 blocks") and "2.10× ~" in line for line in lines)
    assert any(line.startswith("found") and "0.0300" in line and "2.05×" in line for line in lines)
