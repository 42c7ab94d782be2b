"""Show what runs measured: the verdict here, and a page with all of it.

Example: plankwise report runs/demo

Several runs are compared; the folder of a comparison or a study shows its table, a folder of runs all of them.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from plankwise.report.page import PageInput

NEEDS_ARGUMENTS = True


def command(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="folders of finished runs, comparisons or studies"),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="the page to write", show_default="report.html in the run's folder; for several, here"),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="folder to write the plots to, as PNG and SVG", show_default="none")
    ] = None,
) -> None:
    from plankwise.cli._console import give, open_console
    from plankwise.files import write_text
    from plankwise.record import explain_damage
    from plankwise.report.figures import write_figures
    from plankwise.report.page import make_page, read_inputs
    from plankwise.report.plots import require_matplotlib

    if figures is not None:
        require_matplotlib("a figure")
    inputs = read_inputs(runs)
    page = make_page(inputs)
    out = out or (inputs[0].path.parent if len(inputs) == 1 else Path()) / "report.html"
    write_text(out, page)
    console = open_console()
    with explain_damage(inputs[0].path):
        _show(inputs, console)
    if figures is not None:
        records = [(given.name, given.data) for given in inputs if given.is_run]
        frontiers = [(given.name, given.data) for given in inputs if "frontier" in given.data]
        with explain_damage(inputs[0].path):
            written = write_figures(records, figures, frontiers)
        console.print(f"figures: {figures}, {len(written)} files", soft_wrap=True)
    console.print(str(out), soft_wrap=True)
    give({"report": out, "results": {given.name: given.data for given in inputs}}, out)


def _show(inputs: "list[PageInput]", console: "Console") -> None:
    runs = [given for given in inputs if given.is_run]
    for given in inputs:
        if not given.is_run:
            _show_comparison(given.data, console)
    if len(runs) == 1:
        _show_run(runs[0].data, console)
    elif runs:
        _show_runs(runs, console)


def _show_run(record: dict, console: "Console") -> None:
    from plankwise.report.remarks import show_retained
    from plankwise.report.speed import speedup_of
    from plankwise.report.text import MISSING, MODELS, count, number
    from plankwise.report.verdict import score_name, show_score, tiles, verdict

    console.print(verdict(record))
    _print_table(["", "", ""], [(one.name, one.value, one.note) for one in tiles(record)], console, right=(1,))
    rows = [
        (
            name,
            count(record[name].get("parameters")),
            f"{number(record[name].get('size_mb'), 1)} MB",
            show_score(record, record[name]),
            show_retained(record[name], record[name].get("retained", 1.0 if name == "predecessor" else None)),
            f"{number(record[name].get('latency_ms'), 2)} ms" if record[name].get("latency_ms") else "–",
            MISSING if (faster := speedup_of(record, name)) is None else faster.brief,
        )
        for name in MODELS
        if name in record
    ]
    score = score_name(record) if len(score_name(record)) <= 12 else "score"
    _print_table(["", "parameters", "size", score, "retained", "latency", "speed-up"], rows, console)


def _show_runs(runs: "list[PageInput]", console: "Console") -> None:
    from plankwise.report.runs import group_runs, groups_note
    from plankwise.report.text import MISSING, number

    groups = group_runs([(given.name, given.data) for given in runs])
    if note := groups_note(groups):
        console.print(note)
    for group in groups:
        console.print(group.verdict)
        shown = [
            (
                row["name"],
                row["method"],
                number(row["score"], row["digits"]),
                row["kept"],
                MISSING if row["faster"] is None else row["faster"].brief,
                number(row["seconds"], 0),
                str(row["seed"]),
            )
            for row in group.rows
        ]
        _print_table(["run", "method", "score", "retained", "speed-up", "seconds", "seed"], shown, console, left=(0, 1))
        for row in group.rows:
            if row["remark"]:
                console.print(f"{row['name']} {row['remark']}")


def _show_comparison(data: dict, console: "Console") -> None:
    from plankwise.report.comparison import result_verdicts
    from plankwise.report.text import number, share

    for line in result_verdicts(data):
        console.print(line)
    for task in data.get("tasks", []):
        rows = [
            (
                str(row.get("label", row.get("name", ""))),
                number(row.get("median")),
                share(row["retained"]) if "retained" in row else number(row.get("difference")),
                str(row.get("verdict", "")),
            )
            for row in task.get("rows", task.get("arms", []))
        ]
        kept = "retained" if "rows" in task else "difference"
        _print_table(["", "median", kept, "verdict" if "rows" in task else ""], rows, console, left=(0, 3))


def _print_table(
    columns: list[str],
    rows: Sequence[tuple[str, ...]],
    console: "Console",
    *,
    left: tuple[int, ...] = (0,),
    right: tuple[int, ...] | None = None,
) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=any(columns))
    for index, name in enumerate(columns):
        to_right = index in right if right is not None else index not in left
        table.add_column(name, justify="right" if to_right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)
