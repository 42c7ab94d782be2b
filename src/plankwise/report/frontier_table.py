"""A frontier as the terminal shows it."""

from rich.console import Console
from rich.table import Table

from plankwise.report.frontier import frontier_verdict
from plankwise.report.speed import UNSTEADY
from plankwise.report.text import share, times

WIDTH = 110  # letters that the table takes


def show_frontier_table(data: dict, console: Console) -> None:
    """All points, the fastest first; a star for those that no other beats in score and speed, or in score and size."""
    about = data["frontier"]
    most = about["threads"][-1]
    # Where there is less room, lines are wrapped: figures are not cut off.
    shown = Table(box=None, pad_edge=False, width=None if console.width >= WIDTH else WIDTH)
    shown.add_column("")
    shown.add_column("point", no_wrap=True)
    for name in (about["metric"], "kept", *(f"×@{size}" for size in about["batch_sizes"]), "MB", "× smaller"):
        shown.add_column(name, justify="right", no_wrap=True)
    for row in sorted(data["rows"], key=lambda row: row["relative_time"]):
        speeds = [row["speedups"][most][str(size)] for size in about["batch_sizes"]]
        shown.add_row(
            "*" if row["on_speed"] or row["on_size"] else "",
            row["name"],
            f"{row['score']:.4f}",
            share(row["kept"]),
            *(times(one["median"]) + ("" if one["steady"] else " ~") for one in speeds),
            f"{row['size_mb']:.1f}",
            times(row["smaller"]),
        )
    console.print(
        shown, crop=False, width=max(console.width, WIDTH)
    )  # a narrow terminal wraps it: figures are not cut off
    console.print(
        f"* on the frontier; ~ {UNSTEADY}; speed-ups over the predecessor in torch, threads: {most}; a score's standard error: "
        f"{_error(data):.3f}",
        soft_wrap=True,
    )
    console.print(frontier_verdict(data), soft_wrap=True)


def _error(data: dict) -> float:
    """Of the predecessor's score, by its interval."""
    low, high = next(row["interval"] for row in data["rows"] if row["name"] == data["frontier"]["reference"])
    return (high - low) / (2 * 1.96)
