"""Whether a model knows more than one answer for everything: a one-sided test against the best constant answer, on dev.

- Accuracy: the exact sign test on the examples that only one of the two gets right (McNemar 1947).
- Other scores of classes: approximate randomisation. Were the model no better, its answer and the constant one could be exchanged
  on any example.
- roc_auc and correlations, which a constant answer leaves where chance does: Mann and Whitney's, Pearson's and Spearman's tests.

Of several tests, and of several dev sets that cannot be pooled, the largest p counts.
"""

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from scipy import stats
from scipy.special import logsumexp

from plankwise.evaluation.errors import count_pairs
from plankwise.evaluation.exchange import COUNTED
from plankwise.evaluation.metrics import compute, score
from plankwise.evaluation.perplexity import SequenceLosses
from plankwise.evaluation.scoring import Scorer

ALPHA = 0.05
ROUNDS = 2000
SEED = 20200207  # fixed, so that the same answers give the same p
TOLERANCE = 1e-12  # two ways of adding up the same counts differ by less
RANKED = "roc_auc"  # reads how sure a model is, not which class it answers
CHUNK = 1_000_000  # cells of matrices in memory at once
STEPS = 1000  # numbers nearer to each other than this share of the labels' range are one answer


def beyond_constant(scorer: Scorer, outputs: Mapping[str, np.ndarray], train: pa.Table) -> dict:
    """What the record says of a model with these outputs on dev: what it answers, and whether it beats a constant answer.

    `constant` names that answer in words: the class that scores highest on train when it is always answered, which for accuracy is
    the most frequent one; for numbers the mean. `shown` is False for a model that answers one class only, unless it is scored by
    how sure it is.
    """
    source = scorer.source
    labels = list(scorer.labels().values())
    answers = [np.asarray(source.in_task_order(values), dtype=np.float64) for values in outputs.values()]
    known = source.label_in_task_order(train["label"].to_numpy())
    if source.kind == "number":
        return _numbers(source.score, [values.reshape(len(values)) for values in answers], labels)
    names = list(source.labels)
    if source.own_order:
        names = [names[index] for index in np.argsort(source.own_order)]
    return _classes(source.score, answers, labels, known, names)


def _classes(
    metrics: Sequence[str],
    logits: list[np.ndarray],
    labels: list[np.ndarray],
    train_labels: np.ndarray,
    names: list[str],
) -> dict:
    predicted = [values.argmax(axis=1) for values in logits]
    counts = np.bincount(np.concatenate(predicted), minlength=len(names))
    constant = choose_constant(metrics, train_labels, len(names))
    always = [_always(constant, len(own), len(names)) for own in labels]
    tests = []
    counted = [name for name in metrics if name != RANKED]
    if counted == ["accuracy"]:
        tests.append(sign_test(np.concatenate(predicted), np.concatenate(labels), constant))
    elif counted:
        tests.append(randomisation_test(counted, predicted, labels, constant, len(names)))
    if RANKED in metrics:
        tests += [rank_test(values, own) for values, own in zip(logits, labels, strict=True)]
    answered = int((counts > 0).sum())
    p = max(tests)
    return {
        "constant": f"'{names[constant]}'",
        "constant_score": _score(metrics, always, labels),
        "answered": answered,
        "most_answered": names[int(counts.argmax())],
        "most_answered_share": float(counts.max() / counts.sum()),
        "p": p,
        "shown": p < ALPHA and (answered > 1 or RANKED in metrics),
    }


def beyond_unigrams(model: SequenceLosses, unigrams: SequenceLosses) -> dict:
    """The same of a language model, against answering every token by its frequency: the sign test over held-out sequences."""
    score, constant = (found.metrics()["score"] for found in (model, unigrams))
    won, lost = (model.losses < unigrams.losses).sum(), (model.losses > unigrams.losses).sum()
    p = _sign_test(int(won), int(lost))
    return {
        "constant": "tokens by their frequency",
        "constant_score": constant,
        "constant_shown": f"perplexity {unigrams.metrics()['perplexity']:.2f}",
        "answered": None,
        "most_answered": None,
        "most_answered_share": None,
        "p": p,
        "shown": p < ALPHA and score > constant,
    }


def choose_constant(metrics: Sequence[str], train_labels: np.ndarray, num_classes: int) -> int:
    """The class to answer always: the most frequent one, or of two the one that scores higher on train (F1 counts one alone)."""
    frequent = int(np.bincount(train_labels, minlength=num_classes).argmax())
    if num_classes != 2:
        return frequent
    other = 1 - frequent
    scores = {one: _score(metrics, [_always(one, len(train_labels), 2)], [train_labels]) for one in (frequent, other)}
    return other if scores[other] > scores[frequent] else frequent


