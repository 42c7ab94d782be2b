"""Show what `plankwise compress` would do with a recipe: slot by slot, and what it will take; nothing is trained.

Example: plankwise plan recipes/reviews.toml --estimate plan.successors=2

With --estimate a few of the run's own steps are tried out for about ten seconds, to say how long all of them take.
"""

from pathlib import Path
from typing import Annotated

import typer

from plankwise.cli._completion import complete_keys, complete_recipes

NEEDS_ARGUMENTS = True


def command(
    recipe: Annotated[
        Path, typer.Argument(metavar="RECIPE", help="a TOML file of keys", autocompletion=complete_recipes)
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...",
            help="keys to set otherwise; see `plankwise list keys`",
            autocompletion=complete_keys,
        ),
    ] = None,
    estimate: Annotated[bool, typer.Option(help="also multiply-adds, memory, and the time on this machine")] = False,
    out: Annotated[
        Path | None, typer.Option(help="write the same figures to this JSON file", show_default="none")
    ] = None,
) -> None:
    import json

    from plankwise.cli._console import give, open_console
    from plankwise.cli._tables import show_plan
    from plankwise.config import load_config
    from plankwise.files import write_text

    config = load_config(recipe, overrides or [])

    from plankwise.run.estimating import preview

    console = open_console()
    found = preview(config, console, estimate=estimate)
    show_plan(found, console)
    if out is not None:
        write_text(out, json.dumps(found, indent=2))
    give(found, out)
