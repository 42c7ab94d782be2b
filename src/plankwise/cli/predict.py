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
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="keys to set; `plankwise compress --help` lists them"),
    ] = None,
    table: Annotated[Path | None, typer.Option(help="csv, tsv, jsonl or parquet file", show_default="none")] = None,
    text: Annotated[
        list[str] | None, typer.Option(help="column with the text; twice for pairs", show_default="none")
    ] = None,
    separator: Annotated[str | None, typer.Option(help="between columns", show_default="by the file's ending")] = None,
    header: Annotated[bool, typer.Option(help="the first line names the columns")] = True,
    quoting: Annotated[bool, typer.Option(help="double quotes enclose fields")] = True,
    encoding: Annotated[str, typer.Option(help="of the file")] = "utf-8",
    out: Annotated[
        Path | None,
        typer.Option(help="file for --table, folder for test files", show_default="predictions.csv or predictions/"),
    ] = None,
) -> None:
    from plankwise.cli._console import open_console
    from plankwise.cli._models import config_for
    from plankwise.data.pieces import Layout
    from plankwise.errors import ConfigError
    from plankwise.run.inference import predict_table, predict_tests
    from plankwise.tasks.table import read_encoding, read_separator

    console = open_console()
    if table is None:
        if text:
            raise ConfigError("--text is given without --table; name the file that has this column")
        config = config_for(model, overrides or [], "give --table and --text, or say which task's test files are meant")
        written = predict_tests(config, out or Path("predictions"), console)
    elif text:
        separator, encoding = read_separator(separator, "--separator"), read_encoding(encoding, "--encoding")
        layout = Layout(separator, header, encoding, quoting, keys="flags")
        config = config_for(model, overrides or [])
        written = predict_table(config, table, text, layout, out or Path("predictions.csv"), console)
    else:
        raise ConfigError("--table is given without --text; name the column with the text, twice for pairs")
    for path in written:
        console.print(f"written: {path}", soft_wrap=True)
