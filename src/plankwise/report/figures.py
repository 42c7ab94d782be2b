"""The plots as PNG and SVG for papers, one file a plot; needs the extra `plots`.

From one run: loss, dev score, replacing rate (as Figure 2 of Xu et al. 2020), masks, latency, speed-up, tokens per second,
calibration, right by length, kinds of error, CKA, token paths, impact of slots (latency and speed-up as Figures 5.4 to 5.6 of the
thesis). From several: score by constant replacing rate (as Figure 3 of the paper), by starting rate and by when the rate reaches 1,
a line a learning rate (as Figures 5.1 to 5.3 of the thesis), and speed-up against what was kept.
"""

import importlib.util
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plankwise.errors import MissingExtraError, RunError
from plankwise.files import whole_file
from plankwise.report._comparison import compare_rows
from plankwise.report._cost import latency_series, speedup_series
from plankwise.report._inside import path_limits, path_series, short_layers
from plankwise.report._text import is_number
from plankwise.report._training import merge_bins, score_series, series_of
from plankwise.report.charts import Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = ("png", "svg")
COLOURS = {"predecessor": "#0072B2", "successor": "#D55E00", "floor": "#009E73", "other": "#CC79A7", "model": "#0072B2"}
CYCLE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")  # Okabe and Ito
LINES = {"predecessor": "--", "floor": "-."}
SIZE = (5.0, 3.4)  # inches
SETTINGS: Any = {
    "text.parse_math": False,  # a name with $ in it is no formula
    "svg.fonttype": "none",
    "svg.hashsalt": "plankwise",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
PAIR = ("predecessor", "successor")
CURVES = {
    "score-by-rate": ("rate", "constant replacing rate"),
    "score-by-start": ("start", "replacing rate at the start"),
    "score-by-full-at": ("full_at", "share of the steps at which the rate is 1"),
}
Draw = Callable[["Figure"], None]


def check_plots() -> None:
    """Looks for matplotlib before anything is written.

    Raises:
        MissingExtraError: it is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtraError("a figure", "matplotlib", "plots")


def write_figures(runs: Sequence[tuple[str, dict]], folder: Path) -> list[Path]:
    """Writes every plot that the named records have the values for; gives the files, two a plot.

    Raises:
        MissingExtraError: matplotlib is not installed.
        RunError: a record is damaged, or the folder cannot be written to.
    """
    check_plots()
    try:
        return [path for name, draw in _all_plots(runs).items() for path in _write(name, draw, folder)]
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        told = f"{type(error).__name__}: {error}"
        raise RunError(
            f"a record is damaged: it cannot be drawn ({told}); run the same command again, elsewhere"
        ) from error


def _all_plots(runs: Sequence[tuple[str, dict]]) -> dict[str, Draw]:
    """The plots by their files' names; of several runs each begins with the run's number and name."""
    plots: dict[str, Draw] = {}
    for index, (name, record) in enumerate(runs):
        start = f"{index + 1}-{re.sub(r'[^A-Za-z0-9]+', '-', name).strip('-') or 'run'}-" if len(runs) > 1 else ""
        plots |= {f"{start}{plot}": draw for plot, draw in _of_run(record).items()}
    return plots | (_of_runs(runs) if len(runs) > 1 else {})


def _write(name: str, draw: Draw, folder: Path) -> list[Path]:
    import matplotlib
    from matplotlib.figure import Figure

    paths = [folder / f"{name}.{kind}" for kind in KINDS]
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=SIZE, layout="constrained")
        draw(figure)
        for path, kind in zip(paths, KINDS, strict=True):
            with whole_file(path) as part:
                figure.savefig(part, format=kind, dpi=200, metadata={"Date": None} if kind == "svg" else None)
    return paths


def _of_run(record: dict) -> dict[str, Draw]:
    """The plots of one run by their files' names."""
    scores, metric = score_series(record)
    analysis = record.get("analysis") or {}
    found, inside = analysis.get("errors") or {}, analysis.get("inside") or {}
    step, batch = "training step", "texts in a batch"
    plots: dict[str, Draw] = {}
    for name, series, x, y, log2 in (
        ("loss", series_of(record, "loss"), step, "loss", False),
        ("score", scores, step, f"{metric} on dev", False),
        ("replacing-rate", series_of(record, "replacing_rate"), step, "replacing rate", False),
        ("latency", latency_series(record), batch, "time of a batch (ms)", True),
        ("speed-up", speedup_series(record), batch, "times faster than the predecessor", True),
        ("tokens-per-second", latency_series(record, "tokens_per_second"), batch, "tokens per second", True),
    ):
        if series:
            plots[name] = _lines(series, x, y, log2=log2)
    masks = record.get("masks") or {}
    if masks.get("bins"):
        plots["masks"] = lambda figure: _draw_masks(figure, masks)
    if found.get("calibration"):
        plots["calibration"] = lambda figure: _draw_calibration(figure, found["calibration"])
    if found.get("by_length"):
        plots["right-by-length"] = lambda figure: _draw_lengths(figure, found["by_length"])
    if (found.get("classes") or {}).get("rows"):
        plots["kinds-of-error"] = lambda figure: _draw_kinds(figure, found["classes"]["rows"])
    if (inside.get("cka") or {}).get("values"):
        plots["cka"] = lambda figure: _draw_cka(figure, inside["cka"])
    if (inside.get("paths") or {}).get("tokens"):
        plots["paths"] = lambda figure: _draw_paths(figure, inside["paths"])
    if (inside.get("impact") or {}).get("slots"):
        plots["impact"] = lambda figure: _draw_impact(figure, inside["impact"])
    return plots


def _of_runs(runs: Sequence[tuple[str, dict]]) -> dict[str, Draw]:
    plots: dict[str, Draw] = {}
    for name, (key, label) in CURVES.items():
        lines: dict[str, list[tuple[float, float]]] = {}
        for _, record in runs:
            config = record.get("config", {})
            schedule = config.get("method", {}).get("schedule") or {}
            constant = schedule.get("kind") == "constant"
            if is_number(schedule.get(key)) and (key == "rate") == constant and "successor" in record:
                rate = config.get("training", {}).get("learning_rate")
                line = record["task"]["name"] if constant else f"{record['task']['name']}, learning rate {rate}"
                lines.setdefault(line, []).append((schedule[key], record["successor"]["score"]))
        if any(len({value for value, _ in points}) > 1 for points in lines.values()):
            plots[name] = partial(_draw_curves, lines=lines, label=label)
    rows = [row for row in compare_rows(list(runs)) if is_number(row["speedup"]) and is_number(row["retained"])]
    if rows:
        plots["speed-up-and-retained"] = lambda figure: _draw_runs(figure, rows)
    return plots


def _lines(series: Sequence[Series], x: str, y: str, *, log2: bool) -> Draw:
    def draw(figure: "Figure") -> None:
        panel = figure.subplots()
        for one in series:
            style: Any = {"color": COLOURS.get(one.tone), "linestyle": LINES.get(one.tone, "-"), "label": one.name}
            xs, ys = [a for a, _ in one.points], [b for _, b in one.points]
            mark = "o" if len(xs) <= 40 else ""
            if one.spread:
                panel.errorbar(xs, ys, yerr=list(one.spread), marker=mark, markersize=3, capsize=2, **style)
            else:
                panel.plot(xs, ys, marker=mark, markersize=3, **style)
        if log2:
            panel.set_ylim(bottom=0)
            panel.set_xscale("log", base=2)
            known = sorted({a for one in series for a, _ in one.points})
            panel.set_xticks(known, [f"{value:g}" for value in known])
        _finish(panel, x, y)

    return draw


def _draw_masks(figure: "Figure", masks: dict) -> None:
    bins, slots = merge_bins(masks["bins"], 100), masks["slots"]
    panel = figure.subplots()
    shares = [[one["replaced"][row] / (one["steps"] or 1) for one in bins] for row in range(len(slots))]
    edges = [*(one["step"] for one in bins), bins[-1]["step"] + bins[-1]["steps"]]
    mesh = panel.pcolormesh(edges, range(len(slots) + 1), shares, cmap="Blues", vmin=0, vmax=1)
    panel.set_yticks([index + 0.5 for index in range(len(slots))], [str(index + 1) for index in range(len(slots))])
    panel.invert_yaxis()
    figure.colorbar(mesh, ax=panel, label="share of steps in which the successor ran")
    _finish(panel, "training step", "slot")


def _draw_calibration(figure: "Figure", models: dict) -> None:
    panel = figure.subplots()
    panel.plot([0, 1], [0, 1], ":", color="0.5")
    for name in (name for name in PAIR if name in models):
        bins = [one for one in models[name]["bins"] if one["count"]]
        xs, ys = [one["confidence"] for one in bins], [one["accuracy"] for one in bins]
        label = f"{name}, ECE {models[name]['ece']:.3f}"
        panel.plot(xs, ys, "o", linestyle=LINES.get(name, "-"), markersize=4, color=COLOURS[name], label=label)
    _finish(panel, "confidence", "share right")


def _draw_lengths(figure: "Figure", rows: list[dict]) -> None:
    panel = figure.subplots()
    for shift, name in zip((-0.2, 0.2), PAIR, strict=True):
        places = [index + shift for index in range(len(rows))]
        panel.bar(places, [row[name] for row in rows], 0.38, color=COLOURS[name], label=name)
    panel.set_xticks(range(len(rows)), [f"{row['low']}–{row['high']}" for row in rows])
    _finish(panel, "tokens in the text", "share right")


def _draw_kinds(figure: "Figure", rows: list[dict]) -> None:
    figure.set_figheight(1.4 + 0.4 * len(rows))
    panel = figure.subplots()
    for shift, name, key in zip((-0.15, 0.15), PAIR, ("before", "after"), strict=True):
        known = [(index + shift, row[key]) for index, row in enumerate(rows) if is_number(row[key].get("share"))]
        shares = [one["share"] for _, one in known]
        reach = [[one["share"] - one["low"] for _, one in known], [one["high"] - one["share"] for _, one in known]]
        places = [place for place, _ in known]
        panel.errorbar(shares, places, xerr=reach, fmt="o", markersize=4, capsize=2, color=COLOURS[name], label=name)
    panel.set_yticks(range(len(rows)), [f"{row['name']}, {row['side']}" for row in rows])
    panel.invert_yaxis()
    _finish(panel, "share of the errors, with its interval", "")


def _draw_cka(figure: "Figure", cka: dict) -> None:
    panel = figure.subplots()
    image = panel.imshow(cka["values"], cmap="Blues", vmin=0, vmax=1, aspect="auto")
    rows, columns = short_layers(cka["rows"]), short_layers(cka["columns"])
    panel.set_yticks(range(len(rows)), rows, fontsize=7)
    panel.set_xticks(range(len(columns)), columns, fontsize=7, rotation=40, ha="right")
    figure.colorbar(image, ax=panel, label="linear CKA")
    _finish(panel, "successor", "predecessor")


def _draw_paths(figure: "Figure", paths: dict) -> None:
    figure.set_figwidth(2 * SIZE[0])
    names = [name for name in PAIR if paths.get(name)]
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    (left, right), (low, high) = path_limits(paths)
    for panel, name in zip(panels, names, strict=True):
        for index, one in enumerate(path_series(paths, name)):
            xs, ys = [a for a, _ in one.points], [b for _, b in one.points]
            panel.plot(xs, ys, "-", marker=".", markersize=3, linewidth=1, color=CYCLE[index % len(CYCLE)])
            panel.annotate(one.name, (xs[-1], ys[-1]), fontsize=7, xytext=(3, 2), textcoords="offset points")
        panel.set(xlim=(left, right), ylim=(low, high))
        panel.set_title(name, fontsize=9, loc="left")
        _finish(panel, "first principal component", "second principal component")


def _draw_impact(figure: "Figure", impact: dict) -> None:
    panel = figure.subplots()
    slots = impact["slots"]
    panel.bar(range(len(slots)), [one["drop"] for one in slots], color=COLOURS["successor"])
    panel.set_xticks(range(len(slots)), [str(index + 1) for index in range(len(slots))])
    _finish(panel, "slot that alone was replaced", "drop of the score")


def _draw_curves(figure: "Figure", lines: dict[str, list[tuple[float, float]]], label: str) -> None:
    panel = figure.subplots()
    for index, (name, points) in enumerate(lines.items()):
        colour = CYCLE[index % len(CYCLE)]
        values = sorted({value for value, _ in points})
        means = [
            sum(found) / len(found) for v in values for found in [[score for value, score in points if value == v]]
        ]
        panel.plot([value for value, _ in points], [score for _, score in points], "o", alpha=0.5, color=colour)
        panel.plot(values, means, "-", color=colour, label=name)
    _finish(panel, label, "score on dev, mean as a line")


def _draw_runs(figure: "Figure", rows: list[dict[str, Any]]) -> None:
    panel = figure.subplots()
    for index, row in enumerate(rows):
        panel.plot([row["speedup"]], [100 * row["retained"]], "o", color=CYCLE[index % len(CYCLE)])
        panel.annotate(
            row["name"], (row["speedup"], 100 * row["retained"]), fontsize=7, xytext=(4, 3), textcoords="offset points"
        )
    _finish(panel, "times faster than the predecessor", "share of the score kept (%)")


def _finish(panel: "Axes", x: str, y: str) -> None:
    panel.set_xlabel(x)
    panel.set_ylabel(y)
    handles, labels = panel.get_legend_handles_labels()
    if handles:
        panel.figure.legend(handles, labels, frameon=False, fontsize=8, loc="outside lower center", ncols=3)
