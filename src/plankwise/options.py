"""Options that a user gives, checked: every fault in one message, each with its key, what is allowed and what to do."""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from plankwise.errors import ConfigError, shorten
from plankwise.kinds import no_such

BROKEN = re.compile("[\0\ud800-\udfff]")
MOST_GIVEN = 400  # characters of a value that a message repeats


class Options(BaseModel):
    """A section of a recipe: frozen, and unknown keys are errors."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        validate_default=True,
        allow_inf_nan=False,
        coerce_numbers_to_str=True,  # run.name=2024 on the command line is text all the same
    )


def as_list(value: Any) -> Any:
    """One text that stands for a list of one."""
    return [value] if isinstance(value, str) else value


Kind = TypeVar("Kind", bound=Options)
Sections = Mapping[str, Callable[[], Any]]  # the class of options of a section whose annotation does not say it


def validate(kind: type[Kind], data: Any, *, prefix: str = "", sections: Sections | None = None) -> Kind:
    """The options in `data`; in messages, keys begin with `prefix`.

    Raises:
        ConfigError: everything that is wrong, gathered in one message.
    """
    if broken := list(_find_broken(data, prefix.rstrip("."))):
        raise ConfigError("\n".join(broken))
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(error, kind, prefix, sections or {}))) from None


def _find_broken(data: Any, key: str) -> Iterator[str]:
    """A sentence for each text that nothing can be called: with a zero byte, or half of a character."""
    left = [(key, data)]  # a list instead of calls, however deeply the data are nested
    while left:
        key, value = left.pop()
        if isinstance(value, dict):
            left += [(f"{key}.{name}" if key else str(name), inner) for name, inner in value.items()]
        elif isinstance(value, list | tuple):
            left += [(key, inner) for inner in value]
        elif isinstance(value, str) and BROKEN.search(value):
            yield f"{key} is {shorten(ascii(value), MOST_GIVEN)}; take out what is not a character"


def walk(kind: type[BaseModel], prefix: str = "", sections: Sections | None = None) -> Iterator[tuple[str, FieldInfo]]:
    """Every key with its field, those of sections inside included; keys begin with `prefix`."""
    for name, field in kind.model_fields.items():
        inner = sections[name]() if sections and name in sections else field.annotation
        yield f"{prefix}{name}", field
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from walk(inner, f"{prefix}{name}.")


def allowed(field: FieldInfo) -> str:
    """The values that a key takes, as short as they can be said; empty if that is any text."""
    return _allowed(field.annotation, field.metadata)


def _allowed(annotation: Any, metadata: list) -> str:
    if get_origin(annotation) is Annotated:
        annotation, *metadata = get_args(annotation)
        metadata = [rule for one in metadata for rule in (one.metadata if isinstance(one, FieldInfo) else [one])]
    if get_origin(annotation) is Literal:
        return " | ".join(map(str, get_args(annotation)))
    if get_origin(annotation) is dict:
        return "section"
    if get_origin(annotation) is list:
        (inner,) = get_args(annotation)
        return f"list of {found}" if (found := _allowed(inner, [])) else "list"
    if isinstance(annotation, type):
        names = {bool: "true | false", int: "whole number", float: "number", dict: "section"}
        bounds = _bounds(metadata)
        if annotation in (int, float) and bounds:
            return f"{names[annotation]}, {_range(bounds).removeprefix('a number ').removeprefix('of ')}"
        return names.get(annotation, "")
    members = [member for member in get_args(annotation) if member is not NoneType]
    words = [_allowed(member, metadata) or ("text" if len(members) > 1 else "") for member in members]
    return " | ".join(words)


def _explain(error: ValidationError, kind: type[Options], prefix: str, sections: Sections) -> list[str]:
    """A sentence per key; what the members of a union want is said in one."""
    wanted: dict[str, tuple[Any, list[str]]] = {}
    sentences: list[str] = []
    for item in error.errors():
        key, owner, field = _locate(item, kind, sections)
        key = f"{prefix}{key}"
        message = item["msg"].removeprefix("Value error, ")
        if item["type"] == "extra_forbidden":
            sentences.append(f"{key}: {_no_such_key(key, owner, kind, prefix, sections)}")
        elif item["type"] == "missing":
            sentences.append(f"{key} is missing; it is needed: {field.description}")
        elif item["type"] == "value_error":
            sentences.append(message if message.startswith(key) else f"{key}: {message}")
        else:
            wanted.setdefault(key, (item["input"], []))[1].append(_want(item, field))
    return sentences + [
        f"{key} is {shorten(repr(value), MOST_GIVEN)}; give {' or '.join(wants)}"
        for key, (value, wants) in wanted.items()
    ]


def _no_such_key(key: str, owner: type[Options], kind: type[Options], prefix: str, sections: Sections) -> str:
    """Half a sentence for an unknown key: the whole of what was cut short or put in the wrong section, else the nearest name."""
    name = key.split(".")[-1]
    if not difflib.get_close_matches(name, owner.model_fields, n=1, cutoff=0.8):
        whole: dict[str, list[str]] = {}
        for known, _ in walk(kind, prefix, sections):
            whole.setdefault(known.split(".")[-1], []).append(known)
        near = [name] if name in whole else difflib.get_close_matches(name, whole, n=1, cutoff=0.8)
        if near:
            first, *others = sorted(whole[near[0]], key=lambda known: (known.count("."), known))
            other = f" (or {' or '.join(others)})" if others else ""
            return f"there is no such key; did you mean {first}{other}?"
    return no_such(name, owner.model_fields, "key")


def _locate(item: Any, model: Any, sections: Sections) -> tuple[str, Any, Any]:
    """The key that an error is about, the class that has it, and its field; pydantic's names of union members go."""
    owner, field, steps = model, None, []
    for index, step in enumerate(item["loc"]):
        fields = getattr(model, "model_fields", {})
        if step in fields:
            owner, field = model, fields[step]
            model = sections[step]() if index == 0 and step in sections else _section(field.annotation)
        elif item["type"] == "extra_forbidden" and index == len(item["loc"]) - 1:
            owner = model
        elif not isinstance(step, int):
            continue
        steps.append(str(step))
    return ".".join(steps), owner, field


