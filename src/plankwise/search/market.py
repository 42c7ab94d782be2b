"""Candidates with their effects and what a goal counts as cost; and what of a goal they can reach."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from plankwise.errors import ConfigError
from plankwise.search.choosing import Item, cover_cheapest
from plankwise.search.costs import Costs
from plankwise.search.goal import PARAMS, TARGET, TIME, Goal
from plankwise.search.library import Candidate


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


def check_size(goal: Goal, parameters: int, outside: int) -> None:
    """Lets goals pass that are no size, or one between that of the predecessor and what it has outside of its blocks.

    Raises:
        ConfigError: it is another size.
    """
    if goal.kind != PARAMS:
        return
    if goal.value >= parameters:
        raise ConfigError(
            f"--params is {goal.value:,.0f}, but the predecessor has {parameters:,}, no more than that; give fewer"
        )
    if goal.value < outside:
        raise ConfigError(
            f"--params is {goal.value:,.0f}, but {outside:,} of the predecessor's {parameters:,} parameters are outside of its "
            "blocks, in embeddings and head, and no plan changes those; give more, or choose a predecessor with a smaller "
            "vocabulary"
        )


def check_reachable(goal: Goal, market: Market) -> None:
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
    if goal.kind == PARAMS and (least := market.find_least()) > goal.value:
        raise ConfigError(
            f"--params is {goal.value:,.0f}, but the smallest plan of this library has {least:,.0f}, "
            f"{market.costs.parameters_outside:,} of them outside of the blocks; give at least {least:,.0f}, {more}"
        )
