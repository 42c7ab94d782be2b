"""Compress a model: from raw data to a checkpoint, as a recipe says.

Example: plankwise compress recipes/reviews.toml plan.successors=2 method.schedule.start=0.1

A run that was stopped goes on when the same command is given again.
"""

from pathlib import Path
from typing import Annotated

import typer

from plankwise.cli._keys import KeysCommand

NEEDS_ARGUMENTS = True
COMMAND_CLASS = KeysCommand


def command(
    recipe: Annotated[Path, typer.Argument(help="a TOML file with the sections below", show_default=False)],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="keys to set otherwise than the recipe does")
    ] = None,
) -> None:
    from plankwise.cli._console import open_console
    from plankwise.cli._tables import show_results
    from plankwise.config import load_config
    from plankwise.context import is_main_process
    from plankwise.report.page import write_report
    from plankwise.run.compress import compress

    console = open_console()
    config = load_config(recipe, overrides or [])
    record = compress(config, console)
    if is_main_process():
        show_results(record, console)
        page = write_report([Path(config.run.folder)], Path(config.run.folder) / "report.html")
        console.print(f"report: {page}", soft_wrap=True)
