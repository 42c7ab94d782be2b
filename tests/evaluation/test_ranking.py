"""nDCG and MRR by hand, by scikit-learn, and over all orders of texts with the same score."""

import itertools
from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from plankwise.data.ranking import gather
from plankwise.errors import RunError
from plankwise.evaluation.ranking import beyond_random, score_at_random, score_query, score_rankings


def test_a_ranking_is_scored_as_by_hand():
    # In order: gains 0, 1, 2, at ranks 1 to 3; the best order is 2, 1, 0.
    ndcg, mrr = score_query(np.array([0.1, 0.9, 0.5]), np.array([2.0, 0.0, 1.0]))
    assert ndcg == pytest.approx((1 / log2(3) + 2 / log2(4)) / (2 + 1 / log2(3)))
    assert mrr == 1 / 2


def test_only_the_first_ten_count():
    gains = np.zeros(12)
    gains[11] = 1.0
    assert score_query(-np.arange(12.0), gains) == (0, 0)
    gains[9] = 1.0
    ndcg, mrr = score_query(-np.arange(12.0), gains)
    assert ndcg == pytest.approx((1 / log2(11)) / (1 + 1 / log2(3)))
    assert mrr == 1 / 10


def test_relevant_texts_that_are_not_there_make_the_best_order_better():
    ndcg, mrr = score_query(np.array([1.0, 0.0]), np.array([1.0, 0.0]), missing=(1.0,))
    assert ndcg == pytest.approx(1 / (1 + 1 / log2(3)))
    assert mrr == 1


QUERIES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=5).filter(
    lambda rows: any(gain for _, gain in rows)
)


@settings(max_examples=25, deadline=None)
@given(QUERIES)
def test_equal_scores_count_as_all_of_their_orders_on_average(rows):
    scores, gains = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    found = []
    for order in itertools.permutations(range(len(rows))):
        ranked = [gains[row] for row in sorted(order, key=lambda row: -scores[row])]
        best = sorted(gains, reverse=True)
        dcg, most = (sum(gain / log2(rank + 2) for rank, gain in enumerate(some)) for some in (ranked, best))
        found.append((dcg / most, 1 / (1 + next(rank for rank, gain in enumerate(ranked) if gain))))
    assert score_query(scores, gains) == pytest.approx(np.mean(found, axis=0))
    assert score_query(scores, gains)[0] == pytest.approx(ndcg_score([gains], [scores], k=10))


def test_scikit_learn_agrees_on_long_lists_with_ties():
    random = np.random.default_rng(0)
    for _ in range(20):
        gains, scores = random.integers(0, 3, 40).astype(float), random.integers(0, 15, 40).astype(float)
        assert score_query(scores, gains)[0] == pytest.approx(ndcg_score([gains], [scores], k=10))


def candidates(*gains):
    made, _ = gather({f"query {n}": {f"text {m}": one for m, one in enumerate(own)} for n, own in enumerate(gains)})
    return made


def test_one_score_for_everything_has_what_a_random_order_has_wherever_the_relevant_text_stands():
    first, last = candidates([1, 0, 0, 0]), candidates([0, 0, 0, 1])
    found = [score_rankings(np.full(4, 7.0), some)[0] for some in (first, last)]
    assert found[0].tolist() == found[1].tolist()
    assert found[0][0] == pytest.approx(score_at_random(first)[0][0])
    assert found[0][1] == pytest.approx(np.mean([1, 1 / 2, 1 / 3, 1 / 4]))


def test_the_mean_and_variance_of_random_orders_are_those_of_all_orders():
    some = candidates([2, 0, 1, 0, 0], [0, 1])
    means, variances = score_at_random(some)
    for query, gains in enumerate([[2, 0, 1, 0, 0], [0, 1]]):
        every = [
            score_query(np.array(order, dtype=float), np.array(gains, dtype=float))[0]
            for order in itertools.permutations(range(len(gains)))
        ]
        assert (means[query], variances[query]) == pytest.approx((np.mean(every), np.var(every)))


def test_a_perfect_order_is_shown_to_beat_a_random_one_and_one_score_is_not():
    some = candidates(*[[1, 0, 0, 0]] * 20)
    perfect = score_rankings(np.tile([1.0, 0, 0, 0], 20), some)[:, 0]
    assert beyond_random(perfect, some)["shown"]
    constant = beyond_random(score_rankings(np.zeros(80), some)[:, 0], some)
    assert not constant["shown"]
    assert constant["p"] == pytest.approx(0.5)


def test_a_score_that_is_not_finite_is_refused():
    with pytest.raises(RunError, match="not finite numbers"):
        score_rankings(np.array([np.nan, 1.0]), candidates([1, 0]))
