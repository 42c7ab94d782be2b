"""How one tokenizer's ids become Arrow lists, chunk by chunk, and what names them in the cache.

A tokenizer of the `tokenizers` library is called from several Python threads, since it releases the lock of Python while it
works. That is as fast as its own threads, leaves no thread pool that would be unsafe to fork, and ids are copied meanwhile.
"""

import hashlib
import itertools
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import tokenizers
from transformers import PreTrainedTokenizerFast

from plankwise.data._words import find_words
from plankwise.data.mapped import in_batches

CUT = "cut"  # the column that says whether a text lost its end
FORMAT = 1  # of the files in the cache; a change here makes older ones useless
OWN = ("__call__", "_encode_plus", "_convert_encoding", "set_truncation_and_padding", "pad", "_pad")
IDS = pa.list_(pa.int32())


class Encoder(ABC):
    """Encodes chunks of a table, always in the same columns."""

    threads = 1  # that may encode at once
    by_words = False  # tokenises each word of a chunk once, so larger chunks are faster
    zeros: tuple[str, ...] = ()  # columns left out, 0 for every token

    @abstractmethod
    def encode(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The columns that the tokenizer gives, CUT, and `labels` if the rows have a label."""

    def state(self) -> bytes | None:
        """What decides the ids of a text; None if that is not known, so that they cannot be kept for a later run."""
        return None


def encoder_of(tokenizer: Any, max_length: int, *, pairs: bool, many: bool) -> Encoder:
    """The fastest way to the ids of `tokenizer(texts, truncation=True, max_length=max_length)`.

    For `many` texts it is worth the time to find out whether the tokenizer works word by word.
    """
    kind = type(tokenizer)
    plain = isinstance(tokenizer, PreTrainedTokenizerFast) and all(
        getattr(kind, name) is getattr(PreTrainedTokenizerFast, name) for name in OWN
    )
    return _Rust(tokenizer, max_length, pairs=pairs, many=many) if plain else _Any(tokenizer, max_length)


class _Any(Encoder):
    """Through the tokenizer's own call."""

    def __init__(self, tokenizer: Any, max_length: int) -> None:
        self.tokenizer = tokenizer
        self.max_length = max_length

    def encode(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        encoding = self.tokenizer(*_texts(rows), truncation=True, max_length=self.max_length)
        columns = {name: pa.array(values, IDS) for name, values in encoding.items()}
        cut = [bool(item.overflowing) for item in encoding.encodings or ()] or [False] * len(rows)
        return pa.record_batch({**columns, CUT: pa.array(cut), **_labels(rows)})


class _Rust(Encoder):
    """Directly by the Rust backend: the tokenizer's own call would make three lists of Python numbers for each text."""

    def __init__(self, tokenizer: Any, max_length: int, *, pairs: bool, many: bool) -> None:
        probe = tokenizer(*(["a"],) * (1 + pairs), truncation=True, max_length=max_length)  # also sets the backend up
        self.backend = tokenizer.backend_tokenizer
        self.threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        types = "token_type_ids" in probe
        # A text's own tokens and the special ones each have one type in all texts, so this one shows them all.
        if types and not pairs and 0 in probe.encodings[0].sequence_ids and not any(probe["token_type_ids"][0]):
            self.zeros = ("token_type_ids",)
        self.with_types = types and not self.zeros
        words = find_words(self.backend, max_length, probe.encodings[0]) if many and not pairs else None
        self.words = None if self.with_types else words
        self.by_words = self.words is not None
        self.names = [type(tokenizer).__name__, *tokenizer.model_input_names]

    def state(self) -> bytes:
        settings = [FORMAT, tokenizers.__version__, *self.names, self.backend.encode_special_tokens, self.zeros]
        return f"{json.dumps(settings)} {self.backend.to_str()}".encode()

    def encode(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if self.words:
            ids, cut = self.words.encode(rows["text"])
            return pa.record_batch({"input_ids": ids, CUT: pa.array(cut), **_labels(rows)})
        texts = _texts(rows)
        encodings = self.backend.encode_batch(list(zip(*texts, strict=True)) if len(texts) > 1 else texts[0])
        columns = {"input_ids": _lists([item.ids for item in encodings])}
        if self.with_types:
            columns["token_type_ids"] = _lists([item.type_ids for item in encodings])
        cut = np.fromiter((bool(item.overflowing) for item in encodings), bool, len(encodings))
        return pa.record_batch({**columns, CUT: pa.array(cut), **_labels(rows)})


def _texts(rows: pa.RecordBatch) -> list[list[str]]:
    return [rows[name].to_pylist() for name in ("text", "text_pair") if name in rows.schema.names]


def _labels(rows: pa.RecordBatch) -> dict[str, pa.Array]:
    return {"labels": rows["label"]} if "label" in rows.schema.names else {}


def _lists(values: Sequence[list[int]]) -> pa.ListArray:
    offsets = np.zeros(len(values) + 1, dtype=np.int32)
    np.cumsum(np.fromiter(map(len, values), np.int32, len(values)), out=offsets[1:])
    flat = np.fromiter(itertools.chain.from_iterable(values), np.int32, int(offsets[-1]))
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(flat))


def hash_table(table: pa.Table, state: bytes) -> str:
    """A name for the table's texts and labels and the state; how the table is divided into chunks does not matter."""
    names = [name for name in ("text", "text_pair", "label") if name in table.column_names]
    hashes = {name: (hashlib.blake2b(), hashlib.blake2b()) for name in names}
    for _, batch in in_batches(table):
        for name, (lengths, content) in hashes.items():
            if name == "label":
                content.update(batch[name].to_numpy(zero_copy_only=False).tobytes())
                continue
            texts = batch[name].cast(pa.large_string())
            _, offsets, values = texts.buffers()
            bounds = np.frombuffer(offsets, np.int64, len(texts) + 1, 8 * texts.offset)
            lengths.update(np.diff(bounds).tobytes())
            content.update(memoryview(values or b"")[bounds[0] : bounds[-1]])
    whole = hashlib.blake2b(state, digest_size=16)
    for name, parts in hashes.items():
        whole.update(f"{name} {table.schema.field(name).type}".encode())
        for part in parts:
            whole.update(part.digest())
    return whole.hexdigest()
