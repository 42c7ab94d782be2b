"""Scores of two models after their outputs on some dev examples have been exchanged: what a paired randomisation test asks for.

Counts and ranks are enough for most metrics; the others are computed round by round.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from scipy.stats import rankdata

from plankwise.evaluation.metrics import NUMBER_METRICS, compute, score

MOST_CLASSES = 10  # above it, confusion matrices cost more than scoring round by round


def swap(
    first: np.ndarray, second: np.ndarray, labels: np.ndarray, names: Sequence[str], masks: np.ndarray
) -> np.ndarray:
    """The mean difference over seeds after each of R exchanges.

    Outputs are (S, N, C) or (S, N) for S seeds, masks (R, N): where to exchange. Counts and ranks are enough for most metrics;
    the others are computed round by round.
    """
    found = []
    for name in names:
        if name == "accuracy":
            found.append(_swap_correct(first, second, labels, masks))
        elif name in COUNTED and first.shape[2] <= MOST_CLASSES:
            found.append(_swap_counts(first, second, labels, name, masks))
        elif name in NUMBER_METRICS:
            found.append(_swap_numbers(first, second, partial(_correlate, name, labels), masks))
        elif name == "roc_auc" and first.shape[2] == 2:
            odds, other_odds = (side[..., 1] - side[..., 0] for side in (first, second))
            found.append(_swap_numbers(odds, other_odds, partial(_area, labels), masks))
        else:
            found.append(swap_one_by_one(first, second, labels, [name], masks))
    return np.mean(found, axis=0)


def swap_one_by_one(
    first: np.ndarray, second: np.ndarray, labels: np.ndarray, names: Sequence[str], masks: np.ndarray
) -> np.ndarray:
    """The same as `swap` for any metric: every round is scored anew."""

    def scored(outputs: np.ndarray) -> float:
        return score(compute(names, outputs, labels), names)

    found = []
    for mask in masks:
        where = mask[:, None] if first.ndim == 3 else mask
        pairs = zip(first, second, strict=True)
        found.append(np.mean([scored(np.where(where, b, a)) - scored(np.where(where, a, b)) for a, b in pairs]))
    return np.array(found)


def _swap_correct(first: np.ndarray, second: np.ndarray, labels: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """An exchange turns the sign of an example's difference in correctness."""
    first_right, second_right = ((side.argmax(-1) == labels).mean(0) for side in (first, second))
    gain = first_right - second_right
    return (gain.sum() - 2 * (masks @ gain)) / len(labels)


def _swap_counts(first: np.ndarray, second: np.ndarray, labels: np.ndarray, name: str, masks: np.ndarray) -> np.ndarray:
    """By confusion matrices: an exchange moves an example's counts from one side to the other."""
    num_seeds, _, num_classes = first.shape
    sides = [_place(side.argmax(-1), labels, num_classes) for side in (first, second)]
    moved = np.tensordot(masks.astype(np.float64), sides[1] - sides[0], axes=(1, 1))
    shape = (len(masks), num_seeds, num_classes, num_classes)
    ours, theirs = (counts.reshape(shape) for counts in (sides[0].sum(1) + moved, sides[1].sum(1) - moved))
    return (COUNTED[name](ours) - COUNTED[name](theirs)).mean(1)


def _place(predicted: np.ndarray, labels: np.ndarray, num_classes: int) -> np.ndarray:
    """(S, N, C * C): where each example stands in a confusion matrix of true and predicted class."""
    return np.eye(num_classes * num_classes)[labels * num_classes + predicted]


def _swap_numbers(
    first: np.ndarray, second: np.ndarray, measure: Callable[[np.ndarray], np.ndarray], masks: np.ndarray
) -> np.ndarray:
    """By numbers (S, N), of which `measure` scores (R, N) at once."""
    pairs = zip(first, second, strict=True)
    return np.mean([measure(np.where(masks, b, a)) - measure(np.where(masks, a, b)) for a, b in pairs], axis=0)


def _correlate(name: str, labels: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    """Correlations of the rows (R, N) with the labels; 0 where either never varies."""
    if name == "spearman":
        outputs, labels = rankdata(outputs, axis=1), rankdata(labels)
    outputs = outputs - outputs.mean(1, keepdims=True)
    labels = labels - labels.mean()
    norms = np.sqrt((outputs**2).sum(1) * (labels**2).sum())
    return _divide(outputs @ labels, norms)


def _area(labels: np.ndarray, odds: np.ndarray) -> np.ndarray:
    """Areas under the ROC curve of class 1 for each row (R, N) of log-odds; 0.5 if one class is missing."""
    true = labels == 1
    num_true, num_false = true.sum(), (~true).sum()
    if not num_true or not num_false:
        return np.full(len(odds), 0.5)
    return (rankdata(odds, axis=1)[:, true].sum(1) - num_true * (num_true + 1) / 2) / (num_true * num_false)


def _divide(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """0 where there is nothing to divide by."""
    return np.divide(above, below, out=np.zeros_like(above, dtype=np.float64), where=below > 0)


def _class_f1(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """F1 of each class, and which classes occur."""
    occurring = counts.sum(-1) + counts.sum(-2)
    return _divide(2 * np.diagonal(counts, axis1=-2, axis2=-1), occurring), occurring > 0


def _f1(counts: np.ndarray) -> np.ndarray:
    return _class_f1(counts)[0][..., 1]


def _macro_f1(counts: np.ndarray) -> np.ndarray:
    values, occurring = _class_f1(counts)
    return values.sum(-1) / occurring.sum(-1)


def _matthews(counts: np.ndarray) -> np.ndarray:
    true, predicted, total = counts.sum(-1), counts.sum(-2), counts.sum((-2, -1))
    right = np.trace(counts, axis1=-2, axis2=-1)
    varying = (total**2 - (true**2).sum(-1)) * (total**2 - (predicted**2).sum(-1))
    return _divide(right * total - (true * predicted).sum(-1), np.sqrt(varying))


COUNTED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "f1": _f1,
    "macro_f1": _macro_f1,
    "matthews": _matthews,
}
