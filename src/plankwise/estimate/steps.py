"""Which texts each step of a stage is trained on, known before it is."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from plankwise.data.batch import LengthSampler
from plankwise.estimate.counting import Count

MOST_STEPS = 1000  # of a stage that are looked at one by one; of more, so many that lie evenly
MOST_ROWS = 200_000  # texts whose order is worked out; of more, every so-manieth stands for its neighbours


class Steps:
    """The batches of a stage's steps, as its sampler gives them."""

    def __init__(self, lengths: Any, *, num_steps: int, batch_size: int, micro_batch: int, seed: int) -> None:
        self.rows, self.lengths = thinned(lengths)
        self.num_steps = num_steps
        self.micro_batch = micro_batch
        self.accumulation = math.ceil(batch_size / micro_batch)
        self.sampler = LengthSampler(self.lengths, batch_size, seed)  # type: ignore[arg-type]
        self.orders: dict[int, np.ndarray] = {}

    @property
    def numbers(self) -> np.ndarray:
        """The steps that stand for all."""
        return np.unique(np.linspace(0, self.num_steps - 1, min(self.num_steps, MOST_STEPS)).astype(int))

    def batches(self, step: int) -> Iterator[tuple[np.ndarray, int]]:
        """The rows of a step's micro-batches, and the longest text in each."""
        per_epoch = math.ceil(math.ceil(len(self.rows) / self.micro_batch) / self.accumulation)
        epoch, place = divmod(step, per_epoch)
        order = self._order(epoch % max(1, MOST_ROWS // len(self.rows)))
        first = place * self.accumulation
        for number in range(first, first + self.accumulation):
            chosen = order[number * self.micro_batch : (number + 1) * self.micro_batch]
            if len(chosen):
                yield self.rows[chosen], int(self.lengths[chosen].max())

    def cost(self, step: int, count: Count, beside: int) -> float:
        """A step's multiply-adds where a text takes `count`; `beside`: special tokens that its length does not hold."""
        return sum(count.of(len(rows), longest + beside) for rows, longest in self.batches(step))

    def _order(self, epoch: int) -> np.ndarray:
        if epoch not in self.orders:
            self.sampler.set_epoch(epoch)
            self.orders[epoch] = np.fromiter(self.sampler, np.int64, len(self.rows))
        return self.orders[epoch]


class Pass:
    """Every text once, in batches of like length, the longest first."""

    def __init__(self, lengths: Any, batch_size: int) -> None:
        rows, few = thinned(lengths)
        order = np.argsort(few, kind="stable")[::-1]
        self.batches = [rows[order[start : start + batch_size]] for start in range(0, len(order), batch_size)]
        self.longest = few[order[::batch_size]]
        self.share = len(rows) / len(lengths)

    def costs(self, count: Count, beside: int) -> np.ndarray:
        """Each batch's multiply-adds."""
        return count.of(np.array([len(rows) for rows in self.batches]), self.longest.astype(float) + beside)

    def total(self, count: Count, beside: int) -> float:
        """Those of the whole pass, texts that were left out included."""
        return float(self.costs(count, beside).sum()) / self.share


def thinned(lengths: Any) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of rows that stand for all, and their lengths."""
    lengths = np.asarray(lengths)
    rows = np.arange(0, len(lengths), math.ceil(len(lengths) / MOST_ROWS))
    return rows, lengths[rows]