def _always(answer: int, count: int, num_classes: int) -> np.ndarray:
    outputs = np.zeros((count, num_classes))
    outputs[:, answer] = 1.0
    return outputs


def _score(metrics: Sequence[str], outputs: list[np.ndarray], labels: list[np.ndarray]) -> float:
    found = [score(compute(metrics, own, true), metrics) for own, true in zip(outputs, labels, strict=True)]
    return float(np.mean(found))


def sign_test(predicted: np.ndarray, labels: np.ndarray, constant: int) -> float:
    """The exact one-sided p that answers are right more often than the constant one."""
    right, always = predicted == labels, labels == constant
    return _sign_test(int((right & ~always).sum()), int((~right & always).sum()))


def _sign_test(won: int, lost: int) -> float:
    return float(stats.binomtest(won, won + lost, 0.5, alternative="greater").pvalue) if won + lost else 1.0


def randomisation_test(
    metrics: Sequence[str],
    predicted: list[np.ndarray],
    labels: list[np.ndarray],
    constant: int,
    num_classes: int,
    rounds: int = ROUNDS,
) -> float:
    """The same for any scores of confusion matrices, as a mean over dev sets; approximate, by a fixed seed.

    Examples of one class and one answer are alike, so that of each cell of the matrix a binomial number is exchanged.
    """
    rng = np.random.default_rng(SEED)
    tables = [count_pairs(true, answers, num_classes) for answers, true in zip(predicted, labels, strict=True)]

    def differences(share: float, count: int) -> np.ndarray:
        found = []
        for table in tables:
            exchanged = rng.binomial(table, share, size=(count, *table.shape))
            kept = table - exchanged
            ours, theirs = (_scored(metrics, *sides, constant) for sides in ((kept, exchanged), (exchanged, kept)))
            found.append(ours - theirs)
        return np.mean(found, axis=0)

    observed = differences(0.0, 1)[0]
    at_once = max(1, CHUNK // num_classes**2)
    counts = [min(at_once, rounds - start) for start in range(0, rounds, at_once)]
    reached = sum(int((differences(0.5, count) >= observed - TOLERANCE).sum()) for count in counts)
    return (1 + reached) / (1 + rounds)


def _scored(metrics: Sequence[str], own: np.ndarray, others: np.ndarray, constant: int) -> np.ndarray:
    """The mean of the metrics for R confusion matrices (R, C, C): the model's own answers, and others answered by the constant."""
    tables = own.astype(np.float64)
    tables[..., constant] += others.sum(axis=-1)
    return np.mean([_accuracy(tables) if name == "accuracy" else COUNTED[name](tables) for name in metrics], axis=0)


def _accuracy(tables: np.ndarray) -> np.ndarray:
    return np.trace(tables, axis1=-2, axis2=-1) / tables.sum((-2, -1))


def rank_test(logits: np.ndarray, labels: np.ndarray) -> float:
    """The one-sided p that a class's examples have higher log-odds than the others; of several classes by Bonferroni."""
    found = []
    for index in [1] if logits.shape[1] == 2 else range(logits.shape[1]):
        true = labels == index
        if 0 < true.sum() < len(true):
            odds = logits[:, index] - logsumexp(np.delete(logits, index, axis=1), axis=1)
            found.append(float(stats.mannwhitneyu(odds[true], odds[~true], alternative="greater").pvalue))
    return min(1.0, len(found) * min(found)) if found else 1.0


def _numbers(metrics: Sequence[str], outputs: list[np.ndarray], labels: list[np.ndarray]) -> dict:
    values, spread = np.concatenate(outputs), float(np.ptp(np.concatenate(labels)))
    width = spread / STEPS if spread > 0 else 1.0
    places = np.round(values / width)
    distinct, counts = np.unique(places, return_counts=True)
    p = max(correlation_test(name, own, true) for name in metrics for own, true in zip(outputs, labels, strict=True))
    return {
        "constant": "the mean",
        "constant_score": 0.0,
        "answered": len(distinct),
        "most_answered": f"{np.median(values[places == distinct[counts.argmax()]]):.4g}",
        "most_answered_share": float(counts.max() / counts.sum()),
        "p": p,
        "shown": p < ALPHA and len(distinct) > 1,
    }


def correlation_test(name: str, outputs: np.ndarray, labels: np.ndarray) -> float:
    """The one-sided p that the correlation is above 0; 1 where either side never varies or there are fewer than three."""
    if len(labels) < 3 or np.ptp(outputs) == 0 or np.ptp(labels) == 0:
        return 1.0
    measure = stats.pearsonr if name == "pearson" else stats.spearmanr
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SciPy on nearly constant input
        p = float(measure(outputs, labels, alternative="greater").pvalue)
    return p if np.isfinite(p) else 1.0
