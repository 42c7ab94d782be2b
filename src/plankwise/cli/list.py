"""List what there is to choose from.

Example: plankwise list schedules
"""

from enum import StrEnum
from types import ModuleType
from typing import Annotated

import typer

NEEDS_ARGUMENTS = True


class What(StrEnum):
    families = "families"
    methods = "methods"
    parts = "parts"
    runtimes = "runtimes"
    task_kinds = "task_kinds"
    tasks = "tasks"
    schedules = "schedules"
    studies = "studies"


def command(what: Annotated[What, typer.Argument(help="the kind of thing to list", show_default=False)]) -> None:
    from rich.table import Table

    from plankwise.cli._console import open_console

    table = Table(box=None, show_header=False, pad_edge=False)
    for row in _rows(what.value):
        table.add_row(*row)
    open_console().print(table)


def _rows(what: str) -> list[tuple[str, ...]]:
    if what == "schedules":
        from plankwise.core.schedule import SCHEDULES, describe_schedule

        return [
            (
                kind,
                str(cls.__doc__),
                ", ".join(f"{k} = {v}" for k, v in describe_schedule(cls()).items() if k != "kind"),
            )
            for kind, cls in SCHEDULES.items()
        ]
    from plankwise.kinds import list_kinds, load_kind, summary

    modules = {name: load_kind(what, name, key="list") for name in list_kinds(what)}
    if what == "parts":
        return [(name, summary(module), _options(module)) for name, module in modules.items()]
    return [(name, summary(module)) for name, module in modules.items()]


def _options(part: ModuleType) -> str:
    """A part's options with their defaults, as a recipe has them under [plan.options]."""
    fields = part.Options.model_fields.items()
    return ", ".join(f"{name} = {field.get_default()!r}" for name, field in fields) or "no options"
