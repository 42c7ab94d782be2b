"""A frontier as the terminal shows it."""

from rich.console import Console
from rich.table import Table

from plankwise.record import SCORE, Shown
from plankwise.report.frontier import figure_of, frontier_verdict, interval_of, shown_of
from plankwise.report.speed import UNSTEADY
from plankwise.report.text import fixed, share, times

WIDTH = 110  # letters that the table takes


def show_frontier_table(data: dict, console: Console) -> None:
    """All points, the fastest first; a star for those that no other beats in score and speed, or in score and size."""
    about = data["frontier"]
    most, metric = about["threads"][-1], shown_of(about)
    figure = fixed(metric.digits)
    # Where there is less room, lines are wrapped: figures are not cut off.
    shown = Table(box=None, pad_edge=False, width=None if console.width >= WIDTH else WIDTH)
    shown.add_column("")
    shown.add_column("point", no_wrap=True)
    for name in (metric.metric, "kept", *(f"×@{size}" for size in about["batch_sizes"]), "MB", "× smaller"):
        shown.add_column(name, justify="right", no_wrap=True)
    for row in sorted(data["rows"], key=lambda row: row["relative_time"]):
        speeds = [row["speedups"][most][str(size)] for size in about["batch_sizes"]]
        shown.add_row(
            "*" if row["on_speed"] or row["on_size"] else "",
            row["name"],
            figure(figure_of(row)),
            share(row["kept"]),
            *(times(one["median"]) + ("" if one["steady"] else " ~") for one in speeds),
            f"{row['size_mb']:.1f}",
            times(row["smaller"]),
        )
    console.print(
        shown, crop=False, width=max(console.width, WIDTH)
    )  # a narrow terminal wraps it: figures are not cut off
    console.print(
        f"* on the frontier; ~ {UNSTEADY}; speed-ups over the predecessor in torch, threads: {most}{_told(_error(data), metric)}",
        soft_wrap=True,
    )
    console.print(frontier_verdict(data), soft_wrap=True)


def _error(data: dict) -> float | None:
    """Of the best score that has one, by its interval; a predecessor that all others are compared with has none."""
    rows = sorted(data["rows"], key=lambda row: row["score"], reverse=True)
    widths = [high - low for low, high in filter(None, map(interval_of, rows))]
    return next((width / (2 * 1.96) for width in widths if width > 0), None)


def _told(error: float | None, metric: Shown) -> str:
    if error is None:
        return ""
    return f"; a standard error of {'a score' if metric.key == SCORE else metric.metric}: {fixed(max(metric.digits - 1, 1))(error)}"
