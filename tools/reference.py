"""The pages of docs/ that are generated from the code when the site is built: config keys, options, commands, public names.

A page asks for a text by a comment, `<!-- generated: config -->`; `tools/docs_hooks.py` puts it there. The kinds of other
distributions that happen to be installed are left out: the site is about plankwise alone.
"""

import inspect
import json
import typing
from collections.abc import Iterator
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typer.models import ArgumentInfo, OptionInfo

import plankwise
from plankwise import config
from plankwise.core.schedule import SCHEDULES, describe_schedule
from plankwise.kinds import list_kinds, load_kind, summary

WORDS = {
    str: "text", int: "whole number", float: "number", bool: "true or false", dict: "section", Path: "file or folder",
}  # fmt: skip
BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
KINDS = ("tasks", "methods", "parts")  # folders whose kinds have options


def own_kinds(folder: str) -> dict[str, ModuleType]:
    """The kinds of a folder that come with plankwise, by name."""
    modules = {name: load_kind(folder, name, key=folder) for name in list_kinds(folder)}
    return {name: module for name, module in modules.items() if module.__name__.startswith("plankwise.")}


class Row(typing.NamedTuple):
    key: str
    allowed: str
    default: str
    meaning: str


def config_keys() -> dict[str, list[Row]]:
    """Every key of every section and kind, by the heading that it stands under."""
    usual = config.RunConfig()
    found: dict[str, list[Row]] = {}
    for section in config.RunConfig.model_fields:
        if section in config.DEFAULT_KINDS:
            for name, module in own_kinds(f"{section}s").items():
                found[f'[{section}] with name = "{name}"'] = list(_rows(module.Options, section))
        else:
            value = getattr(usual, section)
            found[f"[{section}]"] = list(_rows(type(value), section, value))
    for name, module in own_kinds("parts").items():
        found[f'[plan.options] with part = "{name}"'] = list(_rows(module.Options, "plan.options"))
    for kind, schedule in SCHEDULES.items():
        rows = [
            Row(f"method.schedule.{entry.name}", _type(entry.type), _default(entry.default), "")
            for entry in fields(schedule)
            if entry.metadata.get("key", True)
        ]
        first = Row("method.schedule.kind", _code(kind), "", str(schedule.__doc__))
        found[f'[method.schedule] with kind = "{kind}"'] = [first, *rows]
    return found


def _rows(options: type[BaseModel], prefix: str, usual: BaseModel | None = None) -> Iterator[Row]:
    for name, field in options.model_fields.items():
        key, inner = f"{prefix}.{name}", _options_in(field.annotation)
        value = field.get_default(call_default_factory=True) if usual is None else getattr(usual, name)
        default = "needed" if field.is_required() else _default(value)
        yield Row(key, _allowed(field), default, field.description or "")
        if inner is not None:
            listed = get_origin(field.annotation) is list or any(
                get_origin(one) is list for one in get_args(field.annotation)
            )
            yield from _rows(inner, f"{key}[…]" if listed else key, value if isinstance(value, BaseModel) else None)


def _options_in(annotation: Any) -> type[BaseModel] | None:
    """The class of options in an annotation such as `list[SlotOptions] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for one in get_args(annotation) if (found := _options_in(one))), None)


def _allowed(field: FieldInfo) -> str:
    bounds = [
        f"{sign} {getattr(rule, name):g}"
        for rule in field.metadata
        for name, sign in BOUNDS.items()
        if hasattr(rule, name)
    ]
    return " ".join(filter(None, [_type(field.annotation), ", ".join(bounds)]))


def _type(annotation: Any) -> str:
    """A type in words, with every value that is allowed."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is typing.Annotated:
        return _type(inner[0])
    if origin is Literal:
        return ", ".join(_code(value) for value in inner)
    if origin in (Union, UnionType):
        return " or ".join(_type(one) for one in inner if one is not NoneType)
    if origin in (list, tuple):
        return f"list of {_type(inner[0])}"
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return ", ".join(f"`{one}`" for one in annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "section"
    return WORDS.get(origin or annotation, "section" if annotation is Any else str(annotation))


def _default(value: Any) -> str:
    if value is None or isinstance(value, BaseModel):
        return ""
    if isinstance(value, list) and any(isinstance(one, BaseModel) for one in value):
        return f"{len(value)} rules"
    if type(value) in SCHEDULES.values():
        return _code(describe_schedule(value))
    return _code(value)


def _code(value: Any) -> str:
    """A value as TOML has it."""
    return f"`{_toml(value)}`"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)


