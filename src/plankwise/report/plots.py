"""Charts as PNG and SVG files, drawn by matplotlib (the extra `plots`); knows nothing of records."""

import importlib.util
import math
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plankwise.errors import MissingExtraError
from plankwise.files import whole_file
from plankwise.report.charts import TONES, Axis, BarChart, Chart, HeatMap, Lines, Paths, Scatter, drawable
from plankwise.report.text import is_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = ("png", "svg")
WIDTH, HEIGHT, BAR_HEIGHT = 5.0, 3.4, 0.2  # inches
LEGEND_LETTERS = 78  # that fit in a line of the legend
MOST_COLUMNS = 12  # of a heat map that have their name below
NAME, LETTER = 7, 0.55  # points that a name is high, and the share of that which a letter is wide
MANY = 40  # points of a line from which on they have no marks
# Okabe and Ito: colours that colour-blind readers tell apart too
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
LINES = ("-", "--", "-.", ":")  # so that lines that coincide are both seen
MARKS = ("o", "s", "^", "D")
LOOKS = {  # colour, line and mark of each tone
    "predecessor": (COLOURS[0], "--", "o"),
    "model": (COLOURS[0], "-", "o"),
    "successor": (COLOURS[1], "-", "o"),
    "truncated": (COLOURS[2], "-.", "o"),
    "other": (COLOURS[3], "-", "o"),
    "dominated": ("#bbbbbb", "-", "o"),
    **{tone: (COLOURS[i], LINES[i % len(LINES)], MARKS[i % len(MARKS)]) for i, tone in enumerate(TONES)},
}
SETTINGS: Any = {
    "text.parse_math": False,  # a name with $ in it is not a formula
    "svg.fonttype": "none",
    "svg.hashsalt": "plankwise",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def require_matplotlib(what: str) -> None:
    """Looks for matplotlib before anything is written.

    Raises:
        MissingExtraError: it is not installed, but `what` needs it.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtraError(what, "matplotlib", "plots")


def write_plot(charts: Sequence[Chart], folder: Path, name: str, *, titled: bool = False) -> list[Path]:
    """Writes the charts one above the other as NAME.png and NAME.svg; gives the two paths.

    Raises:
        RunError: the folder cannot be written to.
    """
    import matplotlib
    from matplotlib.figure import Figure

    paths = [folder / f"{name}.{kind}" for kind in KINDS]
    heights = [_height(chart) for chart in charts]
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(WIDTH, sum(heights)), layout="constrained")
        panels = figure.subplots(len(charts), 1, squeeze=False, height_ratios=heights)[:, 0].tolist()
        for panel, chart in zip(panels, charts, strict=True):
            DRAWN[type(chart)](panel, chart)
            if titled or len(charts) > 1:
                panel.set_title(textwrap.fill(chart.title, 60), fontsize=9, loc="left")
        _add_legend(figure, panels)
        for path, kind in zip(paths, KINDS, strict=True):
            with whole_file(path) as file:
                figure.savefig(file, format=kind, dpi=200, metadata={"Date": None} if kind == "svg" else None)
    return paths


def _height(chart: Chart) -> float:
    if not isinstance(chart, BarChart):
        return HEIGHT
    return 1.0 + BAR_HEIGHT * len(chart.groups) * (chart.rows + 1)


def _add_legend(figure: "Figure", panels: Sequence["Axes"]) -> None:
    """One legend below all panels; a name that several of them use stands there once."""
    found = {
        name: handle
        for panel in panels
        for handle, name in zip(*panel.get_legend_handles_labels(), strict=True)
        if name
    }
    if found:
        columns = max(1, min(3, LEGEND_LETTERS // (6 + max(map(len, found)))))
        place: Any = {"loc": "outside lower center", "ncols": columns}
        figure.legend(found.values(), found.keys(), frameon=False, fontsize=8, **place)


def _draw_lines(panel: "Axes", chart: Lines) -> None:
    if chart.diagonal:
        panel.axline((0, 0), slope=1, color="0.5", linestyle=":")
    for one in map(drawable, chart.series):
        colour, line, mark = LOOKS[one.tone]
        if one.singles:
            panel.plot(*_columns(one.singles), mark, color=colour, alpha=0.55, markersize=5, markeredgewidth=0)
        if one.singles or len(one.points) > MANY:
            mark = ""
        style: Any = {"color": colour, "linestyle": line, "marker": mark, "markersize": 3, "label": one.name}
        if not chart.joined:
            style |= {"linestyle": "", "marker": "_", "markersize": 14, "markeredgewidth": 2}
        if one.spread:
            panel.errorbar(*_columns(one.points), yerr=list(one.spread), capsize=2, **style)
        elif one.points:
            panel.plot(*_columns(one.points), **style)
    if chart.baseline:
        name, value = chart.baseline
        panel.axhline(value, color="0.4", linestyle=":", linewidth=1, label=name)
    _set_axes(panel, chart)


def _draw_bars(panel: "Axes", chart: BarChart) -> None:
    size = 0.8 / chart.rows
    bases = [0.0] * len(chart.groups)
    for row, one in enumerate(chart.bars):
        colour = LOOKS[one.tone][0]
        known = [(index, value) for index, value in enumerate(one.values) if is_number(value)]
        places = [index if chart.stacked else index + size * (row - (chart.rows - 1) / 2) for index, _ in known]
        values = [value for _, value in known]
        if chart.dots:
            panel.plot(values, places, "o", markersize=4, color=colour, label=one.name)
        else:
            lefts = [bases[index] for index, _ in known]
            panel.barh(places, values, 0.9 * size, left=lefts, color=colour, label=one.name)
        for place, (index, value) in zip(places, known, strict=True):
            interval = one.intervals[index] if one.intervals else None
            if interval:
                panel.plot(interval, [place, place], "|-", color=colour if chart.dots else "0.2", linewidth=1)
            bases[index] += value if chart.stacked else 0.0
    panel.set_yticks(range(len(chart.groups)), [textwrap.shorten(group, 40, placeholder="…") for group in chart.groups])
    panel.set_ylim(len(chart.groups) - 0.5, -0.5)
    _set_axis(panel, "x", chart.axis)


def _draw_heat_map(panel: "Axes", chart: HeatMap) -> None:
    image = panel.imshow(
        chart.values, cmap="Blues", vmin=chart.low, vmax=chart.high, aspect="auto", interpolation="nearest"
    )
    every_nth = math.ceil(len(chart.columns) / MOST_COLUMNS)
    shown = range(0, len(chart.columns), every_nth)
    turn: Any = {"rotation": 40, "ha": "right"} if max(map(len, chart.columns)) > 4 else {}
    panel.set_xticks(shown, [chart.columns[index] for index in shown], fontsize=7, **turn)
    panel.set_yticks(range(len(chart.rows)), chart.rows, fontsize=7)
    panel.set(xlabel=chart.x_label, ylabel=chart.y_label)
    panel.figure.colorbar(image, ax=panel, label=chart.scale)


def _draw_scatter(panel: "Axes", chart: Scatter) -> None:
    for dot in chart.dots:
        panel.plot([dot.x], [dot.y], "o", color=LOOKS[dot.tone][0], label=dot.group)
    _set_axes(panel, chart)
    _add_names(panel, [(dot.name, (dot.x, dot.y)) for dot in chart.dots])


def _draw_paths(panel: "Axes", chart: Paths) -> None:
    for one in filter(lambda one: one.points, map(drawable, chart.paths)):
        colour = LOOKS[one.tone][0]
        panel.plot(*_columns(one.points), "-", marker=".", markersize=3, linewidth=1, color=colour)
        panel.plot(*one.points[0], "o", markersize=4, color=colour, markerfacecolor="white")
        panel.plot(*one.points[-1], "o", markersize=4, color=colour)
    _set_axes(panel, chart)
    _add_names(panel, [(one.name, one.points[-1]) for one in map(drawable, chart.paths) if one.points])


def _add_names(panel: "Axes", names: Sequence[tuple[str, tuple[float, float]]]) -> None:
    """Names beside their points, each where it covers no earlier name; the others are left out."""
    taken: list[tuple[float, float, float]] = []
    for name, at in names:
        x, y = panel.transData.transform(at) * 72 / panel.figure.dpi
        end = x + NAME * LETTER * len(name)
        if any(x < other_end and start < end and abs(y - height) < NAME for start, other_end, height in taken):
            continue
        taken.append((x, end, y))
        panel.annotate(name, at, fontsize=NAME, xytext=(4, 3), textcoords="offset points")


def _set_axes(panel: "Axes", chart: Lines | Scatter | Paths) -> None:
    _set_axis(panel, "x", chart.x)
    _set_axis(panel, "y", chart.y)


def _set_axis(panel: "Axes", which: str, axis: Axis) -> None:
    """Label, limits and ticks."""
    line = panel.xaxis if which == "x" else panel.yaxis
    line.set_label_text(axis.label)
    if axis.log2:
        (panel.set_xscale if which == "x" else panel.set_yscale)("log", base=2)
        line.set_ticks([], minor=True)
    line.set_major_formatter(lambda value, _: axis.show(round(value, 12)))  # a tick at 1 may be 1 + 2e-16
    if axis.ticks or axis.places:
        line.set_ticks(list(axis.ticks) or range(len(axis.places)), axis.places or None)
    low, high = (-0.5, len(axis.places) - 0.5) if axis.places else (axis.low, axis.high)
    if low is not None and high is not None:
        high += 0.02 * (high - low)  # so that marks at the end are not cut
    panel.set(**{f"{which}lim": (low, high)})


def _columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


DRAWN: dict[type, Callable[["Axes", Any], None]] = {
    Lines: _draw_lines, BarChart: _draw_bars, HeatMap: _draw_heat_map, Scatter: _draw_scatter, Paths: _draw_paths
}  # fmt: skip
