"""How many times faster one model is than another: the median of paired ratios, its interval, and what arithmetic allows.

Two models predict the same batch right after each other; the ratio of the two times is one round. Load that falls on both leaves
the ratio as it is, and load that falls on one of them makes an outlier, which moves a median little and a ratio of means a lot.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

LEVEL = 0.95  # of the interval
RESAMPLES = 1000
NARROW = 0.05  # a steady interval reaches no further than this share of the median to each side
FEWEST = 6  # rounds: of fewer, all lie on one side of the true median in more than 5 % of cases


@dataclass(frozen=True)
class Speedup:
    """How many times faster: the figure, its 95 % interval, and whether that is narrow enough to rely on."""

    median: float
    low: float
    high: float
    steady: bool

    def to_json(self) -> dict:
        return asdict(self)


SAME = Speedup(1.0, 1.0, 1.0, steady=True)  # a model against itself


def compare_times(before: Sequence[float], after: Sequence[float]) -> Speedup:
    """The speed-up from the times of two models, round by round; the interval is a percentile bootstrap over the rounds."""
    ratios = np.asarray(before, dtype=float) / np.asarray(after, dtype=float)
    random = np.random.default_rng(0)
    medians = [np.median(random.choice(ratios, len(ratios))) for _ in range(RESAMPLES)]
    low, high = np.quantile(medians, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    median = float(np.median(ratios))
    steady = len(ratios) >= FEWEST and (high - low) / 2 < NARROW * median
    return Speedup(median, float(low), float(high), bool(steady))


def limit_to(bound: float | None, measured: Speedup) -> Speedup:
    """What may be shown of a measurement: the bound itself where the whole interval lies above it."""
    if bound is None or measured.low <= bound:
        return measured
    return Speedup(bound, bound, bound, measured.steady)
