import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plankwise.errors import ConfigError, DataError, RunError
from plankwise.evaluation.metrics import (
    CLASS_METRICS,
    METRICS,
    NUMBER_METRICS,
    compute,
    glue_macro,
    majority_score,
    retained,
    score,
)


def logits(predicted, num_classes=2):
    return np.eye(num_classes)[predicted]


# true class 1: 2 found, 1 missed; true class 0: 1 taken for 1, 2 found
LABELS = np.array([1, 1, 1, 0, 0, 0])
PREDICTED = [1, 1, 0, 1, 0, 0]


def test_binary_metrics_are_those_worked_out_by_hand():
    found = compute(["accuracy", "f1", "macro_f1", "matthews"], logits(PREDICTED), LABELS)
    assert found["accuracy"] == pytest.approx(4 / 6)
    assert found["f1"] == pytest.approx(2 * 2 / (2 * 2 + 1 + 1))
    assert found["macro_f1"] == pytest.approx((4 / 6 + 4 / 6) / 2)
    assert found["matthews"] == pytest.approx((2 * 2 - 1 * 1) / math.sqrt(3 * 3 * 3 * 3))


def test_f1_is_of_class_one():
    labels = np.array([1, 0, 0, 0])
    found = compute(["f1", "macro_f1"], logits([1, 1, 0, 0]), labels)
    assert found["f1"] == pytest.approx(2 / 3)
    assert found["macro_f1"] == pytest.approx((2 / 3 + 4 / 5) / 2)


def test_macro_f1_of_three_classes_is_the_mean_of_each():
    found = compute(["macro_f1"], logits([0, 0, 1, 2], 3), np.array([0, 1, 1, 2]))
    assert found["macro_f1"] == pytest.approx((2 / 3 + 2 / 3 + 1) / 3)


def test_roc_auc_is_the_share_of_pairs_in_the_right_order():
    odds = np.array([0.9, 0.4, 0.5, 0.1])
    both = np.stack([np.zeros(4), odds], axis=1)
    assert compute(["roc_auc"], both, np.array([1, 0, 1, 0]))["roc_auc"] == 1.0
    assert compute(["roc_auc"], both, np.array([1, 1, 0, 0]))["roc_auc"] == pytest.approx(3 / 4)


def test_roc_auc_sees_order_where_probabilities_round_to_one():
    both = np.array([[0.0, 50.0], [0.0, 51.0]])
    assert compute(["roc_auc"], both, np.array([0, 1]))["roc_auc"] == 1.0


def test_roc_auc_of_three_classes_is_the_mean_against_the_rest():
    labels = np.array([0, 0, 1, 1, 2])
    # class 0 has 0.6 and 0.3 against 0.4, 0.1 and 0.2: one of the 6 pairs is in the wrong order
    outputs = np.log(np.array([[0.6, 0.2, 0.2], [0.3, 0.3, 0.4], [0.4, 0.5, 0.1], [0.1, 0.8, 0.1], [0.2, 0.1, 0.7]]))
    class0, class1, class2 = 5 / 6, 1.0, 1.0
    assert compute(["roc_auc"], outputs, labels)["roc_auc"] == pytest.approx((class0 + class1 + class2) / 3)


def test_correlations_are_those_worked_out_by_hand():
    outputs, labels = np.array([1.0, 2.0, 4.0]), np.array([1.0, 3.0, 2.0])
    found = compute(["pearson", "spearman"], outputs, labels)
    # deviations (-4, -1, 5) / 3 and (-1, 1, 0): covariance 1, sizes sqrt(42 / 9) and sqrt(2)
    assert found["pearson"] == pytest.approx(1 / math.sqrt(42 / 9 * 2))
    assert found["spearman"] == pytest.approx(0.5)
    assert compute(["pearson"], outputs[:, None], labels)["pearson"] == found["pearson"]


