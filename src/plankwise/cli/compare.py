"""Compare methods: one table from the same predecessor, examples and budget, over several seeds.

Example: plankwise compare recipes/reviews.toml --methods finetune,kd,replacing --seeds 3

Rows of your own: --variant "replacing+kd: method.name=replacing method.alpha=0.5"; several recipes are several tasks.

Models made elsewhere: --row "mine: runs/other", a run or any checkpoint. With --domain RUN, a run on a text task, the thesis's four
settings are compared instead: the model as it is and the one tuned on the domain's text, whole and compressed.

A comparison that was stopped goes on when the same command is given again.
"""

from pathlib import Path
from typing import Annotated

import typer

from plankwise.cli._completion import complete_recipes
from plankwise.cli._workers import WORKERS, open_workers

NEEDS_ARGUMENTS = True


def command(
    recipes: Annotated[
        list[str],
        typer.Argument(
            metavar="RECIPE... [KEY=VALUE]...",
            help="TOML files, one a task; then keys to set otherwise; see `plankwise list keys`",
            autocompletion=complete_recipes,
        ),
    ],
    methods: Annotated[
        str | None,
        typer.Option(help="a row each, with commas between; see `plankwise list methods`", show_default="all that fit"),
    ] = None,
    seeds: Annotated[int, typer.Option(help="how many; they are 0, 1, 2 and so on")] = 5,
    variant: Annotated[
        list[str] | None, typer.Option(help="one more row: 'LABEL: KEY=VALUE KEY=VALUE'; may be repeated")
    ] = None,
    row: Annotated[
        list[str] | None,
        typer.Option(
            help="a trained model as one more row: 'LABEL: FOLDER', a run's or a checkpoint's; may be repeated"
        ),
    ] = None,
    domain: Annotated[
        Path | None,
        typer.Option(
            help="folder of a run on a text task: compare {plain, domain} × {whole, compressed}", show_default="none"
        ),
    ] = None,
    workers: Annotated[
        str | None,
        typer.Option(metavar="URL", help=WORKERS, show_default="alone"),
    ] = None,
    folder: Annotated[Path | None, typer.Option(help="where to write", show_default="runs/compare-RECIPES")] = None,
) -> None:
    import json

    from plankwise.cli._console import give, open_console
    from plankwise.config import load_data, validate_config
    from plankwise.context import is_main_process
    from plankwise.errors import ConfigError
    from plankwise.kinds import list_kinds

    if seeds < 1:
        raise ConfigError(f"--seeds is {seeds}; give 1 or more")
    overrides = [text for text in recipes if "=" in text and not Path(text).is_file()]
    paths = [Path(text) for text in recipes if text not in overrides]
    names = (
        list_kinds("methods") if methods is None else [name.strip() for name in methods.split(",") if methods.strip()]
    )
    rows: list[tuple[str, tuple[str, ...], bool]] = [
        (name, (f"method.name={name}",), methods is None) for name in names
    ]
    rows += [(*_read_variant(text), False) for text in variant or []]
    models = [_read_row(text) for text in row or []]
    data = [load_data(path, overrides) for path in paths]
    for one in data:
        validate_config(one)
    place = folder or Path("runs") / f"compare-{'+'.join(path.stem for path in paths)}"

    if domain is not None and (methods is not None or variant or row or len(data) != 1):
        raise ConfigError(
            "--domain compares four settings on one task; give one recipe, no --methods, no --variant and no --row"
        )

    from plankwise.comparison.domain import run_settings, show_settings, write_settings
    from plankwise.comparison.given import Given
    from plankwise.comparison.grid import Variant, run_grid
    from plankwise.comparison.tables import show_tables, tabulate
    from plankwise.comparison.writing import write_tables
    from plankwise.run.log import logged

    console = open_console()
    crew = open_workers(workers, "compare", place, console)
    if domain is not None:
        settings = run_settings(data[0], domain, range(seeds), place, console, crew)
        if is_main_process():
            console.print(f"tables: {write_settings(settings, place)}", soft_wrap=True)
        show_settings(settings, console)
        failed = any(row.failures for row in settings.rows)
    else:
        given = [Given(*one) for one in models]
        tasks = run_grid(data, [Variant(*one) for one in rows], range(seeds), place, console, given, crew)
        failed = any(cell.failure is not None for task in tasks for cell in task.cells)
        if is_main_process():
            tables = [tabulate(task) for task in tasks]
            written = write_tables(tables, place)
            with logged(console, place):
                show_tables(tables, console)
                console.print(f"tables: {written}", soft_wrap=True)
    if is_main_process():
        give(json.loads((place / "table.json").read_text("utf-8")), place)
    if failed:
        raise typer.Exit(1)


def _read_row(text: str) -> tuple[str, str]:
    """The label and the path of a trained model."""
    from plankwise.errors import ConfigError

    label, colon, path = text.partition(":")
    if not colon or not path.strip():
        raise ConfigError(f"--row is {text!r}; write a label, a colon and a folder, for example 'mine: runs/mine'")
    return label.strip(), path.strip()


def _read_variant(text: str) -> tuple[str, tuple[str, ...]]:
    """The label and the overrides of one more row."""
    import re

    from plankwise.errors import ConfigError

    label, colon, rest = text.partition(":")
    if not colon or "=" in label:
        raise ConfigError(
            f"--variant is {text!r}; write a label, a colon and keys, for example 'wide: plan.successors=4'"
        )
    # A value may hold blanks, as in method.schedule={kind='slope', k=0.1}; the next key is told by its dot.
    return label.strip(), tuple(filter(None, re.split(r"\s+(?=\w+(?:\.\w+)+=)", rest.strip())))