def _table(rows: list[Row], *, first: str = "key") -> str:
    if not rows:
        return "No keys.\n"
    lines = [f"| {first} | allowed | default | meaning |", "|---|---|---|---|"]
    return "\n".join(lines + ["| " + " | ".join(map(_cell, (f"`{row.key}`", *row[1:]))) + " |" for row in rows]) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def config_reference() -> str:
    """All config keys, a table a section and kind."""
    parts = []
    for title, rows in config_keys().items():
        parts.append(f"## {title}\n\n{_table(rows)}")
        name = title.split('"')[1] if title.startswith("[method] ") else ""
        if name:
            parts.append(_changed(name))
    return "\n".join(parts)


def _changed(method: str) -> str:
    """What a method sets elsewhere by default."""
    sections = own_kinds("methods")[method].defaults({})
    said = [f"`{section}.{key} = {_toml(value)}`" for section, keys in sections.items() for key, value in keys.items()]
    return f"With this method, by default: {', '.join(said) or 'nothing else changes'}.\n"


def method_options(name: str) -> str:
    """The options of one method, and the defaults that it changes elsewhere."""
    return f"{_table(list(_rows(own_kinds('methods')[name].Options, 'method')))}\n{_changed(name)}"


def kinds(folder: str) -> str:
    """The kinds of a folder, each with its one sentence."""
    found = own_kinds(folder)
    return "\n".join(f"- `{name}`: {summary(module).rstrip('.')}" for name, module in found.items()) + "\n"


def schedules() -> str:
    """The schedules, each with its sentence and its keys."""
    return (
        "\n".join(
            f"- `{kind}`: {cls.__doc__} Default: {_code(describe_schedule(cls()))}" for kind, cls in SCHEDULES.items()
        )
        + "\n"
    )


def command_line() -> str:
    """Every command with its arguments and options."""
    return "\n".join(_command(name, module) for name, module in own_kinds("cli").items())


def _command(name: str, module: ModuleType) -> str:
    paragraphs = inspect.cleandoc(module.__doc__ or "").split("\n\n")
    examples = [text.removeprefix("Example: ") for text in paragraphs if text.startswith("Example: ")]
    told = [text for text in paragraphs if not text.startswith("Example: ")]
    joined = "\n".join(examples)
    shown = [f"```text\n{joined}\n```"] if examples else []
    rows = [_parameter(one) for one in inspect.signature(module.command).parameters.values()]
    table = "\n".join(
        ["| argument or option | allowed | default | meaning |", "|---|---|---|---|", *filter(None, rows)]
    )
    return "\n\n".join([f"## plankwise {name}", *told, *shown, *([table] if any(rows) else [])]) + "\n"


def _parameter(parameter: inspect.Parameter) -> str:
    """A row for one parameter of a command's function; empty for what is not set on the command line."""
    annotation, *extras = get_args(parameter.annotation) or (parameter.annotation,)
    info = next((one for one in extras if isinstance(one, OptionInfo | ArgumentInfo)), None)
    if info is None or info.hidden:
        return ""
    flag = parameter.name.replace("_", "-")
    if isinstance(info, ArgumentInfo):
        name = info.metavar or parameter.name.upper()
    elif annotation is bool and not info.param_decls:
        name = f"--{flag}, --no-{flag}"
    else:  # inside Annotated, Typer takes the first name that is given for the default
        given = [
            one for one in (info.default, *(info.param_decls or ())) if isinstance(one, str) and one.startswith("-")
        ]
        name = ", ".join(given) or f"--{flag}"
    default = "" if parameter.default in (None, parameter.empty) else str(parameter.default)
    default = info.show_default if isinstance(info.show_default, str) else default
    needed = "needed" if parameter.default is parameter.empty else default
    return "| " + " | ".join(map(_cell, (f"`{name}`", _type(annotation), needed, info.help or ""))) + " |"


def public_names() -> str:
    """Everything in `plankwise.__all__`, and the classes of plankwise that these functions return, for mkdocstrings."""
    parts = []
    for name in plankwise.__all__:
        found = getattr(plankwise, name)
        parts.append(_documented(found, f"plankwise.{name}", 2))
        parts += [_documented(cls, f"{cls.__name__}, what plankwise.{name} returns", 3) for cls in _returned(found)]
    return "\n".join(parts)


def _documented(found: Any, heading: str, level: int) -> str:
    """What mkdocstrings turns into the documentation of an object."""
    options = {"heading": heading, "toc_label": heading.split(",")[0], "heading_level": level}
    return f"::: {found.__module__}.{found.__qualname__}\n    options:\n" + "".join(
        f"      {key}: {json.dumps(value)}\n" for key, value in options.items()
    )


def _returned(found: Any) -> list[type]:
    if not inspect.isfunction(found):
        return []
    returned = typing.get_type_hints(found).get("return")
    classes = [one for one in (returned, *get_args(returned)) if isinstance(one, type)]
    return [one for one in classes if one.__module__.startswith("plankwise.")]


TEXTS = {
    "config": config_reference,
    "method": method_options,
    "kinds": kinds,
    "schedules": schedules,
    "commands": command_line,
    "names": public_names,
}
