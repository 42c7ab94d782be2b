"""Predict a table's texts, or GLUE's test files in the leaderboard's format.

Example: plankwise predict runs/demo/successor --table new.csv --text sentence --out predictions.csv

Example: plankwise predict runs/rte/successor task.name=glue task.subset=rte task.folder=RTE --out submission
"""

from pathlib import Path
from typing import Annotated

import typer

NEEDS_ARGUMENTS = True


def command(
    model: Annotated[str, typer.Argument(help="folder or hub name of a trained classifier", show_default=False)],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="task keys, when the task has test files")
    ] = None,
    table: Annotated[Path | None, typer.Option(help="csv, tsv, jsonl or parquet file", show_default="none")] = None,
    text: Annotated[
        list[str] | None, typer.Option(help="column with the text; twice for pairs", show_default="none")
    ] = None,
    separator: Annotated[str | None, typer.Option(help="between columns", show_default="by the file's ending")] = None,
    header: Annotated[bool, typer.Option(help="the first line names the columns")] = True,
    encoding: Annotated[str, typer.Option(help="of the file")] = "utf-8",
    out: Annotated[
        Path | None,
        typer.Option(help="file for --table, folder for test files", show_default="predictions.csv or predictions/"),
    ] = None,
) -> None:
    from rich.console import Console

    from plankwise.cli._models import config_for
    from plankwise.errors import ConfigError
    from plankwise.inference import predict_table, predict_tests
    from plankwise.tasks._tables import Layout

    console = Console()
    config = config_for(model, overrides or [])
    if table is None:
        written = predict_tests(config, out or Path("predictions"), console)
    elif text:
        written = predict_table(
            config, table, text, Layout(separator, header, encoding), out or Path("predictions.csv"), console
        )
    else:
        raise ConfigError("--table is given without --text; name the column with the text, twice for pairs")
    for path in written:
        console.print(f"written: {path}", soft_wrap=True)
