"""The integer programme against brute force on random small libraries."""

import itertools

import numpy as np
import pytest

from plankwise.search.choosing import Item, cover, cover_cheapest, draw_covers


def make_items(seed: int, num_blocks: int = 5) -> list[Item]:
    """Every block kept at no effect, and some cheaper items for spans of up to three blocks."""
    random = np.random.default_rng(seed)
    items = [Item((block,), 0.0, 1.0) for block in range(num_blocks)]
    for first, length in itertools.product(range(num_blocks), (1, 2, 3)):
        if first + length <= num_blocks:
            span = tuple(range(first, first + length))
            for _ in range(int(random.integers(0, 3))):
                items.append(Item(span, float(random.random()), float(random.uniform(0.05, length))))
    return items


def all_covers(items: list[Item], num_blocks: int) -> list[tuple[int, ...]]:
    """Every way to cover all blocks, each once."""

    def extend(block: int, chosen: tuple[int, ...]):
        if block == num_blocks:
            yield chosen
            return
        for place, one in enumerate(items):
            if one.blocks[0] == block:
                yield from extend(one.blocks[-1] + 1, (*chosen, place))

    return list(extend(0, ()))


def total(items, places, key):
    return sum(getattr(items[place], key) for place in places)


@pytest.mark.parametrize("seed", range(12))
def test_the_best_plans_are_those_of_brute_force_in_their_order(seed):
    items, num_blocks = make_items(seed), 5
    budget = (0.35, 0.6, 0.85)[seed % 3] * num_blocks
    allowed = [one for one in all_covers(items, num_blocks) if total(items, one, "cost") <= budget]
    best = sorted(total(items, one, "effect") for one in allowed)[:4]
    found = cover(items, num_blocks, budget=budget, count=4)
    assert len(found) == len(best) == len(set(found))
    assert set(found) <= set(allowed)
    assert [total(items, one, "effect") for one in found] == pytest.approx(best, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_the_cheapest_plan_is_that_of_brute_force(seed):
    items = make_items(seed)
    least = min(total(items, one, "cost") for one in all_covers(items, 5))
    assert total(items, cover_cheapest(items, 5), "cost") == pytest.approx(least)


def test_where_the_budget_leaves_everything_all_blocks_are_kept_at_no_effect():
    items = make_items(3)
    (found,) = cover(items, 5, budget=5.0)
    assert found == (0, 1, 2, 3, 4)


def test_a_budget_below_the_cheapest_plan_gives_no_plan():
    items = make_items(1)
    assert cover(items, 5, budget=0.5 * total(items, cover_cheapest(items, 5), "cost")) == []


def test_a_budget_of_parameters_is_kept_to_the_last_one():
    """The solver's own tolerance would let a plan pass that is one in ten million above."""
    items = [Item((0,), 0.0, 20_000_001.0), Item((0,), 1.0, 20_000_000.0)]
    assert cover(items, 1, budget=20_000_000.0) == [(1,)]


@pytest.mark.parametrize("seed", range(3))
def test_random_plans_are_different_plans_of_about_the_cost_and_the_same_for_a_seed(seed):
    items = make_items(seed)
    found = draw_covers(items, 5, low=2.5, high=3.5, count=4, seed=seed)
    assert found == draw_covers(items, 5, low=2.5, high=3.5, count=4, seed=seed)
    assert len(found) == len(set(found)) == 4
    assert all(2.5 <= total(items, one, "cost") <= 3.5 for one in found)
    assert set(found) <= set(all_covers(items, 5))


def test_where_no_random_plan_is_near_the_dearest_below_is_taken():
    items = [Item((0,), 0.0, 1.0), Item((0,), 0.5, 0.3), Item((0,), 0.7, 0.2)]
    assert draw_covers(items, 1, low=0.5, high=0.6, count=1, seed=0, tries=200) == [(1,)]
