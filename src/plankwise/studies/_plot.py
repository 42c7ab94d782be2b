"""A study as a picture: a dot per seed, the median as a line, the baseline dotted; or medians as heat maps."""

from dataclasses import asdict
from pathlib import Path

from plankwise.report import charts
from plankwise.report.heat_maps import draw_heat_maps
from plankwise.report.plots import require_matplotlib, write_plot
from plankwise.studies import Axis, Measured, find_series
from plankwise.studies._report import to_json


def check_plots() -> None:
    """Looks for matplotlib before hours of training, not after.

    Raises:
        MissingExtraError: it is not installed.
    """
    require_matplotlib("the study's plot")


def write_plots(results: list[Measured], axis: Axis, study: str, folder: Path) -> None:
    """Writes plot.svg and plot.png, one panel a task, one above the other."""
    names = dict.fromkeys(name for measured in results for name in find_series(measured))
    tones = {name: charts.TONES[index % len(charts.TONES)] for index, name in enumerate(names)}
    panels: list[charts.Chart] = []
    for measured in results:
        title = f"study {study}: {measured.task}"
        if axis.rows:
            panels += draw_heat_maps(to_json(measured), asdict(axis), title)
        else:
            panels.append(_chart(title, measured, axis, tones))
    write_plot(panels, folder, "plot", titled=True)


def _chart(title: str, measured: Measured, axis: Axis, tones: dict[str, str]) -> charts.Lines:
    """Series of a study whose places are not numbers stand beside each other, so that their dots do not coincide."""
    places = list(dict.fromkeys(arm.at for arm in measured.arms))
    found, series = find_series(measured), []
    for index, (name, arms) in enumerate(found.items()):
        shift = 0.24 * (index - (len(found) - 1) / 2)
        at = {arm: float(arm.at) if axis.numeric else places.index(arm.at) + shift for arm in arms}
        medians = [(at[arm], middle) for arm in arms if (middle := measured.median(arm)) is not None]
        singles = [(at[arm], score) for arm in arms for score in measured.scores(arm)]
        series.append(charts.Series(name or "median of the seeds", sorted(medians), tones[name], singles=singles))
    return charts.Lines(
        title,
        series,
        charts.Axis(axis.name, ticks=sorted(map(float, places)))
        if axis.numeric
        else charts.Axis(axis.name, places=places),
        charts.Axis(f"{measured.metric} on dev"),
        joined=axis.numeric,
        baseline=None if measured.baseline is None else (measured.baseline_name, measured.baseline),
    )
