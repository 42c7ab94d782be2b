import json

import numpy as np
import pytest

from plankwise.estimate import notebook as notebook_module
from plankwise.estimate.notebook import Budget, Memory, Notebook, Phase, beside, duration, in_words, spread


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is told to go on."""

    class Clock:
        now = 0.0

        def perf_counter(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(notebook_module, "time", clock)
    return clock


@pytest.fixture
def calibrate(clock):
    """Calibrates on items that take `pace` seconds per multiply-add, the first one more; gives the rate and the items run."""

    def run(costs, *, pace=0.001, first=0.0, total=None, budget=None, forward=False):
        ran = []

        def item(number):
            clock.now += pace * costs[number] + (0 if ran else first)
            ran.append(number)

        book = Notebook(budget or Budget(), began=clock.now)
        costs = np.array(costs, dtype=float)
        return book.calibrate(costs, item, costs.sum() if total is None else total, forward=forward), ran

    return run


@pytest.mark.parametrize(("forward", "first"), [(False, 2), (True, 5)])
def test_the_rate_is_that_of_the_items_without_the_first_which_is_the_costliest_or_a_middling_one(
    forward, first, calibrate
):
    rate, ran = calibrate([5, 0, 9, 5, 0, 7], first=0.01, total=1e6, budget=Budget(share=1.0), forward=forward)
    assert rate == pytest.approx(0.001)
    assert ran[0] == first
    assert sorted(ran[1:]) == [0, 2, 3, 5]  # what costs nothing is not run


def test_calibrating_takes_its_share_of_what_is_estimated_and_at_least_one_item(calibrate):
    _, ran = calibrate([10] * 1000)  # 10 s in all, of which 3 % are 30 items
    assert 25 <= len(ran) <= 30
    _, ran = calibrate([10] * 20)
    assert len(ran) == 2  # the first does not count


def test_calibrating_ends_when_its_seconds_are_spent(calibrate):
    _, ran = calibrate([10] * 5000, budget=Budget(seconds=0.5, share=1.0))
    assert 45 <= len(ran) <= 50


def test_a_single_item_that_takes_longer_than_the_budget_is_all_there_is(calibrate):
    rate, ran = calibrate([10] * 100, pace=1.0, total=1e6, budget=Budget(seconds=5.0))
    assert (rate, len(ran)) == (pytest.approx(1.0), 1)


def test_a_phase_in_which_nothing_runs_takes_no_time(calibrate):
    assert calibrate([0, 0]) == (0.0, [])


@pytest.mark.parametrize("count", [1, 2, 7, 64, 100])
def test_every_prefix_of_the_order_lies_evenly_over_all(count):
    order = list(spread(count))
    assert sorted(order) == list(range(count))
    for size in range(1, count + 1):
        gaps = np.diff([-1, *sorted(order[:size]), count])
        assert gaps.max() <= 2 * 2 ** (count - 1).bit_length() / size + 1


@pytest.fixture
def estimate():
    book = Notebook(forward=[3e-9, 1e-9, 2e-9])
    book.add("evaluations", 1e9, times=2)
    book.phases["replacing"] = Phase(30.0, 5e12, 100)
    book.phases["floor"] = Phase(20.0, 4e12, 100)
    book.memory = {"replacing": Memory(10**6, 0, 0, 10**6), "floor": Memory(10**6, 10**6, 2 * 10**6, 3 * 10**6)}
    return book.to_json()


def test_an_estimate_adds_up_and_its_memory_is_of_the_phase_that_takes_most(estimate):
    assert list(estimate["phases"]) == ["replacing", "floor", "evaluations"]
    assert estimate["phases"]["evaluations"]["estimated"] == pytest.approx(2 * 2.0)
    assert estimate["seconds"]["estimated"] == pytest.approx(54.0)
    assert estimate["multiply_adds"]["training"] == 9e12
    assert (estimate["memory"]["phase"], estimate["memory"]["estimated_mb"]) == ("floor", 7.0)
    assert sum(estimate["memory"]["parts_mb"].values()) == 7.0
    assert json.loads(json.dumps(estimate)) == estimate
    assert in_words(estimate) == "about 54 s, 7 MB at the peak"


def test_what_was_measured_stands_beside_the_estimate_and_does_not_change_it(estimate):
    found = beside(estimate, {"replacing": 33.0, "floor": 21.0, "evaluations": 5.0, "head": 1.0}, 12.5)
    assert found["phases"]["replacing"] == {**estimate["phases"]["replacing"], "measured": 33.0}
    assert found["seconds"] == {"estimated": estimate["seconds"]["estimated"], "measured": 59.0}
    assert found["memory"]["process_growth_mb"] == 12.5
    assert "measured" not in estimate["seconds"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.34, "0.3 s"), (42.2, "42 s"), (190, "3 min"), (5399, "90 min"), (9000, "2.5 h")]
)
def test_a_duration_is_told_in_the_unit_that_suits_it(seconds, text):
    assert duration(seconds) == text
