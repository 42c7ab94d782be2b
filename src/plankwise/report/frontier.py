"""The page's part on a frontier: two pictures, score against speed and against size, and the table of all points."""

from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any

from plankwise.record import SCORE, Shown
from plankwise.report._html import Column, TableCell, judged, paragraph, table
from plankwise.report._svg import show_all
from plankwise.report.charts import Axis, Chart, Dot, Scatter
from plankwise.report.speed import UNSTEADY, ShownSpeedup, speedup_cell
from plankwise.report.text import MISSING, fixed, share, times

DOMINATED = "dominated"  # a tone: grey
LEAST = 0.9  # share of the predecessor's score from which on a point is drawn: others would flatten the picture
TONES = {"predecessor": "predecessor", "successor": "successor", "instead": "truncated"}
GROUPS = {"predecessor": "predecessor", "successor": "successors", "instead": "what else there is"}


def show_frontier(data: dict) -> str:
    """The section of one table.json."""
    about, rows = data["frontier"], data["rows"]
    interval = " with its 95 % interval" if any(row["interval"] for row in rows) else ""
    caption = (
        f"{about['metric']} on dev{interval}; speed-ups over the predecessor in torch, medians of paired ratios, at "
        f"batch sizes {_listed(about['batch_sizes'])} on {_listed(about['threads'])} threads; bold: on the frontier; {UNSTEADY}"
    )
    return judged(
        frontier_verdict(data),
        str(about["task"]),
        show_all({"frontier": make_charts(data)}),
        table(caption, _columns(about), [_shown(row, about) for row in rows], key="frontier"),
        *(paragraph(f"Left out: {sentence}.") for sentence in about.get("left_out", ())),
        alone=True,
    )


def shown_of(about: dict) -> Shown:
    """How the scores of a frontier are shown."""
    return Shown.from_json(about.get("shown", {"metric": about["metric"]}))


def figure_of(row: dict) -> float:
    """The figure that is shown for a point's score."""
    return row.get("shown", row["score"])


def interval_of(row: dict) -> tuple[float, float] | None:
    """Its 95 % interval; None if it is not known."""
    if (found := row.get("shown_interval", row["interval"])) is None:
        return None
    low, high = found
    return low, high


def frontier_verdict(data: dict) -> str:
    """The fastest and the smallest within the tolerance, chosen by one half of dev and judged by the other if both have scores."""
    about, rows = data["frontier"], {row["name"]: row for row in data["rows"]}
    within = f"within {about['tolerance']:.0%} of the predecessor"
    fastest, smallest = (rows.get(about["chosen"][what]) for what in ("fastest", "smallest"))
    if fastest is None or smallest is None:
        return f"no point is {within}"
    most, sizes = about["threads"][-1], [str(size) for size in about["batch_sizes"]]
    timed = [(size, fastest["speedups"][most][size]) for size in sizes]
    speeds = " and ".join(
        f"{times(one['median'])}{'' if one['steady'] else ' (unsteady)'} at batch {size}" for size, one in timed
    )
    return (
        f"fastest {within}: {fastest['name']}, {speeds}, {_kept(fastest)}; "
        f"smallest: {smallest['name']}, {times(smallest['smaller'])} smaller, {_kept(smallest)}"
    )


def _kept(row: dict) -> str:
    """Of the score on both halves of dev, that first which did not choose the point."""
    if row["kept_halves"] is None:
        return f"{share(row['kept'])} kept (on all of dev, which chose it, too)"
    chose, other = row["kept_halves"]
    return f"{share(other)} kept (on the half of dev that chose it {share(chose)})"


def make_charts(data: dict) -> list[Chart]:
    """Score against speed for each batch size, and against size; points that another beats in both are grey."""
    about, least = data["frontier"], _least(data["rows"])
    rows = [row for row in data["rows"] if row["kept"] is None or row["kept"] >= least]
    left_out = len(data["rows"]) - len(rows)
    note = f"points that keep less than {least:.0%} are in the table alone: {left_out}" if left_out else ""
    most, shown = about["threads"][-1], shown_of(about)
    show = fixed(shown.digits)
    y = Axis(f"{shown.metric} on dev{' (lower is better)' if shown.lower_is_better else ''}")
    charts: list[Chart] = [
        Scatter(
            f"score and speed, {size} text{'s' if size > 1 else ''} at once",
            _front_last(_dot(row, row["speedups"][most][str(size)]["median"], "on_speed", show) for row in rows),
            Axis("times as fast as the predecessor in torch", log2=True, show=times),
            y,
        )
        for size in about["batch_sizes"]
    ]
    sizes = _front_last(_dot(row, row["smaller"], "on_size", show) for row in rows)
    return [*charts, Scatter("score and size", sizes, Axis("times smaller on disk", log2=True, show=times), y, note)]


def _least(rows: Sequence[dict]) -> float:
    """The share of the predecessor's score from which on points are drawn; at least half of them are."""
    kept = [row["kept"] for row in rows if row["kept"] is not None]
    return min([LEAST, median(kept)]) if kept else LEAST


def _front_last(dots: Iterable[Dot]) -> list[Dot]:
    """So that no dominated point hides one that is not."""
    return sorted(dots, key=lambda dot: dot.tone != DOMINATED)


def _dot(row: dict, x: float, mark: str, show: Callable[[Any], str]) -> Dot:
    figure = figure_of(row)
    tip = f"{row['name']}: {show(figure)}, {times(x)}"
    if not row[mark]:
        return Dot("", x, figure, DOMINATED, "dominated", tip)
    return Dot(_short(row), x, figure, TONES[row["kind"]], GROUPS[row["kind"]], tip)


def _short(row: dict) -> str:
    """A point's name without what goes without saying."""
    parts = [
        row["model"],
        "" if row["runtime"] == "torch" else row["runtime"],
        row["precision"] if row["precision"] != "fp32" else "",
    ]
    return " ".join(filter(None, [*parts, "trimmed" if row["trimmed"] else ""]))


def _columns(about: dict) -> list[Column]:
    shown = shown_of(about)
    speeds = [
        Column(f"×@{size}, {count} thr.", f"speed-{count}-{size}")
        for count in about["threads"]
        for size in about["batch_sizes"]
    ]
    return [
        Column("model", "label"),
        Column("runtime", "runtime"),
        Column("precision", "precision"),
        Column("vocabulary", "vocabulary"),
        Column("score" if shown.key == SCORE else shown.metric, "figure", fixed(shown.digits)),
        Column("interval", "between"),
        Column("kept", "kept", share),
        *speeds,
        Column("MB", "size_mb", fixed(1)),
        Column("× smaller", "smaller", times),
    ]


def _shown(row: dict, about: dict) -> dict[str, Any]:
    interval, show = interval_of(row), fixed(shown_of(about).digits)
    speeds = {
        f"speed-{count}-{size}": _speed(row["speedups"][count][str(size)])
        for count in about["threads"]
        for size in about["batch_sizes"]
    }
    return {
        **row,
        **speeds,
        "label": TableCell(row["model"], best=row["on_speed"] or row["on_size"]),
        "vocabulary": "trimmed" if row["trimmed"] else "whole",
        "figure": figure_of(row),
        "between": MISSING if interval is None else "–".join(map(show, interval)),
    }


def _speed(found: dict) -> TableCell:
    return speedup_cell(ShownSpeedup(found["median"], interval=(found["low"], found["high"]), steady=found["steady"]))


def _listed(values: Sequence[Any]) -> str:
    return " and ".join(map(str, values))
