"""Compress a model: from raw data to a checkpoint, as a recipe says.

Example: plankwise compress recipes/reviews.toml plan.successors=2

A run that was stopped goes on when the same command is given again.
"""

from pathlib import Path
from typing import Annotated

import typer

from plankwise.cli._completion import complete_keys, complete_recipes
from plankwise.cli._help import KeysCommand

NEEDS_ARGUMENTS = True
COMMAND_CLASS = KeysCommand


def command(
    recipe: Annotated[
        Path, typer.Argument(metavar="RECIPE", help="a TOML file of keys", autocompletion=complete_recipes)
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...", help="keys to set otherwise than the recipe does", autocompletion=complete_keys
        ),
    ] = None,
    effort: Annotated[str | None, typer.Option(help="seconds (no training), minutes, or hours (a search)")] = None,
    within: Annotated[str | None, typer.Option(help="how long it may take, for example 20min")] = None,
) -> None:
    from plankwise.cli._console import give, open_console
    from plankwise.cli._tables import show_results
    from plankwise.config import load_config
    from plankwise.context import is_main_process

    asked = {"run.effort": effort, "run.within": within}
    config = load_config(recipe, [*(overrides or []), *(f"{key}={value}" for key, value in asked.items() if value)])

    from plankwise.report.page import write_report
    from plankwise.run.compress import compress
    from plankwise.run.log import logged

    console, folder = open_console(), Path(config.run.folder)
    record = compress(config, console)
    if is_main_process():
        page = write_report([folder], folder / "report.html")
        with logged(console, folder):
            show_results(record, console)
            console.print(f"report: {page}", soft_wrap=True)
        give({**record, "folder": folder, "report": page}, record["successor"]["path"])
