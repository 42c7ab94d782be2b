"""Batches of texts of like length, in an order that depends on the seed and the epoch alone."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import Sampler
from transformers import DataCollatorWithPadding

from plankwise.data.encode import Encoded

POOL = 50  # batches whose texts are sorted by length together: more means less padding and less chance


class LengthSampler(Sampler[int]):
    """Indices such that each run of `batch_size` has texts of like length; batches come in random order."""

    def __init__(self, lengths: list[int], batch_size: int, seed: int) -> None:
        self.lengths = torch.tensor(lengths)
        self.batch_size = batch_size
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        order = torch.randperm(len(self.lengths), generator=generator)
        full = len(order) - len(order) % self.batch_size
        batches: list[torch.Tensor] = []
        for pool in order[:full].split(POOL * self.batch_size):
            by_length = pool[self.lengths[pool].argsort(stable=True)]
            batches += by_length.split(self.batch_size)
        for index in torch.randperm(len(batches), generator=generator).tolist():
            yield from batches[index].tolist()
        yield from order[full:].tolist()


def without_labels(encoded: Encoded) -> Encoded:
    """The same texts alone."""
    kept = [name for name in encoded.dataset.column_names if name != "labels"]
    return Encoded(encoded.dataset.select_columns(kept), encoded.lengths, encoded.num_cut)


def sorted_batches(encoded: Encoded, tokenizer: Any, batch_size: int) -> Iterator[tuple[np.ndarray, Any]]:
    """Every text once, the longest first, padded to the longest of its batch: the rows' numbers, and the model's inputs."""
    texts = without_labels(encoded).dataset
    collate = DataCollatorWithPadding(tokenizer)
    order = np.argsort(encoded.lengths, kind="stable")[::-1]
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        columns = texts[rows.tolist()]
        yield rows, collate([dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)])
