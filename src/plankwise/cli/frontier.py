"""Draw the frontier: how fast and how small within a tolerance, for your task on this machine, against what else there is.

Example: plankwise frontier recipes/reviews.toml --within 1% --budget 20min

Points are the predecessor, successors of several depths and widths, by torch, ONNX Runtime and OpenVINO in fp32 and int8, and what
you would pick instead: truncation, static embeddings, TF-IDF, small encoders. A frontier that was stopped goes on when the same
command is given again.
"""

from pathlib import Path
from typing import Annotated

import typer

from plankwise.cli._completion import complete_recipes
from plankwise.cli._workers import WORKERS, open_workers

NEEDS_ARGUMENTS = True


def command(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE", help="TOML file", autocompletion=complete_recipes)],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="keys to set; see `plankwise list keys`")
    ] = None,
    depths: Annotated[
        str | None,
        typer.Option(help="blocks of successors, with commas between", show_default="1/2, 1/3, 1/4 and 1/6 of them"),
    ] = None,
    formats: Annotated[str, typer.Option(help="beside torch, with commas between; empty: none")] = "onnx,openvino",
    encoder: Annotated[list[str] | None, typer.Option(help="a small pretrained model to fine-tune; repeatable")] = None,
    static: Annotated[bool, typer.Option("--static/--no-static", help="static embeddings, by model2vec")] = True,
    embeddings: Annotated[
        str | None, typer.Option(help="model that these are distilled from", show_default=False)
    ] = None,
    trim: Annotated[bool, typer.Option("--trim/--no-trim", help="int8 also with a trimmed vocabulary")] = True,
    thin: Annotated[bool, typer.Option("--thin/--no-thin", help="also successors of less width")] = True,
    exits: Annotated[bool, typer.Option("--exits/--no-exits", help="also early exits")] = False,
    within: Annotated[str, typer.Option(help="share of the score that may be lost")] = "1%",
    budget: Annotated[str | None, typer.Option(help="when no further model is begun", show_default="none")] = None,
    predictions: Annotated[int, typer.Option(help="timed a point and batch size")] = 30,
    workers: Annotated[
        str | None,
        typer.Option(metavar="URL", help=WORKERS, show_default="alone"),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="where all is written", show_default="runs/frontier-RECIPE")
    ] = None,
) -> None:
    from plankwise.cli._console import give, open_console
    from plankwise.config import load_data
    from plankwise.efforts import read_duration
    from plankwise.errors import ConfigError

    tolerance = _read_share(within)
    if predictions < 1:
        raise ConfigError(f"--predictions is {predictions}; give 1 or more")
    chosen = None if depths is None else tuple(_read_depth(text) for text in depths.split(","))
    seconds = None if budget is None else read_duration(budget, "--budget")
    data = load_data(recipe, overrides or [])
    place = folder or Path("runs") / f"frontier-{recipe.stem}"

    from plankwise.frontier.flow import Request, draw_frontier
    from plankwise.report.frontier_table import show_frontier_table
    from plankwise.report.page import write_report
    from plankwise.run.log import logged

    console = open_console()
    names = tuple(name.strip() for name in formats.split(",") if name.strip())
    request = Request(
        depths=chosen,
        formats=names,
        encoders=tuple(encoder or ()),
        static=static,
        static_from=embeddings,
        trimmed=trim,
        thin=thin,
        exits=exits,
        tolerance=tolerance,
        budget=seconds,
        predictions=predictions,
        workers=open_workers(workers, "frontier", place, console),
    )
    found = draw_frontier(data, request, place, console)
    with logged(console, place):
        show_frontier_table(found, console)
        console.print(f"page: {write_report([place], place / 'report.html')}", soft_wrap=True)
    give(found, place)


def _read_share(text: str) -> float:
    from plankwise.errors import ConfigError

    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise ConfigError(f"--within is {text!r}; give a share of the score, for example 1% or 0.01")
    return share


def _read_depth(text: str) -> int:
    from plankwise.errors import ConfigError

    if not text.strip().isdigit():
        raise ConfigError(f"--depths has {text.strip()!r}; give whole numbers with commas between, for example 6,3,2")
    return int(text)
