"""Figures on vectors, worked out by hand."""

import numpy as np
import pytest

from plankwise.evaluation import vectors
from plankwise.evaluation.vectors import (
    compare_pairs,
    find_neighbours,
    mean_cosine,
    score_retrieval,
    score_similarity,
    share_kept,
)


def at(*degrees):
    """Vectors of length 2 in these directions."""
    angles = np.radians(degrees)
    return 2 * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def test_the_mean_cosine_is_of_each_texts_two_vectors():
    assert mean_cosine(at(0, 0), 5 * at(60, 90)) == pytest.approx((0.5 + 0) / 2)


def test_similarities_of_pairs_are_compared_by_rank_so_that_a_rotation_changes_nothing():
    assert compare_pairs(at(0, 10, 30), at(90, 100, 120)) == 1
    # Pairs (0,1), (0,2), (1,2) are 10°, 30°, 20° apart in one model and 30°, 10°, 20° in the other.
    assert compare_pairs(at(0, 10, 30), at(0, 30, 10)) == -1
    assert compare_pairs(at(0, 10, 30), at(5, 5, 5)) == 0  # where all are alike there is no order


@pytest.mark.parametrize("rows", [1, 1024])
def test_neighbours_are_the_nearest_other_texts(rows, monkeypatch):
    monkeypatch.setattr(vectors, "ROWS", rows)
    assert find_neighbours(at(0, 10, 30, 100), 2).tolist() == [[1, 2], [0, 2], [1, 0], [2, 1]]
    assert find_neighbours(at(0, 10), 10).tolist() == [[1], [0]]
    many = at(*range(0, 40, 2))  # few of many are found another way than many of few
    assert find_neighbours(many, 1)[0].tolist() == [1]


def test_the_share_of_neighbours_that_are_kept_is_told_text_by_text():
    ours, theirs = np.array([[1, 2], [0, 3], [4, 0]]), np.array([[2, 1], [3, 2], [1, 3]])
    assert share_kept(ours, theirs).tolist() == [1, 0.5, 0]


def test_similarity_is_spearmans_correlation_with_peoples_scores():
    pairs = np.array([[0, 1], [0, 2], [0, 3]])
    assert score_similarity(at(0, 10, 20, 30), pairs, np.array([5, 3, 1])) == 1
    # Ranks of cosine 3, 2, 1 against 3, 1, 2: 1 - 6 · (0 + 1 + 1) / (3 · 8) = 0.5.
    assert score_similarity(at(0, 10, 20, 30), pairs, np.array([5, 1, 3])) == pytest.approx(0.5)


def test_retrieval_counts_gains_by_rank_and_what_was_found():
    # Query 0 finds documents 0, 1, 2, 3 in this order, query 1 the other way round.
    found = score_retrieval(at(0, 90), at(0, 10, 20, 30), [{1: 2.0, 3: 1.0}, {3: 1.0, 0: 0.0}])
    first = (2 / np.log2(3) + 1 / np.log2(5)) / (2 / np.log2(2) + 1 / np.log2(3))
    assert found == {"ndcg@10": pytest.approx((first + 1) / 2), "recall@1": 0.5}
    many = score_retrieval(at(0), at(*range(20)), [{0: 1.0, 15: 1.0}])
    assert many["recall@10"] == 0.5
    assert many["ndcg@10"] == pytest.approx(1 / (1 + 1 / np.log2(3)))
