"""Every key of a recipe, with its default, the values that it takes and what it means: read from the options' classes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pydantic import BaseModel

from plankwise.config import DEFAULT_KINDS, FitOptions, RunConfig
from plankwise.core.schedule import SCHEDULES, Schedule, describe_schedule
from plankwise.errors import ConfigError
from plankwise.kinds import list_kinds, load_kind, no_such
from plankwise.options import allowed
from plankwise.parts import STARTS

COMMON = (
    "run.name", "predecessor.path", "task.name", "task.train", "task.text", "task.label", "plan.successors", "method.name",
    "training.epochs", "training.batch_size", "training.learning_rate", "training.max_length",
)  # fmt: skip
NEEDED = "needed"


@dataclass(frozen=True)
class Key:
    path: str
    default: str  # as a recipe writes it; empty if the key is absent by default
    allowed: str  # empty if any text is
    meaning: str


@dataclass(frozen=True)
class KeyGroup:
    """The keys of one section, or of one kind that a section may be about."""

    name: str  # training, method.kd
    title: str
    keys: list[Key] = field(default_factory=list)
    note: str = ""


def list_keys(wanted: str = "") -> list[KeyGroup]:
    """All keys by section; or those of a section (`training`), of a kind (`method.kd`), or that begin alike (`plan.fitting`).

    Raises:
        ConfigError: nothing is called `wanted`.
    """
    groups = list(_groups(whole=wanted.startswith("predecessor.")))
    if not wanted:
        return groups
    section = [group for group in groups if wanted in (group.name, group.name.split(".")[0])]
    if section:
        return section
    inside = [
        KeyGroup(group.name, group.title, keys)
        for group in groups
        if (keys := [key for key in group.keys if f"{key.path}.".startswith(f"{wanted}.")])
    ]
    if not inside:
        known = dict.fromkeys([*RunConfig.model_fields, *(group.name for group in groups)])
        raise ConfigError(f"keys of {wanted!r}: {no_such(wanted, known, 'section')}")
    return inside


def common_keys() -> list[Key]:
    """The keys that most recipes set, in the order of the run."""
    sections = [_section(name) for name in RunConfig.model_fields if name not in DEFAULT_KINDS]
    kinds = [_kind(section, name) for section, name in {**DEFAULT_KINDS, "task": "table"}.items()]
    found = {key.path: key for group in (*sections, *kinds) for key in group.keys}
    named = {
        f"{section}.name": Key(
            f"{section}.name", name, " | ".join(list_kinds(f"{section}s")), f"see `plankwise list {section}s`"
        )
        for section, name in DEFAULT_KINDS.items()
    }
    return [(found | named)[path] for path in COMMON]


@cache
def _usual() -> RunConfig:
    return RunConfig()


def _groups(*, whole: bool) -> Iterator[KeyGroup]:
    for section in RunConfig.model_fields:
        if section in DEFAULT_KINDS:
            yield from (_kind(section, name) for name in list_kinds(f"{section}s"))
        else:
            yield _section(section, whole=whole)
        if section == "plan":
            for name in list_kinds("parts"):
                options = load_kind("parts", name, key="plan.part").Options
                if options.model_fields:
                    yield KeyGroup(f"plan.{name}", f'plan.part = "{name}"', list(_keys("plan.options", options)))


def _section(name: str, *, whole: bool = False) -> KeyGroup:
    usual = getattr(_usual(), name)
    return KeyGroup(name, name, list(_keys(name, type(usual), usual, whole=whole)))


def _kind(section: str, name: str) -> KeyGroup:
    module = load_kind(f"{section}s", name, key=f"{section}.name")
    note = ""
    if section == "method":
        changed = [
            f"{part}.{key} = {value}" for part, keys in module.defaults({}).items() for key, value in keys.items()
        ]
        note = f"with this method, by default: {', '.join(changed)}" if changed else ""
    return KeyGroup(f"{section}.{name}", f'{section}.name = "{name}"', list(_keys(section, module.Options)), note)


def _keys(prefix: str, options: Any, usual: BaseModel | None = None, *, whole: bool = True) -> Iterator[Key]:
    """The keys of a class of options; defaults are those of `usual`, or else of the class.

    Unless `whole`, the keys of [predecessor.training] are left out: they are those of [training].
    """
    for name, one in options.model_fields.items():
        path = f"{prefix}.{name}"
        value = one.get_default(call_default_factory=True) if usual is None else getattr(usual, name)
        opened = isinstance(value, BaseModel) and (whole or not isinstance(value, FitOptions))
        default = NEEDED if one.is_required() else "" if opened else _show(value)
        yield Key(path, default, _names(path) or allowed(one), one.description or "")
        if opened:
            yield from _keys(path, type(value), value, whole=whole)


def _names(path: str) -> str:
    """The values of a key that are names of something else than its annotation says."""
    starts = " | ".join(STARTS)
    return {
        "plan.part": " | ".join(list_kinds("parts")),
        "plan.init": f"auto | fitted | solved | {starts} | a checkpoint's folder",
        "plan.fitting.start": f"solved | {starts} | a checkpoint's folder",
        "evaluation.runtime": " | ".join(list_kinds("runtimes")),
        "method.schedule": f"{{ kind = {' | '.join(SCHEDULES)}, … }}",
    }.get(path, "")


def _show(value: Any) -> str:
    """A default as a recipe writes it, but without quotes; of a section what differs from its class's own."""
    if isinstance(value, BaseModel):
        plain = type(value)()
        changed = [f"{name} = {_show(item)}" for name, item in value if item != getattr(plain, name)]
        return ", ".join(changed) or "as there"
    if isinstance(value, Schedule):
        return "{ " + ", ".join(f"{name} = {item}" for name, item in describe_schedule(value).items()) + " }"
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None or value == "" else str(value)
