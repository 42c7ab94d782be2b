"""A study as a picture: a dot per seed, the median as a line, the baseline dotted."""

import importlib.util
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plankwise.errors import MissingExtraError
from plankwise.files import whole_file
from plankwise.studies._study import Axis, Measured, find_series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FILES = ("plot.svg", "plot.png")
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")  # Okabe and Ito: told apart by colour-blind readers too
MARKS = ("o", "s", "^", "D")
LINES = ("-", "--", "-.", ":")  # so that lines that coincide are both seen
WIDTH, HEIGHT = 6.0, 4.0  # inches of one panel; 600 pixels wide at 100 to the inch
SETTINGS: Any = {
    "text.parse_math": False,  # a name with $ in it is no formula
    "svg.fonttype": "none",
    "svg.hashsalt": "plankwise",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def check_plots() -> None:
    """Looks for matplotlib before hours of training, not after.

    Raises:
        MissingExtraError: it is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtraError("the study's plot", "matplotlib", "plots")


def write_plots(results: list[Measured], axis: Axis, study: str, folder: Path) -> None:
    """Writes plot.svg and plot.png, one panel a task, one above the other."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(WIDTH, HEIGHT * len(results)), layout="constrained")
        panels = figure.subplots(len(results), 1, squeeze=False)[:, 0]
        for panel, measured in zip(panels, results, strict=True):
            _draw(panel, measured, axis)
            panel.set_title(textwrap.fill(f"study {study}: {measured.task}", 70), fontsize=10, loc="left")
        for name in FILES:
            kind = name.rpartition(".")[2]
            with whole_file(folder / name) as part:
                metadata = {"Date": None} if kind == "svg" else None
                figure.savefig(part, format=kind, dpi=200, metadata=metadata)


def _draw(panel: "Axes", measured: Measured, axis: Axis) -> None:
    places = list(dict.fromkeys(arm.at for arm in measured.arms))
    at = {place: float(place) if axis.numeric else float(index) for index, place in enumerate(places)}
    series = find_series(measured)
    for index, (name, arms) in enumerate(series.items()):
        colour, mark = COLOURS[index % len(COLOURS)], MARKS[index % len(MARKS)]
        shift = 0.0 if axis.numeric else 0.24 * (index - (len(series) - 1) / 2)
        dots = [(at[arm.at] + shift, score) for arm in arms for score in measured.scores(arm)]
        medians = [(at[arm.at] + shift, middle) for arm in arms if (middle := measured.median(arm)) is not None]
        if not medians:
            continue
        panel.plot(*_columns(dots), mark, color=colour, alpha=0.55, markersize=5, markeredgewidth=0)
        label = name or "median of the seeds"
        if axis.numeric:
            panel.plot(*_columns(sorted(medians)), LINES[index % len(LINES)], color=colour, label=label)
        else:
            xs, ys = _columns(medians)
            panel.hlines(ys, [x - 0.1 for x in xs], [x + 0.1 for x in xs], color=colour, linewidth=2, label=label)
    if measured.baseline is not None:
        panel.axhline(measured.baseline, color="0.4", linestyle=":", linewidth=1, label=measured.baseline_name)
    panel.set_xticks(list(at.values()), places)
    if not axis.numeric:
        panel.set_xlim(-0.5, len(places) - 0.5)
    panel.set_xlabel(axis.name)
    panel.set_ylabel(f"{measured.metric} on dev")
    if panel.get_legend_handles_labels()[0]:
        panel.legend(fontsize=9, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)


def _columns(pairs: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in pairs], [y for _, y in pairs]
