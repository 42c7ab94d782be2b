"""Show what `plankwise compress` would do with a recipe, or search a plan for a speed, a size or a score.

Example: plankwise plan recipes/reviews.toml --target 2.5x

With --estimate a few of the run's own steps are tried out for about ten seconds, to say how long all take. With --target,
--params or --within a search solves and times parts in place of spans, seconds each and without training, and writes the best
plan as a recipe with its reasons; stopped, it goes on when the same command is given again.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from plankwise.cli._completion import complete_keys, complete_recipes

if TYPE_CHECKING:
    from plankwise.search.flow import Request

NEEDS_ARGUMENTS = True
SPANS, TOKENS, PLANS, RANDOM = 4, 12_000, 4, 3


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
        Path | None,
        typer.Option(help="write the figures to this JSON file, a found plan to .toml", show_default="none"),
    ] = None,
    target: Annotated[str | None, typer.Option(help="search: times as fast, for example 2.5x")] = None,
    params: Annotated[str | None, typer.Option(help="search: parameters at most, 20M")] = None,
    within: Annotated[str | None, typer.Option(help="search: loss of score before training, 1%")] = None,
    spans: Annotated[int, typer.Option(help="blocks in a span at most")] = SPANS,
    parts: Annotated[str | None, typer.Option(help="with commas between", show_default="all with candidates")] = None,
    tokens: Annotated[int, typer.Option(help="that each candidate is solved on")] = TOKENS,
    batch: Annotated[
        int | None, typer.Option(help="texts at once when timed", show_default="the recipe's first")
    ] = None,
    plans: Annotated[int, typer.Option(help="best plans that are measured whole")] = PLANS,
    random: Annotated[int, typer.Option(help="random plans beside them")] = RANDOM,
    folder: Annotated[Path | None, typer.Option(help="where a search is", show_default="runs/plan-RECIPE")] = None,
) -> None:
    from plankwise.errors import ConfigError

    searched = {
        "spans": (spans, SPANS),
        "tokens": (tokens, TOKENS),
        "plans": (plans, PLANS),
        "random": (random, RANDOM),
    }
    searched |= {} if batch is None else {"batch": (batch, 0)}
    given = [key for key, (value, default) in searched.items() if value != default]
    given += [key for key, text in {"parts": parts, "folder": folder}.items() if text is not None]
    if target is None and params is None and within is None:
        if given:
            raise ConfigError(f"--{given[0]} is of a search for a plan; give --target, --params or --within, too")
        _preview(recipe, overrides or [], out, estimate=estimate)
        return
    for key, (value, _) in searched.items():
        if value < (0 if key == "random" else 1):
            raise ConfigError(f"--{key} is {value}; give {0 if key == 'random' else 1} or more")
    if estimate:
        raise ConfigError(
            "--estimate is of a recipe's own plan; search first, then estimate the recipe that is written"
        )

    from plankwise.search.goal import read_goal

    goal = read_goal(target, params, within)
    assert goal is not None

    from plankwise.search.flow import Request

    names = None if parts is None else tuple(name.strip() for name in parts.split(",") if name.strip())
    request = Request(goal, spans, names, tokens, batch, plans, random)
    _search(recipe, overrides or [], request, folder or Path("runs") / f"plan-{recipe.stem}", out)


def _preview(recipe: Path, overrides: list[str], out: Path | None, *, estimate: bool) -> None:
    import json

    from plankwise.cli._console import give, open_console
    from plankwise.cli._tables import show_plan
    from plankwise.config import load_config
    from plankwise.files import write_text

    config = load_config(recipe, overrides)

    from plankwise.run.estimating import preview

    console = open_console()
    found = preview(config, console, estimate=estimate)
    show_plan(found, console)
    if out is not None:
        write_text(out, json.dumps(found, indent=2))
    give(found, out)


def _search(recipe: Path, overrides: list[str], request: "Request", folder: Path, out: Path | None) -> None:
    from plankwise.cli._console import give, open_console
    from plankwise.config import load_data
    from plankwise.files import write_text
    from plankwise.report.page import write_report
    from plankwise.report.search_table import show_search_table
    from plankwise.run.log import logged
    from plankwise.search.flow import RECIPE, TABLE, find_plan

    console = open_console()
    found = find_plan(load_data(recipe, overrides), request, folder, console)
    plan = folder / RECIPE
    if out is not None:
        write_text(out, (plan if out.suffix == ".toml" else folder / TABLE).read_text("utf-8"))
        plan = out if out.suffix == ".toml" else plan
    with logged(console, folder):
        show_search_table(found, console)
        console.print(f"page: {write_report([folder], folder / 'report.html')}", soft_wrap=True)
        console.print(f"plan: {plan}; edit it, then: plankwise compress {plan}", soft_wrap=True)
    give({**found, "plan": plan}, plan)
