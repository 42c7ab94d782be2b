"""Batches of texts of like length, in an order that depends on the seed and the epoch alone."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils.data import Sampler
from transformers import DataCollatorWithPadding

from plankwise.data.encode import Encoded, TextPairs, TokenSequences
from plankwise.data.masking import pad_sequences
from plankwise.data.sequences import frame_of

POOL = 50  # batches whose texts are sorted by length together: more means less padding and less chance


class LengthSampler(Sampler[int]):
    """Indices such that each run of `batch_size` has texts of like length; batches come in random order.

    So many neighbours as are `together`, by which `batch_size` is divided, stay neighbours, in their order.
    """

    def __init__(self, lengths: Sequence[int] | np.ndarray, batch_size: int, seed: int, together: int = 1) -> None:
        self.lengths = torch.from_numpy(np.array(lengths, dtype=np.int32))
        self.batch_size = batch_size
        self.seed = seed
        self.together = together
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        lengths, size = self.lengths.view(-1, self.together).amax(1), self.batch_size // self.together
        order = torch.randperm(len(lengths), generator=generator)
        full = len(order) - len(order) % size
        for pool in order[:full].split(POOL * size):
            pool.copy_(pool[lengths[pool].argsort(stable=True)])
        batches = order[:full].view(-1, size)
        for some in torch.randperm(len(batches), generator=generator).split(POOL):
            yield from self._rows(batches[some].flatten())
        yield from self._rows(order[full:])

    def _rows(self, groups: torch.Tensor) -> list[int]:
        return (groups[:, None] * self.together + torch.arange(self.together)).flatten().tolist()


def without_labels(encoded: Encoded) -> Encoded:
    """The same texts alone."""
    kept = [name for name in encoded.dataset.column_names if name != "labels"]
    return replace(encoded, dataset=encoded.dataset.select_columns(kept))


def sorted_batches(encoded: Encoded, tokenizer: Any, batch_size: int) -> Iterator[tuple[np.ndarray, Any]]:
    """Every text once, the longest first, padded to the longest of its batch: the rows' numbers, and the model's inputs."""
    texts = without_labels(encoded).dataset
    collate = plain_collator(encoded, tokenizer)
    order = np.argsort(encoded.lengths, kind="stable")[::-1]
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        yield rows, collate(examples_of(texts, rows.tolist()))


def plain_collator(encoded: Encoded, tokenizer: Any) -> Callable[[list[dict]], Any]:
    """Makes batches of texts as they are, padded; nothing is hidden."""
    if isinstance(encoded, TokenSequences):
        return partial(pad_sequences, tokenizer, frame_of(tokenizer))
    if isinstance(encoded, TextPairs):
        return partial(_pad_pairs, DataCollatorWithPadding(tokenizer), encoded.pad)
    return partial(_pad, DataCollatorWithPadding(tokenizer), encoded.zeros)


def _pad(collate: Callable[[list[dict]], Any], zeros: tuple[str, ...], examples: list[dict]) -> Any:
    """A padded batch, with the columns that were left out because they are 0 for every token."""
    if zeros:
        examples = [{**example, **{name: [0] * len(example["input_ids"]) for name in zeros}} for example in examples]
    return collate(examples)


def _pad_pairs(collate: Callable[[list[dict]], Any], pad: int, examples: list[dict]) -> Any:
    """A padded batch of texts, and of what the decoder reads, with a mask for either."""
    second = [torch.tensor(example["decoder_input_ids"]) for example in examples]
    batch = collate(
        [{name: value for name, value in example.items() if name != "decoder_input_ids"} for example in examples]
    )
    pad_rows = partial(torch.nn.utils.rnn.pad_sequence, batch_first=True)
    batch["decoder_input_ids"] = pad_rows(second, padding_value=pad)
    batch["decoder_attention_mask"] = pad_rows([torch.ones_like(ids) for ids in second])
    return batch


def examples_of(dataset: Any, rows: list[int]) -> list[dict]:
    """Some rows of a dataset, each as a mapping of its own."""
    columns = dataset[rows]
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
