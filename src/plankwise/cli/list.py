"""List what there is to choose from: methods, parts, keys and so on; without an argument, what can be listed.

Example: plankwise list schedules

Example: plankwise list keys training

Example: plankwise list parts --model bert-base-uncased
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from plankwise.keys import KeyGroup

NEEDS_ARGUMENTS = False
LENGTH, BATCH = 64, 1
LISTED = {
    "export": "plankwise export --to NAME: formats of exported models",
    "families": "what some families of models need beyond the general rule",
    "inits": "plan.init: the weights that successors start from",
    "keys": "every key of a recipe with its default and its values; also of one section: list keys training",
    "methods": "method.name: ways to compress",
    "metrics": "what models are scored by; a task says which",
    "parts": "plan.part: kinds of successor, and their plan.options; with --model also what each costs there",
    "rules": "analysis.rules: what error classes are told by",
    "runtimes": "evaluation.runtime: what predicts",
    "schedules": "method.schedule: how the replacing rate rises",
    "studies": "plankwise study NAME: the papers' studies",
    "task_kinds": "what a task asks of its models: labels, text",
    "tasks": "task.name: sources of examples",
}


@dataclass(frozen=True)
class Entry:
    name: str
    meaning: str
    options: str = ""  # with their defaults


def _complete(incomplete: str) -> list[str]:
    return [name for name in LISTED if name.startswith(incomplete)]


def command(
    what: Annotated[
        str | None, typer.Argument(metavar="[WHAT]", help=f"one of {', '.join(LISTED)}", autocompletion=_complete)
    ] = None,
    section: Annotated[
        str | None, typer.Argument(metavar="[SECTION]", help="of keys: training, method.kd, plan.fitting, …")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="of parts: hub name, folder or embedded; what each costs in it")
    ] = None,
    length: Annotated[int, typer.Option(help="with --model: tokens of a text")] = LENGTH,
    batch: Annotated[int, typer.Option(help="with --model: texts at once")] = BATCH,
) -> None:
    from rich.table import Table

    from plankwise.cli._console import give, open_console
    from plankwise.errors import ConfigError
    from plankwise.kinds import no_such

    console = open_console()
    if what is not None and what not in LISTED:
        raise ConfigError(f"{what!r} cannot be listed; {no_such(what, LISTED, 'list')}")
    if model is not None and what != "parts":
        raise ConfigError(f"--model is {model!r}, which is for parts alone: plankwise list parts --model {model}")
    if model is None and (length, batch) != (LENGTH, BATCH):
        raise ConfigError("--length and --batch say how parts are measured in a model; give --model, too")
    if what == "keys":
        _show_keys(section, console)
        return
    if section is not None:
        raise ConfigError(f"{section!r} is given after {what}; only keys have sections: plankwise list keys {section}")
    if model is not None:
        _show_costs(model, length, batch, console)
        return
    found = [Entry(*item) for item in LISTED.items()] if what is None else list(_entries(what))
    table = Table(box=None, show_header=False, pad_edge=False)
    for entry in found:
        table.add_row(entry.name, entry.meaning, *([entry.options] if any(one.options for one in found) else []))
    console.print(table)
    give([asdict(entry) for entry in found])


def _entries(what: str) -> Iterable[Entry]:
    """Everything of one sort; what takes seconds to load is read, not loaded."""
    from plankwise.kinds import list_kinds, load_kind, summary

    match what:
        case "schedules":
            from plankwise.core.schedule import SCHEDULES, describe_schedule

            for name, schedule in SCHEDULES.items():
                options = {key: value for key, value in describe_schedule(schedule()).items() if key != "kind"}
                yield Entry(name, str(schedule.__doc__), _options(options))
        case "inits":
            from plankwise.parts import STARTS

            for name, meaning in STARTS.items():
                yield Entry(name, meaning)
            yield Entry(
                "solved",
                "each successor's linear maps by least squares on some texts: no training, no labels",
                "plan.solving.*",
            )
            yield Entry(
                "fitted", "each successor learns to do what its span does, before the method starts", "plan.fitting.*"
            )
            yield Entry("auto", "solved for replacing and kd where successors can be, else lower")
            yield Entry(
                "PATH",
                "the folder or hub name of a checkpoint with as many blocks as successors, or as the predecessor",
            )
        case "metrics":
            from plankwise.evaluation.metrics import METRICS

            for name, metric in METRICS.items():
                yield Entry(name, str(metric.__doc__).split("\n")[0])
        case "rules":
            from plankwise.analysis_options import MEASURED, usual_options

            for name, meaning in MEASURED.items():
                yield Entry(name, meaning, _options(usual_options(name)))
        case "parts":
            for name in list_kinds(what):
                fields = load_kind(what, name, key="plan.part").Options.model_fields
                usual = {key: field.get_default() for key, field in fields.items()}
                yield Entry(name, summary(what, name), _options(usual) or "no options")
        case _:
            for name in list_kinds(what):
                yield Entry(name, summary(what, name))


def _options(options: dict[str, Any]) -> str:
    return ", ".join(f"{key} = {value!r}" for key, value in options.items())


def _show_costs(path: str, length: int, batch: int, console: "Console") -> None:
    """Every part in place of a middle block of a model."""
    from plankwise.errors import ConfigError

    for key, value in {"length": length, "batch": batch}.items():
        if value < 1:
            raise ConfigError(f"--{key} is {value}; give 1 or more")

    from rich.progress import Progress

    from plankwise.cli._console import give
    from plankwise.cli._tables import show_catalogue
    from plankwise.search.catalogue import make_catalogue

    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"parts in {path}", total=None)
        found = make_catalogue(
            path,
            length=length,
            batch=batch,
            progress=lambda done, expected: bar.update(task, completed=done, total=expected),
        )
    show_catalogue(found.to_json(), console)
    give(found.to_json())


def _show_keys(section: str | None, console: "Console") -> None:
    from plankwise.cli._console import give
    from plankwise.keys import list_keys

    groups = list_keys(section or "")
    for group in groups:
        _show_group(group, console)
    give([asdict(group) for group in groups])


def _show_group(group: "KeyGroup", console: "Console") -> None:
    from rich.table import Table

    table = Table(title=f"\n{group.title}", title_justify="left", box=None, show_header=False, pad_edge=False)
    for column in ("key", "default", "meaning"):
        table.add_column(column, overflow="fold", ratio=4 if column == "meaning" else 2)
    for key in group.keys:
        table.add_row(key.path, key.default, f"{key.meaning} ({key.allowed})" if key.allowed else key.meaning)
    console.print(table)
    if group.note:
        console.print(group.note, soft_wrap=True)
