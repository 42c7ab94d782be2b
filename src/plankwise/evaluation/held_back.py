"""What dev says that did not choose: two fixed halves of it, each of which judges the evaluation that the other would have chosen.

A stage keeps the weights with the highest score of all its evaluations, so that this score is optimistic: it was chosen for being
high. The halves are scored at every evaluation beside the whole, from the same outputs.
"""

from collections.abc import Mapping, Sequence

import numpy as np

HALVES = ("score_half_1", "score_half_2")  # keys beside `score` among the metrics of an evaluation
SEED = 20200207  # fixed, so that dev is divided alike in every run; not by turns, since labels may take turns too


def first_half(count: int) -> np.ndarray:
    """Which of so many examples are in the first half, (N,) bool."""
    half = np.zeros(count, dtype=bool)
    half[np.random.default_rng(SEED).permutation(count)[: (count + 1) // 2]] = True
    return half


def judge(evaluations: Sequence[Mapping[str, float]], prefix: str = "") -> dict | None:
    """`score`: the mean of both halves' scores at the evaluation that the other half puts first; `chosen_among`: of how many.

    None if there was nothing to choose from, or the halves were not scored. Of equals the earliest is chosen, as a stage does.
    """
    keys = [f"{prefix}{name}" for name in HALVES]
    if len(evaluations) < 2 or not all(key in one for one in evaluations for key in keys):
        return None
    first, second = ([one[key] for one in evaluations] for key in keys)
    judged = (second[int(np.argmax(first))] + first[int(np.argmax(second))]) / 2
    return {"score": float(judged), "chosen_among": len(evaluations)}
