"""Help that lists every config key with its default: the descriptions live in the options' classes alone."""

from typing import Any

from pydantic import BaseModel
from rich.console import Console
from rich.table import Table
from typer.core import TyperCommand


class KeysCommand(TyperCommand):
    """A command whose --help ends with all keys that `key=value` can set."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        show_keys(Console())


def show_keys(console: Console) -> None:
    from plankwise.config import RunConfig
    from plankwise.kinds import list_kinds, load_kind

    for section, field in RunConfig.model_fields.items():
        if section in ("task", "method"):
            for name in list_kinds(f"{section}s"):
                options = load_kind(f"{section}s", name, key=f"{section}.name").Options
                console.print(_table(section, options, f'{section}.name = "{name}"'))
        else:
            console.print(_table(section, field.annotation, section))


def _table(section: str, options: type[BaseModel] | Any, title: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, show_header=False, pad_edge=False)
    for column in ("key", "default", "meaning"):
        table.add_column(column, overflow="fold", ratio=4 if column == "meaning" else 2)
    for name, field in options.model_fields.items():
        if field.is_required():
            default = "needed"
        elif isinstance(field.default, BaseModel):
            default = "its own defaults"
        else:
            value = field.get_default(call_default_factory=True)
            default = "" if value is None or value == "" else str(value)
        table.add_row(f"{section}.{name}", default, field.description or "")
    return table
