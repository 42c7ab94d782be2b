"""What a plan is to reach: a speed, a size, or a score."""

from __future__ import annotations

import re
from dataclasses import dataclass

from plankwise.errors import ConfigError

TARGET, PARAMS, WITHIN = "target", "params", "within"
TIME, PARAMETERS = "time", "parameters"  # what a budget is of
SIGNS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9}


@dataclass(frozen=True)
class Goal:
    """`value`: times as fast as the predecessor, or parameters, or the share of the score that may be lost."""

    kind: str
    value: float

    @property
    def by(self) -> str:
        return PARAMETERS if self.kind == PARAMS else TIME

    def __str__(self) -> str:
        if self.kind == TARGET:
            return f"{self.value:g} times as fast"
        return f"{self.value:,.0f} parameters" if self.kind == PARAMS else f"within {self.value:.3g} of the score"


def read_goal(target: str | None, params: str | None, within: str | None) -> Goal | None:
    """The goal that one of the three options says; None if none does.

    Raises:
        ConfigError: several do, or it is not what it should be.
    """
    all_three = {TARGET: target, PARAMS: params, WITHIN: within}
    given = [f"--{name}" for name, text in all_three.items() if text is not None]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} are given; a plan is searched for one goal: keep one of them")
    if target is not None:
        return Goal(TARGET, _read_target(target))
    if params is not None:
        return Goal(PARAMS, _read_params(params))
    return None if within is None else Goal(WITHIN, _read_within(within))


def _read_target(text: str) -> float:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*[x×]?\s*", text.lower())
    if found is None:
        raise ConfigError(f"--target is {text!r}; give how many times as fast the model is to be, for example 2.5x")
    if not float(found[1]) > 1:
        raise ConfigError(f"--target is {text!r}, which is not faster than the predecessor; give more than 1x")
    return float(found[1])


def _read_params(text: str) -> float:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgb]?)\s*", text.lower())
    if found is None or not float(found[1]) > 0:
        raise ConfigError(f"--params is {text!r}; give how many parameters the model may have, for example 20M")
    return float(round(float(found[1]) * SIGNS[found[2]]))


def _read_within(text: str) -> float:
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise ConfigError(f"--within is {text!r}; give the share of the score that may be lost, for example 1% or 0.01")
    return share
