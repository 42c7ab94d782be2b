"""What several seeds say: summaries, a paired test over dev examples, Holm's correction, the mean over tasks, the time left.

The test is approximate randomisation: were two rows alike, their outputs on any one dev example could be exchanged.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean, median

import numpy as np
from scipy.stats import rankdata

from plankwise.evaluation.metrics import NUMBER_METRICS, compute, retained, score
from plankwise.evaluation.scoring import Scorer

Outputs = Mapping[str, np.ndarray]  # by dev set
OURS = "replacing"
ALPHA = 0.05
ROUNDS = 2000
SEED = 20200207  # fixed, so that the same cells give the same p
TOLERANCE = 1e-12  # two ways of adding up the same counts differ by less
CHUNK = 4_000_000  # swaps held at once
MOST_CLASSES = 10  # above it, confusion matrices cost more than scoring round by round


@dataclass(frozen=True)
class Summary:
    """One row over its seeds."""

    median: float
    spread: float  # highest less lowest
    best: float
    retained: float | None  # the median's share of the predecessor's score
    seconds: float | None  # mean; None for a predecessor that was given


def summarise(scores: Sequence[float], seconds: Sequence[float], predecessor: float) -> Summary:
    """At least one seed's scores and training times; nothing is retained of a predecessor's score that is not above 0."""
    middle = median(scores)
    share = retained(middle, predecessor) if predecessor > 0 else None
    return Summary(middle, max(scores) - min(scores), max(scores), share, fmean(seconds))


def choose_baseline(medians: Mapping[str, float], methods: Mapping[str, str]) -> str | None:
    """The row with the highest median among those of other methods than replacing; among all if there is none."""
    others = [label for label in medians if methods[label] != OURS]
    return max(others or medians, key=medians.__getitem__, default=None)


@dataclass(frozen=True)
class Comparison:
    """A row against another, over the seeds that both have."""

    baseline: str
    difference: float  # mean over the seeds
    p: float  # corrected for the number of rows

    @property
    def verdict(self) -> str:
        shown = f"p = {self.p:.2g}"
        if self.p >= ALPHA:
            return f"no difference shown ({shown})"
        return f"{'better' if self.difference > 0 else 'worse'} than {self.baseline} ({shown})"


def compare_rows(
    scorer: Scorer, outputs: Mapping[str, Mapping[int, Outputs]], baseline: str, *, rounds: int = ROUNDS
) -> dict[str, Comparison]:
    """Every row against the baseline, Holm-corrected; `outputs` are by label and seed. No common seed, no comparison."""
    found = {}
    for label in outputs:
        seeds = sorted(outputs[label].keys() & outputs[baseline].keys())
        if label != baseline and seeds:
            first, second = ([outputs[row][seed] for seed in seeds] for row in (label, baseline))
            found[label] = paired_test(scorer, first, second, rounds=rounds)
    corrected = holm([p for _, p in found.values()])
    return {
        label: Comparison(baseline, difference, p)
        for (label, (difference, _)), p in zip(found.items(), corrected, strict=True)
    }


def paired_test(
    scorer: Scorer, first: Sequence[Outputs], second: Sequence[Outputs], *, rounds: int = ROUNDS
) -> tuple[float, float]:
    """The mean difference of the task's score over the seeds, first less second, and its two-sided p.

    A dev example is exchanged in all seeds or in none.
    """
    rng = np.random.default_rng(SEED)
    labels = scorer.labels()
    sizes = {name: len(values) for name, values in labels.items()}
    ours, theirs = (
        {name: np.stack([_as_scored(scorer, seed[name]) for seed in side]) for name in sizes}
        for side in (first, second)
    )

    def differences(masks: Mapping[str, np.ndarray]) -> np.ndarray:
        names = scorer.source.score
        return np.mean([swap(ours[n], theirs[n], labels[n], names, masks[n]) for n in sizes], axis=0)

    observed = float(differences({name: np.zeros((1, size), dtype=bool) for name, size in sizes.items()})[0])
    at_once = max(1, CHUNK // sum(sizes.values()))
    count = 0
    for start in range(0, rounds, at_once):
        shape = min(at_once, rounds - start)
        found = differences({name: rng.random((shape, size)) < 0.5 for name, size in sizes.items()})
        count += int((np.abs(found) >= abs(observed) - TOLERANCE).sum())
    return observed, (1 + count) / (1 + rounds)


def _as_scored(scorer: Scorer, outputs: np.ndarray) -> np.ndarray:
    """Logits (N, C) in the task's order of classes, or numbers (N,)."""
    outputs = np.asarray(scorer.source.in_task_order(outputs), dtype=np.float64)
    return outputs[:, 0] if outputs.ndim == 2 and outputs.shape[1] == 1 else outputs


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


def holm(values: Sequence[float]) -> list[float]:
    """The p-values, corrected for how many there are, in their order (Holm 1979)."""
    corrected = [0.0] * len(values)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        highest = max(highest, min(1.0, (len(values) - rank) * values[index]))
        corrected[index] = highest
    return corrected


def macro(scores: Sequence[tuple[str, float | None]]) -> float | None:
    """The mean over tasks, given by name and score; None if one is missing.

    If all are GLUE's, WNLI is left out, as in Table 2 of Xu et al. 2020 (arXiv:2002.02925).
    """
    if all(task.startswith("glue/") for task, _ in scores):
        scores = [(task, value) for task, value in scores if task != "glue/wnli"]
    values = [value for _, value in scores]
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None


def expected_seconds(coming: list[tuple[int, str]], done: list[tuple[int, str, float]]) -> float | None:
    """The time for cells, given by task and label, by the mean of those done: of the same row, task, or all."""
    if not done:
        return None
    total = 0.0
    for task, label in coming:
        in_task = [(row, seconds) for place, row, seconds in done if place == task]
        row_times = [seconds for row, seconds in in_task if row == label]
        times = row_times or [seconds for _, seconds in in_task] or [seconds for *_, seconds in done]
        total += sum(times) / len(times)
    return total


def duration(seconds: float) -> str:
    """A time to wait, in words."""
    if seconds < 60:
        return "less than a minute"
    return f"about {seconds / 60:.0f} min" if seconds < 7200 else f"about {seconds / 3600:.1f} h"
