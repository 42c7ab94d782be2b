import numpy as np
import pytest

from plankwise.evaluation.held_back import HALVES, first_half, judge


def logged(*pairs):
    return [
        {"eval_score": 0.0, **{f"eval_{key}": value for key, value in zip(HALVES, pair, strict=True)}} for pair in pairs
    ]


@pytest.mark.parametrize("count", [2, 3, 10, 101])
def test_the_halves_are_as_large_as_can_be_and_the_same_every_time(count):
    half = first_half(count)
    assert half.sum() == (count + 1) // 2
    assert np.array_equal(half, first_half(count))


def test_labels_that_take_turns_are_in_both_halves():
    labels = np.arange(40) % 2
    half = first_half(40)
    assert set(labels[half]) == set(labels[~half]) == {0, 1}


def test_each_half_judges_what_the_other_chooses():
    # the first half chooses the second evaluation (0.5 there), the second half the third (0.25 there)
    assert judge(logged((0.5, 0.25), (0.75, 0.5), (0.25, 0.75)), "eval_") == {"score": 0.375, "chosen_among": 3}


def test_of_equals_the_earliest_is_chosen_as_in_training():
    assert judge(logged((0.5, 0.25), (0.5, 0.125)), "eval_")["score"] == (0.25 + 0.5) / 2


def test_one_evaluation_leaves_nothing_to_choose():
    assert judge(logged((0.5, 0.5)), "eval_") is None
    assert judge([], "eval_") is None


def test_evaluations_whose_halves_were_not_scored_are_not_judged():
    assert judge([*logged((0.5, 0.5)), {"eval_score": 0.5}], "eval_") is None


def test_scores_that_differ_by_chance_alone_are_not_flattered():
    rng = np.random.default_rng(0)
    whole, held = [], []
    for _ in range(300):
        pairs = rng.normal(size=(10, 2))
        whole.append(pairs.mean(1).max())
        held.append(judge(logged(*pairs), "eval_")["score"])
    assert np.mean(whole) > 0.5
    assert abs(np.mean(held)) < 0.15
