"""What several seeds say: summaries, a paired test over dev examples, Holm's correction, the mean over tasks, the time left.

The test is approximate randomisation: were two rows alike, their outputs on any one dev example could be exchanged.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np

from plankwise.task_kinds import Answers, Task

OURS = "replacing"
ALPHA = 0.05
ROUNDS = 2000
SEED = 20200207  # fixed, so that the same cells give the same p
TOLERANCE = 1e-12  # two ways of adding up the same counts differ by less
CHUNK = 4_000_000  # swaps held at once


@dataclass(frozen=True)
class Summary:
    """One row over its seeds."""

    median: float
    spread: float  # highest less lowest
    best: float
    retained: float | None  # the median's share of the predecessor's score
    seconds: float | None  # mean; None for a predecessor that was given


def summarise(scores: Sequence[float], seconds: Sequence[float], retained: Callable[[float], float | None]) -> Summary:
    """At least one seed's scores and training times; `retained` says which share of the predecessor's score a score is."""
    middle = median(scores)
    return Summary(middle, max(scores) - min(scores), max(scores), retained(middle), fmean(seconds))


def choose_baselines(
    medians: Mapping[str, float], methods: Mapping[str, str], learnt: Collection[str] | None = None
) -> list[str]:
    """The rows with the highest median among those of other methods than replacing; among all if there is none.

    Several if they tie. Rows that have not `learnt` the task are left out, unless all are such.
    """
    known = [label for label in medians if learnt is None or label in learnt] or list(medians)
    candidates = [label for label in known if methods[label] != OURS] or known
    highest = max((medians[label] for label in candidates), default=0.0)
    return [label for label in candidates if medians[label] >= highest - TOLERANCE]


def rank(medians: Mapping[str, float]) -> dict[str, int]:
    """Each row's place by its median, from 1; equals share a place, and as many places after it are left out."""
    return {label: 1 + sum(other > own + TOLERANCE for other in medians.values()) for label, own in medians.items()}


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


def compare_with_baseline(
    task: Task, outputs: Mapping[str, Mapping[int, Answers]], baseline: str, *, rounds: int = ROUNDS
) -> dict[str, Comparison]:
    """Every row against the baseline, Holm-corrected; `outputs` are by label and seed. No common seed, no comparison."""
    found = {}
    for label in outputs:
        seeds = sorted(outputs[label].keys() & outputs[baseline].keys())
        if label != baseline and seeds:
            first, second = ([outputs[row][seed] for seed in seeds] for row in (label, baseline))
            if all(first) and all(second):
                found[label] = paired_test(task, first, second, rounds=rounds)
    corrected = holm([p for _, p in found.values()])
    return {
        label: Comparison(baseline, difference, p)
        for (label, (difference, _)), p in zip(found.items(), corrected, strict=True)
    }


def paired_test(
    task: Task, first: Sequence[Answers], second: Sequence[Answers], *, rounds: int = ROUNDS
) -> tuple[float, float]:
    """The mean difference of the task's score over the seeds, first less second, and its two-sided p.

    A dev example is exchanged in all seeds or in none.
    """
    rng = np.random.default_rng(SEED)
    sizes = {name: len(values) for name, values in first[0].items()}
    nothing = {name: np.zeros((1, size), dtype=bool) for name, size in sizes.items()}
    observed = float(task.differences(first, second, nothing)[0])
    at_once = max(1, CHUNK // sum(sizes.values()))
    count = 0
    for start in range(0, rounds, at_once):
        shape = min(at_once, rounds - start)
        masks = {name: rng.random((shape, size)) < 0.5 for name, size in sizes.items()}
        count += int((np.abs(task.differences(first, second, masks)) >= abs(observed) - TOLERANCE).sum())
    return observed, (1 + count) / (1 + rounds)


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
