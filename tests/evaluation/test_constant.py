import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plankwise.evaluation.constant import (
    beyond_constant,
    beyond_unigrams,
    choose_constant,
    correlation_test,
    randomisation_test,
    rank_test,
    sign_test,
)
from plankwise.evaluation.perplexity import SequenceLosses

LABELS = ("negative", "positive")
WORDS = ("fine", "great", "lovely", "superb", "dull", "weak", "awful", "boring")
GOOD, BAD = [0.0, 1.0], [1.0, 0.0]
RIGHT = {word: GOOD if index < 4 else BAD for index, word in enumerate(WORDS)}
DEV = [(word, int(index < 4)) for index, word in enumerate(WORDS)] + [("dull film", 0), ("weak film", 0)]


def found(make_scorer, word_model, weights, dev=DEV, **how):
    scorer, train = make_scorer(LABELS, dev, **how)
    return beyond_constant(scorer, scorer.outputs(word_model(weights)), train)


@pytest.mark.parametrize("order", [None, ("positive", "negative")])
@pytest.mark.parametrize("metric", ["accuracy", "f1", "macro_f1", "matthews"])
def test_a_model_that_answers_one_class_is_not_shown_to_know_anything(make_scorer, word_model, order, metric):
    always = [float(name == "negative") for name in order or LABELS]
    said = found(make_scorer, word_model, dict.fromkeys(WORDS, always), order=order, metrics=(metric,))
    assert (said["answered"], said["most_answered"], said["most_answered_share"]) == (1, "negative", 1.0)
    assert not said["shown"]
    assert said["p"] > 0.05


def test_a_model_that_is_right_where_the_most_frequent_class_is_wrong_is_shown_by_the_exact_test(
    make_scorer, word_model
):
    said = found(make_scorer, word_model, RIGHT, dev=[*DEV, ("great film", 1)])
    assert said == {
        "constant": "'negative'",
        "constant_score": 6 / 11,
        "answered": 2,
        "most_answered": "negative",
        "most_answered_share": 6 / 11,
        "p": 1 / 32,  # five coins that all fall on one side
        "shown": True,
    }


def test_four_examples_of_difference_are_too_few(make_scorer, word_model):
    said = found(make_scorer, word_model, RIGHT)
    assert (said["p"], said["shown"]) == (1 / 16, False)


def test_a_model_without_a_difference_to_the_constant_answer_has_p_one():
    assert sign_test(np.zeros(6, int), np.array([0, 0, 0, 1, 1, 0]), 0) == 1.0


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=40))
def test_the_randomisation_test_is_never_below_its_smallest_step_nor_above_one(pairs):
    predicted, labels = (np.array(side) for side in zip(*pairs, strict=True))
    p = randomisation_test(["macro_f1", "matthews"], [predicted], [labels], 0, 3, rounds=20)
    assert 1 / 21 <= p <= 1


def test_the_randomisation_test_of_accuracy_is_near_the_exact_one():
    labels = np.array([1] * 8 + [0] * 12)
    predicted = np.array([1] * 6 + [0] * 2 + [1] * 2 + [0] * 10)
    exact = sign_test(predicted, labels, 0)
    assert exact == pytest.approx(37 / 256)  # 6 or more of 8
    assert randomisation_test(["accuracy"], [predicted], [labels], 0, 2) == pytest.approx(exact, abs=0.03)


@pytest.mark.parametrize("metric", ["f1", "macro_f1", "matthews", "roc_auc"])
def test_a_right_model_is_shown_by_every_metric_of_classes(make_scorer, word_model, metric):
    assert found(make_scorer, word_model, RIGHT, dev=DEV * 3, metrics=(metric,))["shown"]


def test_answers_by_chance_are_shown_about_one_time_in_twenty_at_most():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 60)
    p = [randomisation_test(["matthews"], [rng.integers(0, 2, 60)], [labels], 0, 2, rounds=99) for _ in range(60)]
    assert np.mean(np.array(p) < 0.05) <= 0.1


def test_for_accuracy_the_constant_is_the_most_frequent_class_of_train_and_for_f1_the_one_that_counts():
    labels = np.array([0] * 7 + [1] * 3)
    assert choose_constant(["accuracy"], labels, 2) == 0
    assert choose_constant(["matthews"], labels, 2) == 0
    assert choose_constant(["f1"], labels, 2) == 1
    assert choose_constant(["macro_f1"], np.array([2, 2, 1, 0]), 3) == 2


def test_a_model_scored_by_how_sure_it_is_may_answer_one_class(make_scorer, word_model):
    sure = {word: [3.0, 1.0 if word in WORDS[:4] else 0.0] for word in WORDS}
    said = found(make_scorer, word_model, sure, dev=DEV * 3, metrics=("roc_auc",))
    assert (said["answered"], said["constant_score"], said["shown"]) == (1, 0.5, True)


def test_the_rank_test_of_one_class_alone_shows_nothing():
    assert rank_test(np.random.default_rng(0).normal(size=(9, 2)), np.zeros(9, int)) == 1.0


def test_numbers_are_tested_for_a_correlation_above_zero(make_scorer, word_model):
    dev = [(word, float(index)) for index, word in enumerate(WORDS)]
    scorer, train = make_scorer((), dev, metrics=("pearson", "spearman"))

    def said(numbers):
        weights = {word: [float(value)] for word, value in zip(WORDS, numbers, strict=True)}
        return beyond_constant(scorer, scorer.outputs(word_model(weights)), train)

    up, down, flat = said(range(8)), said(range(8, 0, -1)), said([2.5] * 8)
    assert (up["shown"], up["answered"], up["constant"], up["constant_score"]) == (True, 8, "the mean", 0.0)
    assert not down["shown"]
    assert (flat["shown"], flat["answered"], flat["most_answered"], flat["p"]) == (False, 1, "2.5", 1.0)


def test_a_correlation_of_two_numbers_is_not_shown():
    assert correlation_test("pearson", np.array([0.0, 1.0]), np.array([0.0, 1.0])) == 1.0


def test_several_dev_sets_are_pooled_for_accuracy(task_of_two_sets):
    scorer, outputs, train = task_of_two_sets
    said = beyond_constant(scorer, outputs, train)
    assert said["p"] == 1 / 32  # two and three examples
    assert said["constant_score"] == pytest.approx((1 / 3 + 1 / 4) / 2)


@pytest.fixture
def task_of_two_sets(make_scorer):
    """A model that is always right on two dev sets, of whose labels one each is the most frequent class of train."""
    import pyarrow as pa

    scorer, _ = make_scorer(LABELS, DEV)
    labels = {"one": np.array([0, 1, 1]), "two": np.array([0, 1, 1, 1])}
    scorer.labels = lambda: labels
    outputs = {name: np.eye(2)[own] for name, own in labels.items()}
    return scorer, outputs, pa.table({"label": [0, 0, 1]})


@pytest.mark.parametrize(("better", "p", "shown"), [(5, 1 / 32, True), (4, 6 / 32, False), (0, 1.0, False)])
def test_a_language_model_is_tested_against_the_frequencies_of_tokens_sequence_by_sequence(better, p, shown):
    tokens, unigrams = np.full(5, 10), np.full(5, 20.0)
    losses = np.where(np.arange(5) < better, 10.0, 21.0)
    said = beyond_unigrams(SequenceLosses(losses, tokens), SequenceLosses(unigrams, tokens))
    assert (said["p"], said["shown"]) == (p, shown)
    assert said["constant_score"] == pytest.approx(np.exp(-2))
    assert said["constant_shown"] == "perplexity 7.39"
