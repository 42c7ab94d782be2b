"""Repeat one of the papers' studies on your own model and data, with the published figures beside it.

Example: plankwise study schedule recipes/reviews.toml training.epochs=2 --seeds 3 --values constant,linear

A study that was stopped goes on when the same command is given again.
"""

from pathlib import Path
from typing import Annotated

import typer

from plankwise.cli._completion import complete_recipes, complete_studies
from plankwise.cli._help import StudiesCommand
from plankwise.cli._workers import WORKERS, open_workers

NEEDS_ARGUMENTS = True
COMMAND_CLASS = StudiesCommand


def command(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="one of the studies below", autocompletion=complete_studies)
    ],
    recipes: Annotated[
        list[str],
        typer.Argument(
            metavar="RECIPE... [KEY=VALUE]...",
            help="TOML files, then keys to set otherwise in all of them; see `plankwise list keys`",
            autocompletion=complete_recipes,
        ),
    ],
    seeds: Annotated[int, typer.Option(help="how many; they are 0, 1, 2 and so on")] = 3,
    values: Annotated[
        str | None,
        typer.Option(help="rates, schedules, depths, … to try, with commas between", show_default=False),
    ] = None,
    workers: Annotated[
        str | None,
        typer.Option(metavar="URL", help=WORKERS, show_default="alone"),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="where all is written", show_default="runs/study-NAME-RECIPE")
    ] = None,
) -> None:
    import json

    from plankwise.cli._console import give, open_console
    from plankwise.config import load_data, validate_config
    from plankwise.context import is_main_process
    from plankwise.errors import ConfigError
    from plankwise.studies import StudyRequest, find_study, run_study

    find_study(name)
    if seeds < 1:
        raise ConfigError(f"--seeds is {seeds}; give 1 or more")
    paths, overrides = _tell_apart(recipes)
    data = [load_data(path, [*overrides, "evaluation.latency=false"]) for path in paths]
    for one in data:
        validate_config(one)
    folder = folder or Path("runs") / f"study-{name}-{paths[0].stem}"
    console = open_console()
    crew = open_workers(workers, "study", folder, console)
    request = StudyRequest(name, data, _read_values(values), list(range(seeds)), folder, console, crew)
    results = run_study(request)
    console.print(f"study: {folder}", soft_wrap=True)
    if is_main_process():
        give(json.loads((folder / "table.json").read_text("utf-8")), folder)
    if any(measured.failures for measured in results):
        raise typer.Exit(1)


def _tell_apart(arguments: list[str]) -> tuple[list[Path], list[str]]:
    """The recipes and the overrides: what has an = in it and is not a file is an override."""
    from plankwise.errors import ConfigError

    overrides = [text for text in arguments if "=" in text and not Path(text).is_file()]
    paths = [Path(text) for text in arguments if text not in overrides]
    if not paths:
        raise ConfigError(f"no recipe is given, only {', '.join(overrides)}; give a TOML file before the keys")
    return paths, overrides


def _read_values(text: str | None) -> list[str] | None:
    from plankwise.errors import ConfigError

    if text is None:
        return None
    values = [value.strip() for value in text.split(",")]
    if not all(values):
        raise ConfigError(f"--values is {text!r}; give values with commas between them, like a,b,c")
    return values
