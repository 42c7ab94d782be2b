"""Reading what a study is asked to try, and writing it as overrides."""

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from plankwise.config import RunConfig, validate_config
from plankwise.core.schedule import SCHEDULES
from plankwise.errors import ConfigError
from plankwise.kinds import load_kind, no_such


def choose(values: list[str] | None, usual: tuple[str, ...], known: Iterable[str], noun: str) -> list[str]:
    """The names that were asked for, or the usual ones.

    Raises:
        ConfigError: one of them is not known.
    """
    known = list(known)
    for name in values or ():
        if name not in known:
            raise ConfigError(f"--values has {name!r}; {no_such(name, known, noun)}")
    return list(dict.fromkeys(values or usual))


def refuse_vocabulary(config: RunConfig, study: str) -> None:
    """Lets a recipe pass whose successors keep all tokens.

    Raises:
        ConfigError: they are to be trimmed, which this study does not do.
    """
    if config.plan.vocabulary:
        raise ConfigError(
            f"plan.vocabulary is {config.plan.vocabulary} in the recipe {config.run.name}, but study {study} does not trim "
            "successors; take it out"
        )


def read_replacing(recipe: dict, study: str) -> RunConfig:
    """The recipe's config, whose method must be replacing.

    Raises:
        ConfigError: it is another one, or the recipe is wrong elsewhere.
    """
    config = validate_config(recipe)
    if config.method.name != "replacing":
        raise ConfigError(
            f"study {study} is about replacing, but method.name is {config.method.name!r} in the recipe {config.run.name}; "
            "leave it out, or add method.name=replacing to the command"
        )
    return config


def schedule_override(kind: str, given: dict[str, Any]) -> str:
    """The override for a schedule with those of the given keys that the kind has."""
    known = {field.name for field in fields(SCHEDULES[kind])}
    keys = "".join(f", {key} = {value!r}" for key, value in given.items() if key in known and value is not None)
    return f'method.schedule={{ kind = "{kind}"{keys} }}'


def truncation_overrides(config: RunConfig) -> tuple[str, ...]:
    """The overrides that make of a recipe its truncated model, trained as `compress` trains it."""
    module = load_kind("methods", "finetune", key="method.name")
    usual = [
        f"{section}.{key}={value!r}" for section, keys in module.defaults({}).items() for key, value in keys.items()
    ]
    return ('method={ name = "finetune" }', *usual, f"plan.init={config.plan.start}")
