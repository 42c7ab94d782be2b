"""Scores of predictions, by scikit-learn and SciPy; never NaN.

Where a metric is undefined it has the value of a model that knows nothing: 0 for correlations, 0.5 for roc_auc.
"""

import difflib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from plankwise.errors import ConfigError, DataError, RunError


def accuracy(logits: np.ndarray, labels: np.ndarray) -> float:
    """Share of examples whose class has the highest logit."""
    return float(np.mean(logits.argmax(axis=1) == labels))


def f1(logits: np.ndarray, labels: np.ndarray) -> float:
    """F1 of class 1 against class 0; 0 if class 1 is neither there nor predicted."""
    if logits.shape[1] != 2:
        raise ConfigError(f"metric f1 is for two classes, but there are {logits.shape[1]}; choose macro_f1")
    from sklearn.metrics import f1_score

    return float(f1_score(labels, logits.argmax(axis=1), zero_division=0))


def macro_f1(logits: np.ndarray, labels: np.ndarray) -> float:
    """Mean F1 over the classes that occur in the labels or the predictions."""
    from sklearn.metrics import f1_score

    return float(f1_score(labels, logits.argmax(axis=1), average="macro", zero_division=0))


def matthews(logits: np.ndarray, labels: np.ndarray) -> float:
    """Matthews correlation of predicted and true class; 0 if either never varies."""
    from sklearn.metrics import matthews_corrcoef

    predicted = logits.argmax(axis=1)
    if np.ptp(predicted) == 0 or np.ptp(labels) == 0:
        return 0.0
    return float(matthews_corrcoef(labels, predicted))


def roc_auc(logits: np.ndarray, labels: np.ndarray) -> float:
    """Area under the ROC curve of class 1, or the mean over classes, each against the rest.

    Ranks by log-odds, which order examples as the probability does but without its rounding near 0 and 1. A class that
    all or none of the examples have is left out; if none remains the area is 0.5.
    """
    from scipy.special import logsumexp
    from sklearn.metrics import roc_auc_score

    areas = []
    for index in [1] if logits.shape[1] == 2 else range(logits.shape[1]):
        true = labels == index
        if 0 < true.sum() < len(true):
            odds = logits[:, index] - logsumexp(np.delete(logits, index, axis=1), axis=1)
            areas.append(roc_auc_score(true, odds))
    return float(np.mean(areas)) if areas else 0.5


def pearson(outputs: np.ndarray, labels: np.ndarray) -> float:
    """Linear correlation; 0 if either side never varies."""
    from scipy import stats

    return _correlation(stats.pearsonr, outputs, labels)


def spearman(outputs: np.ndarray, labels: np.ndarray) -> float:
    """Correlation of ranks; 0 if either side never varies."""
    from scipy import stats

    return _correlation(stats.spearmanr, outputs, labels)


def _correlation(measure: Callable[..., Any], outputs: np.ndarray, labels: np.ndarray) -> float:
    if np.ptp(outputs) == 0 or np.ptp(labels) == 0:
        return 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SciPy on nearly constant input
        value = float(measure(outputs, labels).statistic)
    return value if np.isfinite(value) else 0.0


CLASS_METRICS = {"accuracy": accuracy, "f1": f1, "macro_f1": macro_f1, "matthews": matthews, "roc_auc": roc_auc}
NUMBER_METRICS = {"pearson": pearson, "spearman": spearman}
METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {**CLASS_METRICS, **NUMBER_METRICS}


def compute(names: Sequence[str], outputs: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """The named metrics of outputs, logits (N, C) or numbers (N,) or (N, 1), against labels (N,).

    Raises:
        ConfigError: no such metric, or it does not fit the outputs.
        DataError: there are no examples, or not one label per output.
        RunError: an output is not finite.
    """
    outputs, labels = np.asarray(outputs, dtype=np.float64), np.asarray(labels)
    if outputs.ndim == 2 and outputs.shape[1] == 1:
        outputs = outputs[:, 0]
    if len(outputs) == 0 or labels.shape != outputs.shape[:1]:
        raise DataError(
            f"outputs of shape {outputs.shape} for labels of shape {labels.shape}; give one output per label"
        )
    if not np.isfinite(outputs).all():
        raise RunError("the model's outputs are not finite numbers; train it anew with a lower training.learning_rate")
    for name in names:
        _check_metric(name, outputs)
    return {name: METRICS[name](outputs, labels) for name in names}


def _check_metric(name: str, outputs: np.ndarray) -> None:
    if name not in METRICS:
        near = difflib.get_close_matches(name, METRICS, n=1)
        guess = f" Did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"metric {name!r}: there is no such metric.{guess} Known: {', '.join(sorted(METRICS))}")
    fitting = CLASS_METRICS if outputs.ndim == 2 else NUMBER_METRICS
    if name not in fitting:
        what = "classes" if outputs.ndim == 2 else "numbers"
        raise ConfigError(f"metric {name!r} does not fit a task on {what}; choose among {', '.join(fitting)}")


def score(metrics: Mapping[str, float], names: Sequence[str]) -> float:
    """The mean of the named metrics."""
    return float(np.mean([metrics[name] for name in names]))


def majority_score(
    names: Sequence[str],
    score_names: Sequence[str],
    train_labels: np.ndarray,
    dev_labels: np.ndarray,
    kind: Literal["classes", "number"],
) -> float:
    """The score on dev of always predicting train's most frequent class, or train's mean."""
    train_labels, dev_labels = np.asarray(train_labels), np.asarray(dev_labels)
    if kind == "number":
        outputs = np.full(len(dev_labels), train_labels.mean())
    else:
        counts = np.bincount(train_labels, minlength=max(2, dev_labels.max() + 1))
        outputs = np.zeros((len(dev_labels), len(counts)))
        outputs[:, counts.argmax()] = 1.0
    return score(compute([*names, *score_names], outputs, dev_labels), score_names)


def retained(successor: float, predecessor: float) -> float:
    """The share of the predecessor's score that the successor keeps.

    Raises:
        ValueError: the predecessor's score is not above 0, so that a share of it means nothing.
    """
    if not predecessor > 0:
        raise ValueError(f"the predecessor's score is {predecessor}; a share is kept only of a score above 0")
    return successor / predecessor


def glue_macro(scores: Mapping[str, float]) -> float:
    """The mean over GLUE's subsets without WNLI, as in Table 2 of Xu et al. 2020 (arXiv:2002.02925).

    Raises:
        ValueError: there is no score to average.
    """
    counted = [value for subset, value in scores.items() if subset != "wnli"]
    if not counted:
        raise ValueError("there is no score of a GLUE subset other than wnli; the macro score needs at least one")
    return float(np.mean(counted))
