"""The pages of docs/ that are generated from the code when the site is built: config keys, options, commands, public names.

A page asks for a text by a comment, `<!-- generated: config -->`; `tools/docs_hooks.py` puts it there. The kinds of other
distributions that happen to be installed are left out: the site is about plankwise alone.
"""

import inspect
import json
import typing
from collections.abc import Iterable
from dataclasses import fields, replace
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel
from typer.models import ArgumentInfo, OptionInfo

import plankwise
from plankwise.analysis_options import RuleOptions
from plankwise.core.schedule import SCHEDULES, describe_schedule
from plankwise.keys import Key, KeyGroup, list_keys
from plankwise.kinds import list_kinds, load_kind, summary
from plankwise.options import allowed
from plankwise.plan_options import SlotOptions

WORDS = {
    str: "text", int: "whole number", float: "number", bool: "true or false", Path: "file or folder",
}  # fmt: skip
FOLDERS = {"task": "tasks", "method": "methods", "plan": "parts"}  # whose kinds have keys of their own
LISTED: dict[str, type[BaseModel]] = {"plan.slots": SlotOptions, "analysis.rules": RuleOptions}  # lists of sections


def own_kinds(folder: str) -> dict[str, ModuleType]:
    """The kinds of a folder that come with plankwise, by name."""
    modules = {name: load_kind(folder, name, key=folder) for name in list_kinds(folder)}
    return {name: module for name, module in modules.items() if module.__name__.startswith("plankwise.")}


def key_groups() -> list[KeyGroup]:
    """Every key of a recipe, by section and kind: what `plankwise list keys` shows, and what stands inside its lists."""
    groups = []
    for group in list_keys():
        section, _, kind = group.name.partition(".")
        if kind and kind not in own_kinds(FOLDERS[section]):
            continue
        groups.append(group)
        if group.name == "predecessor":
            groups += [replace(group, title="predecessor.training") for group in list_keys("predecessor.training")]
        groups += [_entries(key, options) for key, options in LISTED.items() if key.startswith(f"{group.name}.")]
    return groups + [_schedule(kind) for kind in SCHEDULES]


def _entries(path: str, options: type[BaseModel]) -> KeyGroup:
    keys = [
        Key(f"{path}[…].{name}", "needed" if field.is_required() else "", allowed(field), field.description or "")
        for name, field in options.model_fields.items()
    ]
    return KeyGroup(path, f"{path}: each entry", keys)


def _schedule(kind: str) -> KeyGroup:
    schedule = SCHEDULES[kind]
    keys = [
        Key(f"method.schedule.{one.name}", "" if one.default is None else str(one.default), _type(one.type), "")
        for one in fields(schedule)
        if one.metadata.get("key", True)
    ]
    first = Key("method.schedule.kind", "", kind, str(schedule.__doc__))
    return KeyGroup(f"method.schedule.{kind}", f'method.schedule.kind = "{kind}"', [first, *keys])


def _type(annotation: Any) -> str:
    """A type in words."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is typing.Annotated:
        return _type(inner[0])
    if origin in (Union, UnionType):
        return " or ".join(_type(one) for one in inner if one is not NoneType)
    if origin in (list, tuple):
        return f"list of {_type(inner[0])}"
    return WORDS.get(annotation, str(annotation))


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _table(keys: Iterable[Key]) -> str:
    lines = ["| key | allowed | default | meaning |", "|---|---|---|---|"]
    foreign = {name for folder in ("parts", "runtimes") for name in set(list_kinds(folder)) - set(own_kinds(folder))}
    for key in keys:
        known = " | ".join(value for value in key.allowed.split(" | ") if value not in foreign)
        default = key.default if key.default == "needed" else _code(key.default)
        lines.append("| " + " | ".join(map(_cell, (_code(key.path), known, default, key.meaning))) + " |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def config_reference() -> str:
    """All config keys, a table a section and kind."""
    return "\n".join(f"## {group.title}\n\n{_table(group.keys)}\n{_note(group)}" for group in key_groups())


def _note(group: KeyGroup) -> str:
    return f"{group.note[0].upper()}{group.note[1:]}.\n" if group.note else ""


def method_options(name: str) -> str:
    """The options of one method, and the defaults that it changes elsewhere."""
    (group,) = list_keys(f"method.{name}")
    return f"{_table(group.keys)}\n{_note(group)}"


def kinds(folder: str) -> str:
    """The kinds of a folder, each with its one sentence."""
    return "\n".join(f"- `{name}`: {summary(folder, name).rstrip('.')}" for name in own_kinds(folder)) + "\n"


def schedules() -> str:
    """The schedules, each with its sentence and its keys."""
    return "\n".join(f"- `{kind}`: {cls.__doc__} {_code(_defaults(cls()))}" for kind, cls in SCHEDULES.items()) + "\n"


def _defaults(schedule: Any) -> str:
    return ", ".join(f"{key} = {value}" for key, value in describe_schedule(schedule).items() if key != "kind")


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
