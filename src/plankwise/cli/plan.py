"""Show what `plankwise compress` would do with a recipe: slot by slot, and what it will take; nothing is trained.

Example: plankwise plan recipes/reviews.toml --estimate plan.successors=2

With --estimate a few of the run's own steps are tried out for about ten seconds, to say how long all of them take.
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
    estimate: Annotated[bool, typer.Option(help="also multiply-adds, memory, and the time on this machine")] = False,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write the same figures there", show_default=False)
    ] = None,
) -> None:
    from json import dumps

    from plankwise.cli._console import open_console
    from plankwise.cli._tables import show_plan
    from plankwise.config import load_config
    from plankwise.files import write_text
    from plankwise.run.estimating import preview

    console = open_console()
    found = preview(load_config(recipe, overrides or []), console, estimate=estimate)
    show_plan(found, console)
    if json is not None:
        write_text(json, dumps(found, indent=2))
