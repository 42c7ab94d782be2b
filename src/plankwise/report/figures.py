"""The plots as PNG and SVG for papers, one file a plot; needs the extra `plots`.

From one run: loss, dev score, replacing rate (as Figure 2 of Xu et al. 2020), masks, latency, speed-up, tokens per second,
calibration, right by length, kinds of error (for tasks without labels their error view), CKA, token paths, impact of slots
(latency and speed-up as Figures 5.4 to 5.6 of the thesis). From several: score by constant replacing rate (as Figure 3 of the
paper), by starting rate and by when the rate reaches 1, a line a learning rate (as Figures 5.1 to 5.3 of the thesis), and speed-up
against what was kept, with a panel for each task.
From a frontier: score against speed, for each batch size, and against size.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from plankwise.errors import RunError
from plankwise.report._cost import cost_charts
from plankwise.report._errors import error_charts
from plankwise.report._inside import inside_charts
from plankwise.report._training import training_charts
from plankwise.report.charts import Charts
from plankwise.report.frontier import make_charts
from plankwise.report.plots import require_matplotlib, write_plot
from plankwise.report.runs import run_charts

# Of a run's charts those that are written as files; the others are on the page alone.
OF_A_RUN = (
    "loss", "score", "replacing-rate", "masks", "latency", "speed-up", "tokens-per-second", "calibration",
    "right-by-length", "kinds-of-error", "errors", "cka", "paths", "impact",
)  # fmt: skip


def write_figures(
    runs: Sequence[tuple[str, dict]], folder: Path, frontiers: Sequence[tuple[str, dict]] = ()
) -> list[Path]:
    """Writes every plot that the named records and frontiers have the values for; gives the files, two a plot.

    Raises:
        MissingExtraError: matplotlib is not installed.
        RunError: a record is damaged, or the folder cannot be written to.
    """
    require_matplotlib("a figure")
    try:
        charts = _all_charts(runs) | {f"frontier-{_slug(name)}": make_charts(data) for name, data in frontiers}
        return [path for name, some in charts.items() if some for path in write_plot(some, folder, name)]
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        told = f"{type(error).__name__}: {error}"
        raise RunError(
            f"a record is damaged: it cannot be drawn ({told}); run the same command again, in another folder"
        ) from error


def _all_charts(runs: Sequence[tuple[str, dict]]) -> Charts:
    """The charts by their files' names; of several runs each name begins with the run's number and name."""
    found: Charts = {}
    for index, (name, record) in enumerate(runs):
        start = f"{index + 1}-{_slug(name)}-" if len(runs) > 1 else ""
        charts = training_charts(record) | cost_charts(record) | error_charts(record) | inside_charts(record)
        found |= {f"{start}{plot}": charts[plot] for plot in OF_A_RUN}
    return found | (run_charts(runs) if len(runs) > 1 else {})


def _slug(name: str) -> str:
    """A name as part of a file's name."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") or "run"
