"""List what there is to choose from.

Example: plankwise list schedules
"""

from enum import StrEnum
from typing import Annotated

import typer

NEEDS_ARGUMENTS = True


class What(StrEnum):
    methods = "methods"
    parts = "parts"
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

    return [(name, summary(load_kind(what, name, key="list"))) for name in list_kinds(what)]
