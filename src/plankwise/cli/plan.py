"""Show what `plankwise compress` would do with a recipe, or search the best plan for a speed, a size or a score.

Example: plankwise plan recipes/reviews.toml --estimate plan.successors=2

With --estimate a few of the run's own steps are tried out for about ten seconds, to say how long all of them take.

Example: plankwise plan recipes/reviews.toml --target 2.5x

With --target, --params or --within, parts in place of spans are solved and timed, seconds each, and the best plan is written as
a recipe with its reasons. Nothing is trained but a predecessor without a head. A search that was stopped goes on when the same
command is given again.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plankwise.cli._completion import complete_keys, complete_recipes

if TYPE_CHECKING:
    from plankwise.search.flow import Request

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
        Path | None,
        typer.Option(
            help="write the same figures to this JSON file; of a search, the plan to a .toml", show_default="none"
        ),
    ] = None,
    target: Annotated[str | None, typer.Option(help="search: times as fast as the predecessor, 2.5x")] = None,
    params: Annotated[str | None, typer.Option(help="search: parameters at most, 20M")] = None,
    within: Annotated[
        str | None, typer.Option(help="search: share of the score that may be lost untrained, 1%")
    ] = None,
    spans: Annotated[
        int | None, typer.Option(help="searched: blocks in a span, at most", show_default="4", min=1)
    ] = None,
    parts: Annotated[
        str | None, typer.Option(help="searched: parts, with commas between", show_default="all that offer candidates")
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(help="that each candidate is solved on", show_default="12000", min=1)
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            help="that speed is measured at", show_default="the first of evaluation.latency_batch_sizes", min=1
        ),
    ] = None,
    plans: Annotated[
        int | None, typer.Option(help="best plans that are measured whole", show_default="4", min=1)
    ] = None,
    random: Annotated[int | None, typer.Option(help="random plans to compare with", show_default="3", min=0)] = None,
    folder: Annotated[
        Path | None, typer.Option(help="where a search is written", show_default="runs/plan-RECIPE")
    ] = None,
) -> None:
    from plankwise.errors import ConfigError

    searched: dict[str, Any] = {
        "spans": spans, "parts": parts, "tokens": tokens, "batch_size": batch_size, "plans": plans, "random": random
    }  # fmt: skip
    given = {key: value for key, value in searched.items() if value is not None}
    if target is None and params is None and within is None:
        for key in [*given, *(["folder"] if folder is not None else [])]:
            raise ConfigError(
                f"--{key.replace('_', '-')} is of a search for a plan; give --target, --params or --within, too"
            )
        _preview(recipe, overrides or [], out, estimate=estimate)
        return
    if estimate:
        raise ConfigError(
            "--estimate is of a recipe's own plan; search first, then estimate the recipe that is written"
        )

    from plankwise.search.flow import Request
    from plankwise.search.goal import read_goal

    goal = read_goal(target, params, within)
    assert goal is not None
    if parts is not None:
        given["parts"] = tuple(name.strip() for name in parts.split(",") if name.strip())
    _search(recipe, overrides or [], Request(goal, **given), folder or Path("runs") / f"plan-{recipe.stem}", out)


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