def _section(annotation: Any) -> Any:
    """The class of options in an annotation such as `list[SlotOptions] | None`, if there is one."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for inner in get_args(annotation) if (found := _section(inner))), None)


def _want(item: Any, field: Any) -> str:
    """What is allowed, in words."""
    kind, context = item["type"], item.get("ctx", {})
    if kind in ("greater_than", "greater_than_equal", "less_than", "less_than_equal"):
        bounds = _bounds(field.metadata)
        return _range(bounds if context.keys() <= bounds.keys() else context)
    if kind == "literal_error":
        return context["expected"]
    if kind == "string_pattern_mismatch":
        return field.description
    if kind.endswith("too_short"):
        return "some text" if kind.startswith("string") else f"a list of at least {context['min_length']}"
    if kind == "string_too_long":
        return f"at most {context['max_length']} characters"
    words = {"int": "a whole number", "float": "a number", "bool": "true or false", "string": "text", "list": "a list"}
    words |= {"finite": "a finite number", **dict.fromkeys(("model", "dict"), "a section with keys of its own")}
    return words.get(kind.split("_")[0], item["msg"][0].lower() + item["msg"][1:])


def _bounds(metadata: list) -> dict[str, float]:
    return {name: getattr(rule, name) for rule in metadata for name in ("gt", "ge", "lt", "le") if hasattr(rule, name)}


def _range(bounds: dict[str, float]) -> str:
    low = f"of at least {bounds['ge']}" if "ge" in bounds else f"above {bounds['gt']}" if "gt" in bounds else ""
    high = f"up to {bounds['le']}" if "le" in bounds else f"below {bounds['lt']}" if "lt" in bounds else ""
    if low and high:
        return f"a number {low} and {high}"
    return f"{bounds['ge']} or more" if "ge" in bounds else f"a number {low or high}"
