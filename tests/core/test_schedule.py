import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plankwise.core.schedule import (
    SCHEDULES,
    Anti,
    Constant,
    Linear,
    Logarithmic,
    Slope,
    Steps,
    describe_schedule,
    draw_mask,
    make_schedule,
)
from plankwise.errors import ConfigError

SHARES = st.floats(0, 1)
POSITIVE_SHARES = st.floats(0.01, 1)
RISING = ["linear", "cosine", "logarithmic"]
STEPS = st.integers(1, 400)


@given(st.sampled_from(RISING), SHARES, POSITIVE_SHARES, STEPS)
def test_rising_schedules_go_from_start_to_one_and_never_fall(kind, start, full_at, num_steps):
    schedule = SCHEDULES[kind](start=start, full_at=full_at)
    rates = [schedule(step, num_steps) for step in range(num_steps + 1)]
    assert rates[0] == start or full_at * num_steps <= 0
    assert rates[-1] == 1.0
    assert all(0 <= rate <= 1 for rate in rates)
    assert rates == sorted(rates)
    assert all(rates[step] == 1.0 for step in range(num_steps + 1) if step >= full_at * num_steps)


@given(SHARES, POSITIVE_SHARES, STEPS)
def test_anti_curriculum_is_one_minus_linear(start, full_at, num_steps):
    for step in range(num_steps + 1):
        assert Anti(start, full_at)(step, num_steps) == 1.0 - Linear(start, full_at)(step, num_steps)
    assert Anti(start, full_at)(num_steps, num_steps) == 0.0


@given(st.floats(1e-6, 10), SHARES, STEPS)
def test_slope_is_the_papers_equation_6(k, b, num_steps):
    for step in range(num_steps):
        assert Slope(k, b)(step, num_steps) == min(1, k * step + b)


def test_slope_gives_the_published_recipes_length():
    assert Slope(k=0.0006, b=0.3).full_step(1725) == 1167


@given(SHARES, SHARES, STEPS)
def test_constant_is_one_rate_and_then_one(rate, full_at, num_steps):
    schedule = Constant(rate, full_at)
    for step in range(num_steps):
        assert schedule(step, num_steps) == (1.0 if step >= full_at * num_steps else rate)


def test_constant_can_count_steps():
    assert [Constant(0.5, replacing_steps=2)(step, 100) for step in range(4)] == [0.5, 0.5, 1.0, 1.0]


def test_steps_is_a_staircase():
    schedule = Steps(at=(0.0, 0.5), rates=(0.25, 1.0))
    assert [schedule(step, 4) for step in range(4)] == [0.25, 0.25, 1.0, 1.0]


def test_logarithmic_rises_fastest_first():
    schedule = Logarithmic(start=0.0, full_at=1.0)
    assert schedule(1, 10) - schedule(0, 10) > schedule(9, 10) - schedule(8, 10)


@given(st.sampled_from(sorted(SCHEDULES)), STEPS)
def test_full_step_is_the_first_from_which_on_the_rate_is_one(kind, num_steps):
    schedule = SCHEDULES[kind]()
    full = schedule.full_step(num_steps)
    assert all(schedule(step, num_steps) == 1.0 for step in range(full, num_steps))
    assert full == 0 or schedule(full - 1, num_steps) < 1.0


@pytest.mark.parametrize("kind", sorted(SCHEDULES))
def test_a_schedule_is_read_back_from_its_description(kind):
    schedule = SCHEDULES[kind]()
    assert make_schedule(describe_schedule(schedule)) == schedule


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"kind": "linaer"}, "Did you mean 'linear'"),
        ({"strat": 0.1}, "method.schedule.strat: there is no such key for the linear schedule. Did you mean 'start'"),
        ({"start": 1.2}, "method.schedule.start is 1.2; choose a number from 0 to 1"),
        ({"start": -0.1}, "method.schedule.start is -0.1"),
        ({"full_at": 0}, "above 0"),
        ({"start": "high"}, "give a number"),
        ({"start": True}, "give a number"),
        ({"kind": "slope", "k": 0}, "never reaches 1"),
        ({"kind": "constant", "replacing_steps": 0}, "a whole number from 1 on"),
        ({"kind": "constant", "replacing_steps": 2.5}, "a whole number from 1 on"),
        ({"kind": "plateau", "start": 1.5}, "method.schedule.start is 1.5; choose a number from 0 to 1"),
        ({"kind": "plateau", "rise": 0}, "method.schedule.rise is 0; choose a number above 0 and up to 1"),
        ({"kind": "plateau", "patience": 0}, "method.schedule.patience is 0; choose a whole number from 1 on"),
        ({"kind": "plateau", "patience": 1.5}, "method.schedule.patience is 1.5; choose a whole number from 1 on"),
        ({"kind": "plateau", "latest": 0}, "method.schedule.latest is 0; choose a number above 0 and up to 1"),
        ({"kind": "plateau", "rises": [4]}, "there is no such key for the plateau schedule. Did you mean 'rise'"),
        ("linear", "method.schedule is 'linear'; give a section"),
        ({"kind": [1]}, "there is no such schedule"),
        ({"kind": "steps", "at": [0.0], "rates": [0.3, 1.0]}, "as many shares as rates"),
        ({"kind": "steps", "at": [0.0, 0.5], "rates": [1.0, 0.3]}, "rising order"),
        ({"kind": "steps", "at": 0.5}, "a list of numbers"),
    ],
)
def test_a_bad_schedule_is_refused_with_its_key_and_value(data, message):
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        make_schedule(data)


@given(st.integers(0, 99), st.integers(0, 10**6), st.integers(1, 24))
def test_masks_depend_on_seed_and_step_alone(seed, step, num_slots):
    assert draw_mask(seed, step, 0.5, num_slots) == draw_mask(seed, step, 0.5, num_slots)
    assert draw_mask(seed, step, 1.0, num_slots) == (True,) * num_slots
    assert draw_mask(seed, step, 0.0, num_slots) == (False,) * num_slots


@given(st.integers(0, 99), st.integers(0, 1000), SHARES, SHARES)
def test_a_higher_rate_replaces_the_same_slots_and_more(seed, step, one, other):
    low, high = sorted((one, other))
    pairs = zip(draw_mask(seed, step, low, 12), draw_mask(seed, step, high, 12), strict=True)
    assert all(more or not less for less, more in pairs)


def test_coins_are_fair_and_independent():
    masks = [draw_mask(7, step, 0.3, 6) for step in range(4000)]
    for slot in range(6):
        share = sum(mask[slot] for mask in masks) / len(masks)
        assert abs(share - 0.3) < 0.03  # four standard deviations
    both = sum(mask[0] and mask[1] for mask in masks) / len(masks)
    assert abs(both - 0.09) < 0.02
    again = sum(a[0] and b[0] for a, b in itertools.pairwise(masks)) / len(masks)
    assert abs(again - 0.09) < 0.02
