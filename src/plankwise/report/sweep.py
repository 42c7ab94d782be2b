"""The page's part on a sweep: the best trial, score by each key, a map of two keys with values, and the table of all trials."""

from collections.abc import Sequence
from typing import Any

from plankwise.report._html import Column, TableCell, judged, paragraph, table
from plankwise.report._svg import show_all
from plankwise.report.charts import Axis, Chart, Charts, HeatMap, Lines, Series
from plankwise.report.text import MISSING, count, fixed, is_number, number

MOST_PLACES = 12  # values of a key that are named below its chart
TONES = {"finished": "successor", "best": "a"}


def show_sweep(data: dict) -> str:
    """The section of one table.json."""
    about, rows = data["sweep"], data["rows"]
    columns = [
        Column("trial", "trial"),
        Column("state", "state"),
        *(Column(one["key"], f"key {one['key']}") for one in about["space"]),
        Column("score", "score", number),
        Column("other score", "reported", number),
        Column("seconds", "seconds", fixed(1)),
        Column("parameters", "parameters", count),
    ]
    failures = [f"trial {row['trial']} failed: {row['failure']}" for row in rows if row["failure"]]
    return judged(
        sweep_verdict(data),
        str(about["name"]),
        paragraph(f"to repeat it: {about['command']}" if about["command"] else "", "note"),
        show_all(make_sweep_charts(data)),
        table(tell_scores(about), columns, [_shown(row, about) for row in rows], key="sweep"),
        *(paragraph(line, "note") for line in failures),
        alone=True,
    )


def sweep_verdict(data: dict) -> str:
    """Which trial was the best, by which score, and what the examples say that did not choose."""
    about, rows = data["sweep"], data["rows"]
    told = ", ".join(f"{number_of} {state}" for state, number_of in about["states"].items())
    if about["best"] is None:
        return f"no trial of {about['trials']} has finished ({told})"
    best = rows[0]
    values = ", ".join(f"{key} = {text}" for key, text in best["values"].items())
    other = best.get("reported")
    after = f", {number(other)} on examples that did not choose it" if is_number(other) else ""
    return f"trial {best['trial']} is the best of {about['trials']} ({told}): {values}; score {number(best['score'])}{after}"


def tell_scores(about: dict) -> str:
    """What the two scores of a trial are."""
    if about["choose_on"] == "train":
        return "score: on training examples kept out of training, which chooses; other score: on dev"
    return (
        "score: on one half of dev, which chooses (the whole where dev has no halves); other score: on the other half"
    )


def make_sweep_charts(data: dict) -> Charts:
    """Score by each key, and for two keys of which each has values their map."""
    about = data["sweep"]
    rows = [row for row in data["rows"] if is_number(row["score"])]
    if not rows:
        return {}
    charts: Charts = {"keys": [_by_key(one, rows) for one in about["space"]]}
    listed = [one for one in about["space"] if len(one["values"]) > 1]
    if len(listed) >= 2:
        charts["map"] = [_map(listed[0], listed[1], rows)]
    return charts


def _by_key(one: dict, rows: Sequence[dict]) -> Chart:
    places = one["values"][:MOST_PLACES] if len(one["values"]) <= MOST_PLACES else []
    numbers = not one["values"]

    def at(row: dict) -> float:
        text = row["values"][one["key"]]
        return float(text) if numbers else float(one["values"].index(text))

    axis = Axis(one["key"], log2=bool(one["log"] and numbers), places=places)
    series = []
    for name, some in (("best", rows[:1]), ("finished", rows[1:])):
        tips = [f"trial {row['trial']}: {row['values'][one['key']]}, {number(row['score'])}" for row in some]
        if some:
            series.append(Series(name, [(at(row), row["score"]) for row in some], TONES[name], tips=tips))
    return Lines(f"Score by {one['key']}", series, axis, Axis("score"), joined=False)


def _map(down: dict, across: dict, rows: Sequence[dict]) -> Chart:
    """The best score for each pair of values."""

    def best(first: str, second: str) -> float:
        found = [
            row["score"]
            for row in rows
            if row["values"][down["key"]] == first and row["values"][across["key"]] == second
        ]
        return max(found, default=float("nan"))

    return HeatMap(
        f"{down['key']} and {across['key']}",
        down["values"],
        across["values"],
        [[best(first, second) for second in across["values"]] for first in down["values"]],
        x_label=across["key"],
        y_label=down["key"],
        scale="score",
        show=lambda value: f"{value:.3f}",
        note="The best score of the trials with both values; an empty field has none.",
    )


def _shown(row: dict, about: dict) -> dict[str, Any]:
    keys = {f"key {key}": _value(text) for key, text in row["values"].items()}
    return {**row, **keys, "trial": TableCell(f"{row['trial']}", row["trial"], best=row["trial"] == about["best"])}


def _value(text: str) -> TableCell:
    """A value, sorted as a number if it is one."""
    try:
        return TableCell(short(text), float(text))
    except ValueError:
        return TableCell(text or MISSING)


def short(text: str) -> str:
    """A value of a key with few digits, if it is a number that has many."""
    try:
        return text if len(text) <= 8 else f"{float(text):.4g}"
    except ValueError:
        return text
