import numpy as np
import pytest

from plankwise.evaluation.exchange import swap, swap_one_by_one


@pytest.mark.parametrize(
    ("names", "num_classes"),
    [
        (["accuracy"], 3),
        (["accuracy", "f1"], 2),
        (["matthews"], 2),
        (["matthews", "macro_f1"], 4),
        (["roc_auc", "accuracy"], 2),
        (["roc_auc"], 3),
        (["accuracy", "macro_f1"], 12),
    ],
)
def test_counting_equals_scoring_one_by_one(names, num_classes):
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(2, 3, 25, num_classes))
    first[0] = np.eye(num_classes)[0]  # a seed that always answers the same
    labels, masks = rng.integers(0, num_classes, 25), rng.random((8, 25)) < 0.5
    wanted = swap_one_by_one(first, second, labels, names, masks)
    np.testing.assert_allclose(swap(first, second, labels, names, masks), wanted, atol=1e-12)


def test_correlating_rows_equals_scoring_one_by_one():
    rng = np.random.default_rng(2)
    first, second = rng.normal(size=(2, 2, 25)).round(1)  # with ties
    first[0] = second[0] = 1.0
    labels, masks = rng.normal(size=25).round(1), rng.random((8, 25)) < 0.5
    names = ["pearson", "spearman"]
    wanted = swap_one_by_one(first, second, labels, names, masks)
    np.testing.assert_allclose(swap(first, second, labels, names, masks), wanted, atol=1e-12)
