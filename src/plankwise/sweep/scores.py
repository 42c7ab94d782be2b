"""Which score chooses among trials, and which is reported: never the same examples, where there are others.

With `evaluation.choose_on = "train"` the examples that were kept out of training choose, and dev reports. With "dev" one fixed half
of dev chooses (`evaluation.held_back`) and the other reports; both had a part in choosing each trial's best weights.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plankwise.config import RunConfig
from plankwise.evaluation.held_back import HALVES

CHOOSES, REPORTS = (f"eval_{half}" for half in HALVES)
WHOLE = "eval_score"


@dataclass(frozen=True)
class Choice:
    """A trial's two scores; `reported` is None if no other examples are there than those that choose."""

    chosen: float
    reported: float | None


def choosing_score(metrics: Mapping[str, float], config: RunConfig) -> float:
    """What one evaluation in training says of a trial."""
    by_halves = config.evaluation.choose_on == "dev" and CHOOSES in metrics
    return float(metrics[CHOOSES if by_halves else WHOLE])


def tell_choice(record: Mapping[str, Any]) -> Choice:
    """What a finished trial's record says: of the evaluation whose weights were kept, or of the whole of dev if there was none."""
    score = float(record["successor"]["score"])
    stage = list(record["stages"].values())[-1] if record["stages"] else {"history": []}
    kept = [entry for entry in stage["history"] if WHOLE in entry and entry["step"] == stage["best_step"]]
    if not kept:
        return Choice(score, None)
    if record["config"]["evaluation"]["choose_on"] == "train":
        return Choice(float(kept[-1][WHOLE]), score)
    if CHOOSES not in kept[-1]:
        return Choice(score, None)
    return Choice(float(kept[-1][CHOOSES]), float(kept[-1][REPORTS]))
