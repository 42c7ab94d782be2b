"""The batches of a stage: the same examples in the same optimiser step, however many ranks and micro-batches share the work."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from plankwise.data.batch import LengthSampler, examples_of
from plankwise.data.encode import ROW


class StepBatches(Sampler[list[int]]):
    """One rank's micro-batches: each optimiser step takes `batch_size` examples a rank, in `accumulation` parts.

    A step's examples depend on the seed, the epoch and the size of the whole step alone. They are dealt out evenly, those that are
    `together` to one part; a part may be empty at the end of an epoch, so that every rank has as many.
    """

    def __init__(
        self,
        lengths: Sequence[int] | np.ndarray,
        *,
        batch_size: int,
        accumulation: int,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
        together: int = 1,
    ) -> None:
        self.step_size = batch_size * world_size
        self.accumulation = accumulation
        self.rank = rank
        self.world_size = world_size
        self.order = LengthSampler(lengths, self.step_size, seed, together)

    @property
    def epoch(self) -> int:
        return self.order.epoch

    def set_epoch(self, epoch: int) -> None:
        self.order.set_epoch(epoch)

    @property
    def num_steps(self) -> int:
        """Optimiser steps in an epoch."""
        return math.ceil(len(self.order) / self.step_size)

    def __len__(self) -> int:
        return self.num_steps * self.accumulation

    def __iter__(self) -> Iterator[list[int]]:
        step: list[int] = []
        for row in self.order:
            step.append(row)
            if len(step) == self.step_size:
                yield from self._parts(step)
                step = []
        if step:
            yield from self._parts(step)

    def _parts(self, step: list[int]) -> Iterator[list[int]]:
        count, together = self.accumulation * self.world_size, self.order.together
        bounds = [len(step) // together * part // count * together for part in range(count + 1)]
        for micro in range(self.accumulation):
            part = micro * self.world_size + self.rank
            yield step[bounds[part] : bounds[part + 1]]


class NumberedRows(Dataset):
    """A dataset whose examples know their place in it."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, row: int) -> dict:
        return {**self.dataset[row], ROW: row}

    def __getitems__(self, rows: list[int]) -> list[dict]:
        if not rows:
            return []
        return [{**example, ROW: row} for example, row in zip(examples_of(self.dataset, rows), rows, strict=True)]


class BatchLoader(DataLoader):
    """A stage's batches, each with the numbers of its rows; an empty part is an empty batch."""

    def __init__(self, dataset: Any, batches: StepBatches, collate: Callable[[list[dict]], Any]) -> None:
        def collate_rows(examples: list[dict]) -> Any:
            if not examples:
                return {}
            batch = collate(examples)
            if ROW not in batch:
                batch[ROW] = torch.tensor([example[ROW] for example in examples])
            return batch

        # A generator of its own: torch would draw a seed for workers from the global random state at each epoch.
        super().__init__(
            NumberedRows(dataset), batch_sampler=batches, collate_fn=collate_rows, generator=torch.Generator()
        )

    def set_epoch(self, epoch: int) -> None:
        self.batch_sampler.set_epoch(epoch)  # type: ignore[union-attr]
