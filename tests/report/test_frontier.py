"""A frontier as the page, the terminal and figures show it."""

import io
import json

import pytest
from rich.console import Console

from plankwise.record import Shown
from plankwise.report.frontier import frontier_verdict, make_charts, show_frontier
from plankwise.report.frontier_table import show_frontier_table


def row(name, kind, score, speed, smaller, halves, *, steady=True, on=True):
    """A point as table.json has it."""
    model, runtime, precision = name.rsplit("-", 2)
    one = {"median": speed, "low": speed - 0.1, "high": speed + 0.1, "steady": steady}
    return {
        "model": model, "runtime": runtime, "precision": precision, "trimmed": False, "name": name, "kind": kind,
        "score": score, "interval": [score - 0.02, score + 0.02], "kept": score / 0.9, "kept_halves": list(halves),
        "size_mb": 90 / smaller, "smaller": smaller, "seconds": None, "latency_ms": 10 / speed, "relative_time": 1 / speed,
        "speedups": {"2": {"1": one, "16": one}}, "on_speed": on, "on_size": on,
    }  # fmt: skip


@pytest.fixture
def data():
    return {
        "frontier": {
            "task": "films <b>", "metric": "accuracy", "tolerance": 0.01, "threads": ["2"], "batch_sizes": [1, 16],
            "reference": "predecessor-torch-fp32",
            "chosen": {"fastest": "3-layers-onnx-int8", "smallest": "3-layers-onnx-int8"}, "timing": {},
        },
        "rows": [
            row("predecessor-torch-fp32", "predecessor", 0.9, 1.0, 1.0, (1.0, 1.0)),
            row("3-layers-onnx-int8", "successor", 0.895, 6.5, 8.1, (0.997, 0.981), steady=False),
            row("tfidf-torch-fp32", "instead", 0.8, 3.0, 5.0, (0.9, 0.9), on=False),
        ],
    }  # fmt: skip


def test_the_verdict_names_the_chosen_points_with_what_the_other_half_of_dev_says(data):
    told = frontier_verdict(data)
    assert told.startswith("fastest within 1% of the predecessor: 3-layers-onnx-int8, 6.50× (unsteady) at batch 1 and")
    assert "98.1% kept" in told
    assert "8.10× smaller" in told


def test_where_no_point_keeps_enough_the_verdict_says_so(data):
    data["frontier"]["chosen"] = {"fastest": None, "smallest": None}
    assert frontier_verdict(data) == "no point is within 1% of the predecessor"


def test_points_that_another_beats_are_grey_and_have_no_name_in_the_charts(data):
    data["rows"][2]["kept"] = 0.95
    speed, _, size = make_charts(data)
    assert [dot.name for dot in speed.dots] == ["", "predecessor", "3-layers onnx int8"]
    assert [dot.tone for dot in speed.dots] == ["dominated", "predecessor", "successor"]
    assert [dot.x for dot in size.dots] == [5.0, 1.0, 8.1]
    assert size.note == ""


def test_points_that_keep_little_are_in_the_table_alone(data):
    charts = make_charts(data)
    assert all(len(chart.dots) == 2 for chart in charts)
    assert charts[-1].note == "points that keep less than 90% are in the table alone: 1"
    assert "tfidf" in show_frontier(data)


def test_where_most_points_keep_little_the_better_half_is_drawn(data):
    data["rows"] += [{**data["rows"][2], "name": f"weak {kept}", "kept": kept} for kept in (0.7, 0.6)]
    charts = make_charts(data)
    assert all(len(chart.dots) == 3 for chart in charts)
    assert charts[-1].note == "points that keep less than 89% are in the table alone: 2"


def test_the_figure_that_the_task_shows_stands_for_the_score(data):
    data["frontier"]["shown"] = Shown("perplexity", "perplexity", 2, lower_is_better=True).to_json()
    for one, shown in zip(data["rows"], (11.125, 12.0, 15.0), strict=True):
        one |= {"shown": shown, "shown_interval": [shown - 1, shown + 1]}
    speed, *_ = make_charts(data)
    assert speed.y.label == "perplexity on dev (lower is better)"
    assert sorted(dot.y for dot in speed.dots) == [11.125, 12.0]
    page = show_frontier(data)
    assert "11.12" in page
    assert "10.12–12.12" in page
    file = io.StringIO()
    show_frontier_table(data, Console(file=file, width=200))
    assert "12.00" in file.getvalue()
    assert "a standard error of perplexity: 0.5" in file.getvalue()


def test_a_kind_of_task_without_halves_and_intervals_says_what_chose(data):
    data["frontier"]["left_out"] = ["onnx, since <it> drifts"]
    for one in data["rows"]:
        one |= {"kept_halves": None, "interval": None}
    assert "99.4% kept (on all of dev, which chose it, too)" in frontier_verdict(data)
    page = show_frontier(data)
    assert "interval;" not in page
    assert "Left out: onnx, since &lt;it&gt; drifts." in page
    file = io.StringIO()
    show_frontier_table(data, Console(file=file, width=200))
    assert "standard error" not in file.getvalue()


def test_the_page_escapes_the_tasks_name(data):
    page = show_frontier(data)
    assert "films <b>" not in page
    assert "films &lt;b&gt;" in page


def test_the_terminal_lists_the_fastest_first_and_marks_what_is_unsteady(data):
    file = io.StringIO()
    show_frontier_table(data, Console(file=file, width=40))
    lines = file.getvalue().splitlines()
    assert "3-layers-onnx-int8" in lines[1]
    assert lines[1].startswith("*")
    assert "6.50× ~" in lines[1]
    assert "tfidf" in lines[2]
    assert not lines[2].startswith("*")


def test_report_writes_the_pictures_of_a_frontier(command, data, tmp_path):
    folder = tmp_path / "reviews"
    folder.mkdir()
    (folder / "table.json").write_text(json.dumps(data), "utf-8")
    found = command("report", folder, "--figures", tmp_path / "figures")
    assert found.code == 0
    assert {file.name for file in (tmp_path / "figures").iterdir()} == {"frontier-reviews.png", "frontier-reviews.svg"}
    assert "3-layers onnx int8" in (tmp_path / "figures" / "frontier-reviews.svg").read_text("utf-8")
