"""The schedule that is driven by the score, and a hybrid that runs and is scored at a rate of its own."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import plankwise
from plankwise.core.hybrid import Rules
from plankwise.core.schedule import Plateau, describe_schedule, draw_mask, make_schedule
from plankwise.core.taps import tapped


def rates(schedule, num_steps):
    return [schedule(step, num_steps) for step in range(num_steps)]


def test_the_rate_rises_at_its_rises_and_is_one_from_the_latest_share_on():
    schedule = Plateau(start=0.25, rise=0.25, latest=0.8, rises=(3, 5))
    assert rates(schedule, 10) == [0.25, 0.25, 0.25, 0.5, 0.5, 0.75, 0.75, 0.75, 1.0, 1.0]
    assert schedule.full_step(10) == 8


def test_two_rises_at_one_step_count_twice_and_the_rate_stops_at_one():
    assert rates(Plateau(start=0.25, rise=0.5, latest=1.0, rises=(1, 1, 2)), 3) == [0.25, 1.0, 1.0]


def test_a_rise_gives_another_schedule_and_leaves_the_past_as_it_was():
    before = Plateau(start=0.25, rise=0.25)
    after = before.raised(4)
    assert before.rises == ()
    assert rates(before, 10)[:8] == [0.25] * 8
    assert rates(after, 10)[:8] == [0.25] * 4 + [0.5] * 4


def test_the_last_rise_gives_exactly_one_where_floats_add_up_to_less():
    assert 0.1 + 0.3 * 3 < 1
    assert Plateau(start=0.1, rise=0.3, latest=1.0, rises=(1, 2, 3))(3, 9) == 1.0


@given(st.integers(1, 99), st.integers(1, 99))
def test_hundredths_that_add_up_to_one_give_exactly_one(start, rise):
    num_rises = -(-(100 - start) // rise)
    schedule = Plateau(start=start / 100, rise=rise / 100, latest=1.0, rises=tuple(range(1, num_rises + 1)))
    assert schedule(num_rises, 1000) == 1.0
    assert schedule(num_rises - 1, 1000) < 1.0


@pytest.mark.parametrize(
    ("patience", "scores", "rises"),
    [
        (1, [0.1, 0.2, 0.3], ()),
        (1, [0.1, 0.1], (2,)),
        (1, [0.1, 0.0, 0.05, 0.01], (2, 4)),  # the best is forgotten at a rise
        (2, [0.3, 0.2, 0.4, 0.4, 0.1], (5,)),  # a better one forgives a miss
        (2, [0.3, 0.2, 0.1, 0.9, 0.8, 0.7], (3, 6)),
        (1, [float("nan"), 0.5, 0.4], (1, 3)),
    ],
)
def test_the_rate_rises_after_as_many_evaluations_without_a_better_score_as_there_is_patience(patience, scores, rises):
    assert Plateau(patience=patience).after(enumerate(scores, 1)).rises == rises


def test_what_scores_give_does_not_depend_on_the_rises_before():
    scores = [(2, 0.5), (4, 0.5)]
    assert Plateau(rises=(1, 3)).after(scores) == Plateau().after(scores) == Plateau(rises=(4,))


def test_a_recipe_reads_and_writes_all_but_the_rises():
    options = {"kind": "plateau", "start": 0.1, "rise": 0.3, "patience": 2, "latest": 0.6}
    schedule = make_schedule(options)
    assert schedule == Plateau(0.1, 0.3, 2, 0.6)
    assert describe_schedule(schedule.raised(5)) == options


def shaken(model, **options):
    ship = plankwise.hybrid(model, successors=2, **options)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in ship.successor_parameters().values():
            parameter.add_(torch.randn_like(parameter))
    return ship


def masks_of(ship, batch, rate, *, seed=0, passes=40):
    """The mask of each forward pass, read off the slots."""
    seen = []
    with ship.sampled(rate, seed), torch.no_grad():
        for _ in range(passes):
            ship(batch)
            seen.append(tuple(slot.replaced for slot in ship._hybrid_state.slots))
    return seen


def test_sampled_at_rate_0_is_the_predecessor_and_at_rate_1_the_successor(residual):
    model, batch = residual
    before = model(batch)
    ship = shaken(model).eval()
    successor = ship.collapse()(batch)
    assert not torch.equal(before, successor)
    for rate, expected in ((0.0, before), (1.0, successor)):
        with ship.sampled(rate, seed=0):
            assert all(torch.equal(ship(batch), expected) for _ in range(20))


def test_sampling_again_gives_the_same_masks_and_a_higher_rate_the_same_and_more(residual):
    model, batch = residual
    ship = shaken(model).eval()
    low, high = masks_of(ship, batch, 0.3), masks_of(ship, batch, 0.7)
    assert masks_of(ship, batch, 0.3) == low != high
    assert all(more or not less for a, b in zip(low, high, strict=True) for less, more in zip(a, b, strict=True))
    assert set(high) == {(False, False), (True, False), (False, True), (True, True)}
    assert masks_of(ship, batch, 0.3, seed=1) != low
    assert low != [draw_mask(0, step, 0.3, 2) for step in range(40)]  # not the coins of training


def test_sampling_survives_a_call_of_eval_and_leaves_no_trace(residual):
    model, batch = residual
    ship = shaken(model, schedule=Plateau(start=0.5), seed=2)
    ship.begin(10)
    ship.train()
    kept, state = ship.mask, torch.get_rng_state()
    with ship.sampled(0.0, seed=0):
        ship.eval()
        assert torch.equal(ship(batch), ship(batch))
        assert not any(slot.replaced for slot in ship._hybrid_state.slots)
    assert all(slot.replaced for slot in ship._hybrid_state.slots)  # eval mode: the successor
    ship.train()
    assert tuple(slot.replaced for slot in ship._hybrid_state.slots) == ship.mask == kept
    assert torch.equal(torch.get_rng_state(), state)


def test_a_fixed_mask_counts_for_more_than_sampling(residual):
    model, batch = residual
    ship = shaken(model).eval()
    successor = ship(batch)
    with ship.sampled(0.0, seed=0):
        with ship.masked(True):
            assert torch.equal(ship(batch), successor)
        assert not torch.equal(ship(batch), successor)


def test_a_blended_hybrid_is_sampled_by_adding_states(residual):
    model, batch = residual
    ship = shaken(model, rules=Rules(blend=True)).eval()
    with ship.paired() as slots:
        ship(batch)
        pair = slots[0].pair
    with ship.sampled(0.25, seed=0), tapped(ship, ["blocks.2"]) as states:
        ship(batch)
        assert torch.equal(states["blocks.2"], torch.lerp(pair.span, pair.successor, 0.25))
    assert all(slot.weight is None for slot in ship._hybrid_state.slots)


def test_a_hybrid_follows_another_schedule_from_the_middle_of_training_on(residual):
    ship = plankwise.hybrid(residual[0], successors=2, schedule=Plateau(0.0, 1.0), seed=1, unfreeze="head")
    ship.begin(10)
    ship.train()
    ship.set_step(3)
    ship.follow(ship.schedule.raised(4))
    assert (ship.rate, ship.settled, ship.head.weight.requires_grad) == (0.0, False, False)
    ship.set_step(4)
    assert (ship.rate, ship.settled, ship.head.weight.requires_grad) == (1.0, True, True)
    assert ship.mask == (True, True)
    assert ship.count_skipped(10) == 4
    assert [bool(ship.unfrozen_at(step)) for step in range(10)] == [False] * 4 + [True] * 6


def test_a_rise_at_the_current_step_counts_at_once(residual):
    ship = plankwise.hybrid(residual[0], successors=2, schedule=Plateau(0.0, 1.0), unfreeze="head")
    ship.begin(10)
    ship.train()
    ship.set_step(3)
    ship.follow(ship.schedule.raised(3))
    assert (ship.rate, ship.mask, ship.settled, ship.head.weight.requires_grad) == (1.0, (True, True), True, True)


def test_a_schedule_given_before_training_starts_counts_from_its_first_step(residual):
    ship = plankwise.hybrid(residual[0], successors=2)
    ship.follow(Plateau(0.25, 0.5, rises=(2,)))
    ship.begin(10)
    assert ship.rate == 0.25
    ship.set_step(2)
    assert ship.rate == 0.75
