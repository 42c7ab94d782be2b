"""Headline, table, chart, card and terminal read one speed-up."""

import io

import pytest
from rich.console import Console

from plankwise.cli._tables import show_results
from plankwise.report._cost import cost_charts
from plankwise.report.card import make_card
from plankwise.report.runs import summarise_runs
from plankwise.report.sections import headline, models, setup
from plankwise.report.speed import ShownSpeedup, read_speedups, speedup_of, speedup_of_row
from plankwise.report.verdict import tiles, verdict


def measured(median, low, high, steady=True):
    return {"median": median, "low": low, "high": high, "steady": steady}


@pytest.fixture
def timed(records):
    """A record whose analysis kept other figures, as only a record that was edited can have."""
    record = records.analysed()
    record["speedups"] = {
        "truncated": {"1": measured(1.91, 1.88, 1.94)},
        "successor": {"1": measured(1.85, 1.81, 1.89), "8": measured(1.7, 1.65, 1.74)},
    }
    record["timing"] = {
        "device": "cpu",
        "threads": 2,
        "cpus": 4,
        "load_before": 0.5,
        "load_after": 1.25,
        "measured": {},
    }
    return record


def terminal(record):
    out = io.StringIO()
    show_results(record, Console(file=out, width=80, markup=False))
    return out.getvalue()


def chart(record):
    """The successor's points and what they say."""
    (drawn,) = cost_charts(record)["speed-up"]
    (line,) = [one for one in drawn.series if one.name == "successor"]
    return dict(line.points), list(line.tips)


def test_headline_table_chart_card_and_terminal_show_one_value(timed):
    assert "1.9 times faster" in verdict(timed)
    assert tiles(timed)[1].value == "1.85× (1.81–1.89)"
    assert "<strong>1.85× <small>(1.81–1.89)</small></strong>" in headline(timed)
    for shown in (models(timed), make_card(timed)):
        assert "1.85× (1.81–1.89)" in shown
        assert "1.91× (1.88–1.94)" in shown
    points, tips = chart(timed)
    assert points == {1: 1.85, 8: 1.7}
    assert tips[0] == "1.85× (1.81–1.89)"
    assert cost_charts(timed)["speed-up"][0].title.endswith(", with its 95 % interval")
    assert "1.85× ±3%" in terminal(timed)
    assert summarise_runs([("demo", timed)])[0]["speedup"] == 1.85
    for shown in (verdict(timed), models(timed), make_card(timed), terminal(timed)):
        assert "1.79" not in shown  # the run's and the analysis's own figure


def test_the_times_on_the_page_are_those_of_the_record_not_of_the_analysis(timed):
    (times,) = cost_charts(timed)["latency"]
    assert times.groups == ["predecessor", "truncated", "successor"]  # one batch size, where the analysis has six


def test_an_unsteady_speedup_is_called_that_everywhere(timed):
    timed["speedups"]["successor"]["1"] = measured(1.85, 1.2, 2.9, steady=False)
    words = "unsteady: the machine was busy, or timed too briefly"
    assert verdict(timed).endswith(f"; speed-up {words}.")
    assert tiles(timed)[1].note.endswith(words)
    assert words in make_card(timed)
    assert f"speed-up {words}" in terminal(timed)
    assert "1.85× (1.20–2.90), unsteady" in models(timed)
    assert "1.85× ±57%" in terminal(timed)


def test_a_speedup_beyond_the_multiply_adds_is_shown_as_at_most_what_they_allow(timed):
    timed["speedups"]["successor"]["1"] = measured(2.0, 2.0, 2.0)
    timed["timing"]["measured"] = {"successor": {"1": measured(2.59, 2.4, 2.8)}}
    remark = "measured 2.59×, more than the multiply-adds allow"
    assert "at most 2.0 times faster" in verdict(timed)
    assert verdict(timed).endswith(f"; speed-up {remark}.")
    assert (tiles(timed)[1].value, tiles(timed)[1].note.split("; ")[1]) == ("≤ 2.00×", remark)
    assert "≤ 2.00×" in models(timed)
    assert "≤ 2.00×" in make_card(timed)
    assert "≤ 2.00×" in terminal(timed)


def test_an_old_record_shows_one_figure_too_that_of_its_analysis(records):
    record = records.analysed()
    record["speedup"] = record["successor"]["speedup"] = 2.59  # what its run measured
    assert speedup_of(record) == ShownSpeedup(1.79, "1")
    assert tiles(record)[1].value == "1.79×"
    assert chart(record)[0][1] == 1.79
    assert "interval" not in cost_charts(record)["speed-up"][0].title
    for shown in (verdict(record), models(record), make_card(record), terminal(record)):
        assert "2.59" not in shown
        assert "2.6 times" not in shown


def test_an_old_record_without_an_analysis_shows_what_its_run_measured(records):
    record = records.plain()
    for name, time in {"predecessor": 40.0, "successor": 20.0}.items():
        record[name]["latency"]["32"] = {"p50_ms": time}
    assert read_speedups(record)["successor"] == {"1": ShownSpeedup(1.79, "1"), "32": ShownSpeedup(2.0, "32")}
    assert speedup_of(record, "truncated") == ShownSpeedup(1.84, "1")


def test_the_load_and_the_threads_stand_with_the_machine(timed):
    shown = setup(timed)
    assert "load when timed" in shown
    assert "0.50 → 1.25 on 4 CPUs" in shown
    timed["timing"]["load_before"] = timed["timing"]["load_after"] = None
    assert "– → – on 4 CPUs" in setup(timed)


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"speedup": None}, None),
        ({"speedup": 1.5}, "1.50×"),
        ({"speedup": 1.5, "speedup_interval": None, "speedup_steady": None}, "1.50×"),
        ({"speedup": 1.5, "speedup_interval": [1.4, 1.6], "speedup_steady": True}, "1.50× (1.40–1.60)"),
        ({"speedup": 2.0, "speedup_interval": [2.0, 2.0], "speedup_measured": 2.59}, "≤ 2.00×"),
    ],
)
def test_rows_of_comparisons_old_and_new_are_read(row, text):
    found = speedup_of_row(row)
    assert (None if found is None else found.text) == text
