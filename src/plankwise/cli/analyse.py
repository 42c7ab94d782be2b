"""Look closely at a finished run: errors before and after, what happens inside, what a prediction costs.

Example: plankwise analyse runs/demo --batch-sizes 1,8 --sample errors.csv

What is found is added to the run's record. Each kind of task has its own view of errors. Where whole texts have classes,
error classes are the rules in the recipe's section `analysis`; to change them later, edit the recipe and give it as --recipe. A
sample of errors, its column error_class filled in by hand, is read back with --labels.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

NEEDS_ARGUMENTS = True


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="folder of a finished `plankwise compress`")],
    sizes: Annotated[
        str, typer.Option("--batch-sizes", help="texts predicted at once, with commas between")
    ] = "1,2,4,8,16,32,64",
    predictions: Annotated[int, typer.Option(help="timed predictions per model and batch size")] = 100,
    threads: Annotated[int | None, typer.Option(help="that a prediction may use", show_default="torch's")] = None,
    sentence: Annotated[
        str | None, typer.Option(help="show this text's way through the layers", show_default="a dev text")
    ] = None,
    sample: Annotated[
        Path | None, typer.Option(help="write errors to label by hand to this csv file", show_default="none")
    ] = None,
    count: Annotated[int, typer.Option(help="errors in the sample")] = 200,
    labels: Annotated[
        Path | None, typer.Option(help="read such a file back, error_class filled in", show_default="none")
    ] = None,
    only: Annotated[
        str | None, typer.Option(help="some of errors, inside, cost, with commas between", show_default="all")
    ] = None,
    recipe: Annotated[
        Path | None, typer.Option(help="take the section `analysis` from this recipe", show_default="the run's")
    ] = None,
) -> None:
    from plankwise.cli._console import give, open_console
    from plankwise.record import FILE, read_record

    batch_sizes = _read_sizes(sizes)
    read_record(run)  # a folder without one is told before anything slow is imported

    from plankwise.run.analysis import SECTIONS, AnalysisRequest, analyse

    console = open_console()
    request = AnalysisRequest(
        sections=SECTIONS if only is None else tuple(name.strip() for name in only.split(",")),
        batch_sizes=batch_sizes,
        predictions=predictions,
        threads=threads,
        sentence=sentence,
        sample=sample,
        count=count,
        labels=labels,
        recipe=recipe,
    )
    record = analyse(run, request, console)
    found = record["analysis"]
    if "errors" in request.sections and "errors" in found:
        (_show_view if "tables" in found["errors"] else _show_errors)(found["errors"], console)
    if "cost" in request.sections:
        _show_latency(record, console)
    console.print(f"record: {run / FILE}", soft_wrap=True)
    give(found, run / FILE)


def _read_sizes(text: str) -> tuple[int, ...]:
    from plankwise.errors import ConfigError

    try:
        return tuple(int(size) for size in text.split(","))
    except ValueError:
        raise ConfigError(f"--batch-sizes is {text!r}; give whole numbers with commas between, like 1,8,32") from None


def _show_errors(errors: dict, console: "Console") -> None:
    cells = errors["cells"]
    table = _table(f"{errors['examples']} dev examples", "", "successor right", "successor wrong")
    table.add_row("predecessor right", str(cells["both_right"]), str(cells["lost"]))
    table.add_row("predecessor wrong", str(cells["gained"]), str(cells["both_wrong"]))
    console.print(table)
    kappa = "none: both give everything one class" if errors["kappa"] is None else f"{errors['kappa']:.3f}"
    console.print(f"agreement {errors['agreement']:.1%}, Cohen's kappa {kappa}; {errors['flips_total']} answers differ")
    before, after = (errors["calibration"][name]["ece"] for name in ("predecessor", "successor"))
    console.print(f"expected calibration error {before:.3f} before, {after:.3f} after")
    _show_classes("error classes by rule", errors["classes"], console)
    if "hand_labels" in errors:
        by_hand = errors["hand_labels"]
        title = f"error classes by hand: {by_hand['labelled']} errors labelled, {by_hand['empty']} left empty"
        _show_classes(title, by_hand, console)


def _show_view(errors: dict, console: "Console") -> None:
    """What a task without labels of whole texts shows of its errors."""
    from plankwise.report.text import change

    console.print(f"{errors['examples']:,} {errors['unit']} of dev", soft_wrap=True)
    if cells := errors.get("cells"):
        table = _table(errors["cells_of"], "", "successor right", "successor wrong")
        table.add_row("predecessor right", str(cells["both_right"]), str(cells["lost"]))
        table.add_row("predecessor wrong", str(cells["gained"]), str(cells["both_wrong"]))
        console.print(table)
    for one in errors["tables"]:
        heads = [one["of"]] if one["of"] else []
        heads += [column["name"] for column in one["columns"]]
        console.print(f"\n{one['title']}: before → after")  # a narrow table would break its own title
        table = _table("", one["first"], *("\n".join(head.rsplit(" ", 1)) for head in heads))
        for row in one["rows"]:
            figures = zip(row["before"], row["after"], one["columns"], strict=True)
            of = [f"{row['of']:,}"] if one["of"] else []
            table.add_row(
                row["name"], *of, *(change(before, after, column["form"]) for before, after, column in figures)
            )
        console.print(table)
    console.print(f"\n{errors['note']}")
    console.print(f"{errors['cases_title']}: {errors['cases_total']:,}; `plankwise report` shows them")


def _show_classes(title: str, classes: dict, console: "Console") -> None:
    rows = classes["rows"]
    if not rows:
        console.print(f"{title}: none, since one of the models makes no error to compare")
        return
    margin = f"±{100 * classes['margin']:g}"
    words = {True: f"within {margin}", False: f"beyond {margin}", None: "not shown"}
    table = _table(f"{title}: share of the errors", "", "before", "after", "points", "95 %", "stable")
    for side in dict.fromkeys(row["side"] for row in rows):
        table.add_row(side)
        for row in rows:
            if row["side"] == side:
                change = row["difference"]
                table.add_row(
                    f"  {row['name']}",
                    *(f"{row[when]['share']:.1%}" for when in ("before", "after")),
                    f"{100 * change['share']:+.1f}",
                    f"{100 * change['low']:+.1f} to {100 * change['high']:+.1f}",
                    words[row["stable"]],
                )
    console.print(table)


def _show_latency(record: dict, console: "Console") -> None:
    from plankwise.report.speed import read_speedups

    cost, faster = record["analysis"]["cost"], read_speedups(record)["successor"]
    models = list(cost["latency"])
    table = _table("latency: mean time of a prediction", "texts at once", *models, "speed-up")
    for size in cost["latency"][models[0]]:
        times = (f"{cost['latency'][model][size]['mean_ms']:.2f} ms" for model in models)
        table.add_row(size, *times, faster[size].text)
    console.print(table)


def _table(title: str, first: str, *columns: str) -> "Table":
    from rich.table import Table

    table = Table(title=f"\n{title}" if title else None, title_justify="left", box=None, pad_edge=False)
    table.add_column(first, overflow="fold")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table
