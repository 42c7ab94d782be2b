"""Help that lists every config key with its default: the descriptions live in the options' classes alone."""

from typing import Any

from pydantic import BaseModel
from rich.console import Console
from rich.table import Table
from typer.core import TyperCommand

from plankwise.cli._console import open_console


class KeysCommand(TyperCommand):
    """A command whose --help ends with all keys that `key=value` can set."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        show_keys(open_console())


def show_keys(console: Console) -> None:
    from plankwise.config import RunConfig
    from plankwise.kinds import list_kinds, load_kind

    usual = RunConfig()
    for section in RunConfig.model_fields:
        if section not in ("task", "method"):
            console.print(_table(section, type(getattr(usual, section)), section, getattr(usual, section)))
            continue
        for name in list_kinds(f"{section}s"):
            module = load_kind(f"{section}s", name, key=f"{section}.name")
            console.print(_table(section, module.Options, f'{section}.name = "{name}"'))
            if section == "method":
                console.print(f"with this method, by default: {_listed(module.defaults({}))}", soft_wrap=True)


def _table(section: str, options: type[BaseModel] | Any, title: str, usual: BaseModel | None = None) -> Table:
    """The keys of one section; defaults are those of `usual`, or else of the class."""
    table = Table(title=f"\n{title}", title_justify="left", box=None, show_header=False, pad_edge=False)
    for column in ("key", "default", "meaning"):
        table.add_column(column, overflow="fold", ratio=4 if column == "meaning" else 2)
    _add_rows(table, section, options, usual)
    return table


def _add_rows(table: Table, section: str, options: type[BaseModel] | Any, usual: BaseModel | None) -> None:
    from plankwise.config import FitOptions

    for name, field in options.model_fields.items():
        value = field.get_default(call_default_factory=True) if usual is None else getattr(usual, name)
        own_keys = isinstance(value, BaseModel) and not isinstance(value, FitOptions)  # those stand under [training]
        shown = "needed" if field.is_required() else "" if own_keys else _show(value)
        table.add_row(f"{section}.{name}", shown, field.description or "")
        if own_keys:
            _add_rows(table, f"{section}.{name}", type(value), value)


def _show(value: Any) -> str:
    if isinstance(value, BaseModel):
        plain = type(value)()
        return ", ".join(f"{k} = {v}" for k, v in value if v != getattr(plain, k)) or "as there"
    return "" if value is None or value == "" else str(value)


def _listed(defaults: dict[str, dict]) -> str:
    return ", ".join(f"{section}.{key} = {value}" for section, keys in defaults.items() for key, value in keys.items())
