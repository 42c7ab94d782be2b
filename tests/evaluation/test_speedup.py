import numpy as np
import pytest

from plankwise.evaluation.speedup import FEWEST, Speedup, compare_times, limit_to


def test_the_speedup_is_the_median_of_the_ratios_of_each_round():
    assert compare_times([2.0, 6.0, 30.0], [1.0, 2.0, 3.0]).median == 3.0


def test_load_that_falls_on_both_models_of_a_round_changes_nothing():
    load = np.random.default_rng(1).pareto(1.0, 200) + 1
    found = compare_times(10 * load, 4 * load)
    assert (found.median, found.low, found.high) == pytest.approx((2.5, 2.5, 2.5))
    assert found.steady


def test_the_interval_holds_the_true_ratio_about_as_often_as_it_says():
    random = np.random.default_rng(0)
    trials = [compare_times(2 * random.lognormal(0, 0.2, 60), random.lognormal(0, 0.2, 60)) for _ in range(200)]
    held = sum(one.low <= 2 <= one.high for one in trials) / len(trials)
    assert 0.9 <= held <= 0.99


def test_the_same_times_always_give_the_same_interval():
    random = np.random.default_rng(2)
    before, after = random.lognormal(1, 0.3, 50), random.lognormal(0, 0.3, 50)
    assert compare_times(before, after) == compare_times(before, after)


def test_an_interval_of_five_percent_to_each_side_or_more_is_unsteady():
    def scattered(width):
        return compare_times(np.tile([1 - width, 1 + width], 50), np.ones(100))

    assert scattered(0.04).steady
    assert not scattered(0.2).steady


def test_fewer_rounds_than_an_interval_can_be_made_of_are_unsteady_however_alike():
    assert not compare_times([2.0] * (FEWEST - 1), [1.0] * (FEWEST - 1)).steady
    assert compare_times([2.0] * FEWEST, [1.0] * FEWEST).steady


def test_a_figure_whose_whole_interval_lies_above_the_bound_is_replaced_by_the_bound():
    measured = Speedup(2.59, 2.4, 2.8, steady=False)
    assert limit_to(2.0, measured) == Speedup(2.0, 2.0, 2.0, steady=False)


@pytest.mark.parametrize("bound", [None, 2.4, 2.5, 3.0])
def test_a_figure_whose_interval_reaches_the_bound_stays(bound):
    measured = Speedup(2.59, 2.4, 2.8, steady=True)
    assert limit_to(bound, measured) == measured