@pytest.mark.filterwarnings("error")
def test_constant_predictions_correlate_with_nothing_and_warn_of_nothing():
    labels = np.array([1.0, 2.0, 3.0])
    assert compute(NUMBER_METRICS, np.full(3, 0.1), labels) == {"pearson": 0.0, "spearman": 0.0}
    nearly_constant = compute(NUMBER_METRICS, np.array([1e9, 1e9, 1e9 + 1e-7]), labels)
    assert all(math.isfinite(value) for value in nearly_constant.values())
    assert compute(["matthews"], logits([1, 1]), np.array([0, 1]))["matthews"] == 0.0


@pytest.mark.filterwarnings("error")
def test_one_class_alone_gives_the_values_of_knowing_nothing():
    found = compute(CLASS_METRICS, logits([0, 0]), np.array([0, 0]))
    assert found == {"accuracy": 1.0, "f1": 0.0, "macro_f1": 1.0, "matthews": 0.0, "roc_auc": 0.5}


@pytest.mark.filterwarnings("error")
@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.integers(0, 1)), min_size=1, max_size=20))
def test_no_metric_is_ever_nan_or_out_of_bounds(rows):
    outputs, labels = np.array([row[:2] for row in rows]), np.array([row[2] for row in rows])
    found = compute(CLASS_METRICS, outputs, labels) | compute(NUMBER_METRICS, outputs[:, 0], outputs[:, 1])
    assert set(found) == set(METRICS)
    assert all(-1 - 1e-9 <= value <= 1 + 1e-9 for value in found.values())


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(ConfigError, match=r"metric 'acuracy': there is no such metric. Did you mean 'accuracy'"):
        compute(["acuracy"], logits([0, 1]), np.array([0, 1]))
    with pytest.raises(ConfigError, match="two classes, but there are 3; choose macro_f1"):
        compute(["f1"], logits([0, 1], 3), np.array([0, 1]))
    with pytest.raises(ConfigError, match="'pearson' does not fit a task on classes"):
        compute(["pearson"], logits([0, 1]), np.array([0, 1]))
    with pytest.raises(ConfigError, match="'accuracy' does not fit a task on numbers"):
        compute(["accuracy"], np.zeros(2), np.array([0, 1]))
    with pytest.raises(DataError, match="one output per label"):
        compute(["accuracy"], logits([0, 1]), np.array([0]))
    with pytest.raises(DataError, match="one output per label"):
        compute(["accuracy"], np.zeros((0, 2)), np.array([]))
    with pytest.raises(RunError, match="not finite"):
        compute(["accuracy"], np.full((1, 2), np.nan), np.array([0]))


def test_the_score_is_the_mean_of_the_named_metrics():
    assert score({"accuracy": 0.5, "f1": 1.0, "matthews": 0.1}, ("accuracy", "f1")) == 0.75


def test_the_majority_is_trains_and_is_scored_on_dev():
    train, dev = np.array([0, 1, 1]), np.array([0, 0, 1, 0])
    assert majority_score(["accuracy"], ["accuracy"], train, dev, "classes") == 0.25
    assert majority_score(["accuracy", "f1"], ["accuracy", "f1"], train, dev, "classes") == (0.25 + 0.4) / 2
    assert majority_score(["accuracy"], ["accuracy"], np.array([2, 2, 0]), np.array([2, 1]), "classes") == 0.5
    assert majority_score(["matthews"], ["matthews"], train, dev, "classes") == 0.0
    assert majority_score(["pearson"], ["pearson"], train * 1.0, dev * 1.0, "number") == 0.0


def test_retained_is_a_ratio_of_a_positive_score():
    assert retained(0.45, 0.9) == 0.5
    for nothing in (0.0, -0.1, math.nan):
        with pytest.raises(ValueError, match="a share is kept only of a score above 0"):
            retained(0.5, nothing)


def test_the_macro_score_leaves_wnli_out():
    assert glue_macro({"rte": 0.5, "cola": 0.25, "wnli": 0.9}) == 0.375
    with pytest.raises(ValueError, match="other than wnli"):
        glue_macro({"wnli": 0.9})
