"""Exact match and F1 of answers, by hand, as SQuAD defines them."""

import numpy as np
import pytest

from plankwise.evaluation.spans import best_spans, exact_match, normalise, score_answers, word_f1


def test_case_punctuation_articles_and_blanks_do_not_count():
    assert normalise("The  Cat's, an  A-team! theatre") == "cats ateam theatre"
    assert exact_match("the Broncos.", "Broncos") == 1
    assert exact_match("Denver Broncos", "Broncos") == 0


def test_f1_counts_words_that_both_have_as_often_as_both_have_them():
    # Two of three words given, two of four there: precision 2/3, recall 1/2.
    assert word_f1("red red blue", "red green blue white") == pytest.approx(2 * (2 / 3) * (1 / 2) / (2 / 3 + 1 / 2))
    assert word_f1("red", "blue") == 0
    assert word_f1("", "blue") == 0
    assert word_f1("", "the") == 1  # nothing is left of an article


def test_of_several_right_answers_the_best_counts_and_none_is_answered_by_nothing():
    found = score_answers(["the red house", "", "x"], [["house", "red house"], [], []])
    assert found.tolist() == [[1, 1], [1, 1], [0, 0]]
    assert score_answers(["red"], [["red house", "blue"]]).tolist() == [[0, pytest.approx(2 / 3)]]


def test_the_best_span_ends_no_earlier_than_it_begins_and_lies_in_the_text():
    starts, ends = np.array([[9.0, 1, 5, 2]]), np.array([[9.0, 7, 1, 3]])
    allowed = np.array([[False, True, True, True]])
    # 5 + 7 would end before it begins; (1, 1) has 1 + 7, (2, 3) has 5 + 3: of equals the shortest.
    assert best_spans(starts, ends, allowed, longest=3).tolist() == [[1, 1, 8]]
    ends[0, 3] = 4
    assert best_spans(starts, ends, allowed, longest=3).tolist() == [[2, 3, 9]]
    assert best_spans(starts, ends, allowed, longest=1).tolist() == [[1, 1, 8]]


def test_the_best_span_is_that_of_a_search_over_all():
    random = np.random.default_rng(0)
    starts, ends, allowed = random.normal(size=(5, 9)), random.normal(size=(5, 9)), random.random((5, 9)) < 0.7
    for row, (first, last, score) in enumerate(best_spans(starts, ends, allowed, longest=4)):
        own = np.flatnonzero(allowed[row])
        every = {(i, j): starts[row, i] + ends[row, j] for i in own for j in own if i <= j < i + 4}
        assert (score, (first, last)) == (max(every.values()), max(every, key=every.get))


def test_where_nothing_is_allowed_there_is_no_span():
    assert best_spans(np.zeros((1, 3)), np.zeros((1, 3)), np.zeros((1, 3), bool), 2)[0, 2] == -np.inf
