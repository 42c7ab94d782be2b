"""What a plan is to reach: a speed, a size, or a score; and what of it a library can reach."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from plankwise.errors import ConfigError
from plankwise.search.choosing import Item, cover_cheapest
from plankwise.search.costs import Costs
from plankwise.search.library import Candidate

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
    given = {f"--{name}": text for name, text in ((TARGET, target), (PARAMS, params), (WITHIN, within)) if text}
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} are both given; a plan is searched for one goal: keep one of them")
    if target:
        return Goal(TARGET, _read_target(target))
    if params:
        return Goal(PARAMS, _read_params(params))
    return Goal(WITHIN, _read_within(within)) if within else None


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


@dataclass(frozen=True)
class Market:
    """Candidates with their effects, and what of them a goal counts as cost."""

    candidates: Sequence[Candidate]
    items: Sequence[Item]
    costs: Costs
    num_blocks: int
    by: str

    @classmethod
    def open(cls, priced: dict[Candidate, float], costs: Costs, num_blocks: int, by: str) -> Market:
        """Of candidates with their effects."""
        cost = costs.time if by == TIME else lambda one: float(one.parameters)
        items = [Item(one.blocks, effect, cost(one)) for one, effect in priced.items()]
        return cls(list(priced), items, costs, num_blocks, by)

    @property
    def outside(self) -> float:
        """What no plan changes."""
        return self.costs.outside if self.by == TIME else float(self.costs.parameters_outside)

    def find_least(self) -> float:
        """The cost of the cheapest plan, what is outside of the chains included."""
        return self.outside + sum(self.items[place].cost for place in cover_cheapest(self.items, self.num_blocks))


def check_reachable(goal: Goal, market: Market, parameters: int) -> None:
    """Lets goals pass that a plan of the library can reach.

    Raises:
        ConfigError: none can; says what is the most.
    """
    more = "or offer more candidates: longer spans (--spans), or more parts"
    if goal.kind == TARGET and market.find_least() > 1 / goal.value:
        # Rounded down: what is told can be asked for.
        most = math.floor(100 / market.find_least()) / 100
        raise ConfigError(
            f"--target is {goal.value:g}x, but the fastest plan of this library is predicted to be {most:g}x as fast as the "
            f"predecessor at batch size {market.costs.batch_size}, of whose time {market.costs.outside:.0%} is spent outside of "
            f"its blocks; give at most {most:g}x, {more}"
        )
    if goal.kind == PARAMS:
        if goal.value >= parameters:
            raise ConfigError(
                f"--params is {goal.value:,.0f}, but the predecessor has {parameters:,}, no more than that; give fewer"
            )
        if (least := market.find_least()) > goal.value:
            raise ConfigError(
                f"--params is {goal.value:,.0f}, but the smallest plan of this library has {least:,.0f}, "
                f"{market.costs.parameters_outside:,} of them outside of the blocks; give at least {least:,.0f}, {more}"
            )
