"""Predict a table's texts (of a sentence encoder, their vectors), or GLUE's test files in the leaderboard's format.

Example: plankwise predict runs/demo/successor --table new.csv --text sentence --out predictions.csv

Example: plankwise predict runs/rte/successor task.name=glue task.subset=rte task.folder=RTE --out submission
"""

from pathlib import Path
from typing import Annotated

import typer

from plankwise.cli._completion import complete_keys

NEEDS_ARGUMENTS = True


def command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="folder or hub name of a trained model")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...", help="keys to set; see `plankwise list keys`", autocompletion=complete_keys
        ),
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
        typer.Option(
            help="file for --table, folder for test files", show_default="predictions.csv, vectors.npy or predictions/"
        ),
    ] = None,
) -> None:
    from plankwise.cli._console import give, open_console
    from plankwise.cli._models import config_for
    from plankwise.data.layouts import read_encoding, read_separator
    from plankwise.data.pieces import Layout
    from plankwise.errors import ConfigError

    if text and table is None:
        raise ConfigError("--text is given without --table; name the file that has this column")
    if table is not None and not text:
        raise ConfigError("--table is given without --text; name the column with the text, twice for pairs")
    separator, encoding = read_separator(separator, "--separator"), read_encoding(encoding, "--encoding")
    wanted = "give --table and --text, or say which task's test files are meant" if table is None else ""
    config = config_for(model, overrides or [], wanted)

    from plankwise.run.inference import predict_table, predict_tests

    console = open_console()
    if table is None or text is None:
        out = out or Path("predictions")
        written = predict_tests(config, out, console)
    else:
        layout = Layout(separator, header, encoding, quoting, keys="flags")
        written = predict_table(config, table, text, layout, out, console)
    for path in written:
        console.print(f"written: {path}", soft_wrap=True)
    give({"written": written}, out or written[0])
