"""Which candidates cover all blocks with the least summed effect within a budget: an integer programme.

One variable a candidate, 0 or 1. Of all candidates that have a block in their span, exactly one is taken; costs sum up to the
budget at most. The next best plan is found by forbidding the best: not all of its candidates may be taken together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

ROUNDING = 1e-9  # share of a budget by which sums of times may be above it
SCALE = 1e3  # of the largest value: the solver stops at differences of 1e-6


@dataclass(frozen=True)
class Item:
    """A candidate as the programme sees it."""

    blocks: tuple[int, ...]
    effect: float
    cost: float


def cover(items: Sequence[Item], num_blocks: int, *, budget: float, count: int = 1) -> list[tuple[int, ...]]:
    """The best `count` plans within the budget, best first, each as the places of its items; fewer if there are no more."""
    return _cover(items, num_blocks, [one.effect for one in items], budget, count)


def cover_cheapest(items: Sequence[Item], num_blocks: int) -> tuple[int, ...]:
    """The plan of least cost, whatever its effect."""
    return _cover(items, num_blocks, [one.cost for one in items], None, 1)[0]


def _cover(
    items: Sequence[Item], num_blocks: int, values: Sequence[float], budget: float | None, count: int
) -> list[tuple[int, ...]]:
    weights = np.asarray(values, dtype=float) * (SCALE / (max(values) or 1.0))
    covers = np.zeros((num_blocks, len(items)))
    for place, one in enumerate(items):
        covers[list(one.blocks), place] = 1
    constraints = [LinearConstraint(covers, 1, 1)]
    costs = np.array([one.cost for one in items], dtype=float)
    if budget is not None:
        constraints.append(LinearConstraint(costs[None] / budget, -np.inf, 1 + ROUNDING))
    found: list[tuple[int, ...]] = []
    while len(found) < count:
        solved = milp(
            weights,
            integrality=np.ones(len(items)),
            bounds=Bounds(0, 1),
            constraints=constraints,
            options={"mip_rel_gap": 0.0},
        )
        if solved.x is None:
            break
        chosen = np.flatnonzero(solved.x > 0.5)
        row = np.zeros((1, len(items)))
        row[0, chosen] = 1
        constraints.append(LinearConstraint(row, -np.inf, len(chosen) - 1))
        # The solver's tolerance is coarser than a budget of parameters.
        if budget is None or costs[chosen].sum() <= budget * (1 + ROUNDING):
            found.append(tuple(sorted(chosen.tolist(), key=lambda place: items[place].blocks)))
    return found


def draw_covers(
    items: Sequence[Item], num_blocks: int, *, low: float, high: float, count: int, seed: int, tries: int = 20_000
) -> list[tuple[int, ...]]:
    """Up to `count` different plans at random whose costs are from `low` to `high`: block by block any item that begins there.

    Where chance finds fewer, those below `low` with the highest costs are taken.
    """
    random = np.random.default_rng(seed)
    beginning: dict[int, list[int]] = {}
    for place, one in enumerate(items):
        beginning.setdefault(one.blocks[0], []).append(place)
    within: list[tuple[int, ...]] = []
    below: dict[tuple[int, ...], float] = {}
    for _ in range(tries):
        if len(within) == count:
            break
        chosen: list[int] = []
        block = 0
        while block < num_blocks:
            chosen.append(int(random.choice(beginning[block])))
            block = items[chosen[-1]].blocks[-1] + 1
        drawn, cost = tuple(chosen), sum(items[place].cost for place in chosen)
        if low <= cost <= high and drawn not in within:
            within.append(drawn)
        elif cost < low:
            below[drawn] = cost
    return [*within, *sorted(below, key=lambda one: -below[one])][:count]
