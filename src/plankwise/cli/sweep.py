"""Sweep keys of a recipe: many trials, each an ordinary run; the best is chosen by examples that do not report.

Example: plankwise sweep recipes/reviews.toml --space training.learning_rate=1e-5..4e-4 plan.init=lower,solved --trials 40

A range is a..b, values have commas between. The same command started several times, on one machine or on several that share
--folder and --storage, shares the trials; one that was stopped goes on when it is given again.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from plankwise.cli._completion import complete_keys, complete_recipes
from plankwise.cli._help import PlainCommand

NEEDS_ARGUMENTS = True
SPACE = "--space"


class SpaceCommand(PlainCommand):
    """A command whose option --space takes all arguments up to the next option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        found: list[str] = []
        inside = False
        for text in args:
            if text.startswith("-"):
                inside = text == SPACE
            elif inside and found[-1] != SPACE:
                found.append(SPACE)
            found.append(text)
        return super().parse_args(ctx, found)


COMMAND_CLASS = SpaceCommand


class Sampler(StrEnum):
    grid = "grid"
    random = "random"
    tpe = "tpe"


def command(
    recipe: Annotated[
        Path, typer.Argument(metavar="RECIPE", help="a TOML file of keys", autocompletion=complete_recipes)
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...", help="keys to set otherwise in all trials", autocompletion=complete_keys
        ),
    ] = None,
    space: Annotated[
        list[str] | None,
        typer.Option(SPACE, metavar="KEY=A..B | KEY=A,B,C ...", help="keys to try, with a range or values"),
    ] = None,
    trials: Annotated[
        int | None, typer.Option(help="how many, of all workers together", show_default="20, or the whole grid")
    ] = None,
    sampler: Annotated[
        Sampler | None, typer.Option(help="how values are drawn", show_default="tpe", case_sensitive=True)
    ] = None,
    storage: Annotated[
        str | None, typer.Option(metavar="URL", help="database of the trials", show_default="sweep.db in the folder")
    ] = None,
    prune: Annotated[
        bool, typer.Option("--prune/--no-prune", help="end trials that do worse than the median half-way")
    ] = False,
    status: Annotated[
        bool, typer.Option("--status/--no-status", help="show the trials by now, and train nothing")
    ] = False,
    folder: Annotated[Path | None, typer.Option(help="where all is written", show_default="runs/sweep-RECIPE")] = None,
) -> None:
    from plankwise.cli._console import give, open_console
    from plankwise.config import load_data, validate_config
    from plankwise.sweep.space import read_space

    data = load_data(recipe, overrides or [])
    validate_config(data)
    if space:
        read_space(space, data)

    from plankwise.report.page import write_report
    from plankwise.report.sweep_table import show_sweep_table
    from plankwise.sweep.flow import Request, read_status, run_sweep

    console, place = open_console(), folder or Path("runs") / f"sweep-{recipe.stem}"
    command = ["plankwise", "compress", str(recipe), *(overrides or [])]
    kind = None if sampler is None else sampler.value
    request = Request(data, space or [], place, console, trials, kind, storage, prune, command)
    table = read_status(request) if status else run_sweep(request)
    show_sweep_table(table, console)
    if not status:
        page = write_report([place], place / "report.html")
        console.print(f"report: {page}", soft_wrap=True)
    give(table, place)
    if not status and table["sweep"]["best"] is None:
        raise typer.Exit(1)
