"""The space of a sweep: the keys that differ from trial to trial, and the values that they may have.

training.learning_rate=1e-5..4e-4      a range; by its logarithm where it spans a decade
plan.successors=2..4                   whole numbers where the key takes no others
plan.init=lower,fitted,solved          values
"""

import copy
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plankwise.config import RunConfig, validate_config
from plankwise.errors import ConfigError
from plankwise.toml import apply_override

SHARED = ("run", "predecessor", "task", "evaluation", "analysis")  # sections that all trials have alike
NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
RANGE = re.compile(rf"({NUMBER})\.\.({NUMBER})")
DECADE = 10.0  # a range whose ends are so many times apart is drawn by its logarithm
MOST_WHOLE = 64  # whole numbers of a range that are tried out one by one beforehand


@dataclass(frozen=True)
class Dimension:
    """A key with its values, or with the ends of a range."""

    key: str
    values: tuple[str, ...] = ()  # as a recipe writes them
    low: float = 0.0
    high: float = 0.0
    whole: bool = False  # of a range: whole numbers alone
    log: bool = False

    @property
    def listed(self) -> list[str] | None:
        """Every value there is; None if there are too many."""
        if self.values:
            return list(self.values)
        if self.whole and self.high - self.low < MOST_WHOLE:
            return [str(value) for value in range(int(self.low), int(self.high) + 1)]
        return None

    @property
    def checked(self) -> list[str]:
        """The values to try out before anything is trained: all, or the ends of a range."""
        return self.listed or [self.write(self.low), self.write(self.high)]

    def write(self, value: Any) -> str:
        """A value as a recipe writes it."""
        if self.values:
            return str(value)
        return str(int(value)) if self.whole else repr(float(value))

    def __str__(self) -> str:
        told = ",".join(self.values) or f"{self.write(self.low)}..{self.write(self.high)}"
        return f"{self.key}={told}"


Space = Sequence[Dimension]


def read_space(texts: Sequence[str], recipe: Mapping[str, Any]) -> list[Dimension]:
    """The space that was asked for; every listed value and both ends of every range are tried on the recipe.

    Raises:
        ConfigError: a key or a value is not one of a recipe's, or not of the form that a space has.
    """
    if not texts:
        raise ConfigError(
            "--space is missing; give keys with a range or values, like training.learning_rate=1e-5..4e-4"
        )
    space = [_read(text) for text in texts]
    keys = [one.key for one in space]
    for key in keys:
        if keys.count(key) > 1:
            raise ConfigError(f"--space has {key} twice; give all of its values at once")
        if key.partition(".")[0] in SHARED:
            raise ConfigError(
                f"--space has {key}, but all trials share {', '.join(SHARED)}, or their scores would not compare; "
                "set it for the whole sweep"
            )
    validate_config(dict(recipe))
    space = [_with_kind(one, space, recipe) for one in space]
    for one in space:
        for text in one.checked:
            config_of(recipe, space, {one.key: text})
    return space


def config_of(recipe: Mapping[str, Any], space: Space, values: Mapping[str, str]) -> RunConfig:
    """The config with these values, and the first one of every other key.

    Raises:
        ConfigError: it is not a config; says for which value.
    """
    chosen = {one.key: one.checked[0] for one in space} | dict(values)
    try:
        return validate_config(with_keys(recipe, chosen))
    except ConfigError as error:
        told = ", ".join(f"{key}={value}" for key, value in values.items())
        raise ConfigError(f"--space {told}: {str(error).splitlines()[0]}") from None


def with_keys(recipe: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, Any]:
    """The recipe's data with some keys set; another method than the recipe's leaves that one's own keys behind."""
    data = copy.deepcopy(dict(recipe))
    method = data.get("method", {})
    if values.get("method.name", own := method.get("name")) != own:
        data["method"] = {}
    for key, text in values.items():
        apply_override(data, f"{key}={text}")
    return data


def list_points(space: Space) -> list[dict[str, str]]:
    """Every point of a grid, the last key changing first.

    Raises:
        ConfigError: a key has a range of which there is no list.
    """
    lists = []
    for one in space:
        if one.listed is None:
            raise ConfigError(
                f"--space {one} is a range, but --sampler is grid, which needs values; write them with commas, or choose random"
            )
        lists.append([(one.key, text) for text in one.listed])
    return [dict(point) for point in itertools.product(*lists)]


def _read(text: str) -> Dimension:
    key, separator, given = text.partition("=")
    if not separator or not re.fullmatch(r"\w+(\.\w+)+", key) or not given:
        raise ConfigError(f"--space has {text!r}; write KEY=LOW..HIGH or KEY=VALUE,VALUE, like plan.init=lower,solved")
    if found := RANGE.fullmatch(given):
        low, high = map(float, found.groups())
        if not (low < high and math.isfinite(high - low)):
            raise ConfigError(f"--space has {text!r}; give the lower end of the range first, then the higher")
        whole = all(re.fullmatch(r"[+-]?\d+", end) for end in found.groups())
        return Dimension(key, (), low, high, whole, low > 0 and high / low >= DECADE)
    values = _split(given)
    if not all(values):
        raise ConfigError(f"--space has {text!r}; write values with commas between them, like {key}=a,b,c")
    if len(set(values)) < len(values):
        raise ConfigError(f"--space has {text!r}; give each value once")
    return Dimension(key, tuple(values))


def _split(text: str) -> list[str]:
    """The values between commas; a comma inside brackets or quotes belongs to its value."""
    values, depth, quote = [""], 0, ""
    for sign in text:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        else:
            depth += (sign in "[{") - (sign in "]}")
        if sign == "," and not depth and not quote:
            values.append("")
        else:
            values[-1] += sign
    return [value.strip() for value in values]


def _with_kind(one: Dimension, space: Space, recipe: Mapping[str, Any]) -> Dimension:
    """A range is of whole numbers if both ends are and the key takes no others: that is tried with one between two of them."""
    if one.values or not one.whole:
        return one
    try:
        config_of(recipe, space, {one.key: repr(one.low + 0.5)})
    except ConfigError:
        return one
    return Dimension(one.key, (), one.low, one.high, False, one.log)
