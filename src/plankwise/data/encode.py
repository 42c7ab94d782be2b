"""Texts to token ids: cut to the length that is asked for, never padded here.

A large table is tokenised once: its ids go to a file of the cache, from which this run and later ones map them.
"""

import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset

from plankwise.data._tokens import CUT, Encoder, encoder_of, hash_table
from plankwise.data.mapped import cache_folder, explain_cache, gather, in_batches
from plankwise.files import whole_file

CHUNK = 2_000  # texts tokenised together
WORD_CHUNK = 16_384  # the same where each different word is tokenised once, if texts are short
WORD_CHUNK_BYTES = 4 << 20
ROW = "row"  # the key of an example's place among all
MANY_ROWS = 10_000  # from here on it is worth finding out whether the tokenizer works word by word
CACHED_ROWS = 100_000  # a table of at least as many rows is encoded into the cache
BATCH_TOKENS = 1 << 18  # written at once, so that the file has few batches


@dataclass(frozen=True)
class Encoded:
    """Token ids with their lengths; `labels` among the columns where the table had a label."""

    dataset: Dataset
    lengths: np.ndarray  # int32
    num_cut: int  # texts longer than max_length, which lost their end
    zeros: tuple[str, ...] = ()  # columns that are 0 for every token, left out; what makes batches puts them in
    together: int = 1  # neighbouring rows that a batch has all of, in their order: those that a loss compares

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengths", np.asarray(self.lengths, dtype=np.int32))

    def take(self, rows: np.ndarray | range) -> Self:
        """The texts of some rows, in their order."""
        return replace(self, dataset=self.dataset.select(rows), lengths=self.lengths[list(rows)])


@dataclass(frozen=True)
class TokenSequences(Encoded):
    """Sequences of tokens without the special ones, as `data.sequences` writes them; what makes batches adds those."""


@dataclass(frozen=True)
class TextPairs(Encoded):
    """Texts to read with texts to write, whose `decoder_input_ids` are padded with a token of their own."""

    pad: int = 0


def encode(
    table: pa.Table, tokenizer: Any, max_length: int, progress: Callable[[int], None] = lambda rows: None
) -> Encoded:
    """The table's texts (and pairs) as token ids, row by row, at most `max_length` of them.

    An attention mask that is 1 throughout is left out, since padding makes it, and so are the `zeros`. `progress` gets the
    number of new rows now and then.

    Raises:
        RunError: the table is large, and the cache cannot be written.
    """
    num_rows, pairs = table.num_rows, "text_pair" in table.column_names
    encoder = encoder_of(tokenizer, max_length, pairs=pairs, many=num_rows >= MANY_ROWS)
    state = encoder.state() if num_rows >= CACHED_ROWS else None
    if state is None:
        batches = _encode_chunks(table, encoder, progress)
        first = next(batches)
        dataset = Dataset(gather(_prepend(first, batches), first.schema), fingerprint=uuid.uuid4().hex)
    else:
        file = cache_folder() / f"tokens-{hash_table(table, state)}.arrow"
        if not file.exists():
            with explain_cache(), whole_file(file) as part:
                _write(part, _encode_chunks(table, encoder, progress))
        dataset = Dataset.from_file(str(file))
    num_cut = pc.sum(dataset.data[CUT]).as_py()
    lengths = pc.list_value_length(dataset.data["input_ids"]).to_numpy()
    return Encoded(dataset.remove_columns(CUT), lengths, num_cut, encoder.zeros)


def _encode_chunks(table: pa.Table, encoder: Encoder, progress: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
    """The encoded rows in their order; a few chunks are under way at a time."""
    waiting: deque[Future[pa.RecordBatch]] = deque()
    rows = CHUNK
    if encoder.by_words:
        rows = min(WORD_CHUNK, max(CHUNK, WORD_CHUNK_BYTES * table.num_rows // table.nbytes))
    with ThreadPoolExecutor(encoder.threads) as pool:
        for _, chunk in in_batches(table, rows):
            waiting.append(pool.submit(encoder.encode, chunk))
            if len(waiting) > 2 * encoder.threads:
                done = waiting.popleft().result()
                progress(done.num_rows)
                yield done
        while waiting:
            done = waiting.popleft().result()
            progress(done.num_rows)
            yield done


def _prepend(first: pa.RecordBatch, rest: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _write(path: Path, batches: Iterator[pa.RecordBatch]) -> None:
    first = next(batches)
    waiting, size = [first], len(first["input_ids"].values)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, first.schema) as writer:
        for batch in batches:
            if size >= BATCH_TOKENS:
                writer.write_batch(pa.concat_batches(waiting))
                waiting, size = [], 0
            waiting.append(batch)
            size += len(batch["input_ids"].values)
        writer.write_batch(pa.concat_batches(waiting))
