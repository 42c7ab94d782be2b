"""Finds examples that teach nothing or teach the wrong thing: empty, contradicting, repeated, or in dev too.

Rows that may be alike are found by 64-bit hashes, then their texts are compared: a table may be larger than memory.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plankwise.data.mapped import in_batches

COMPARED_BYTES = 256 << 20  # texts that are compared at once, about
HASHED_BYTES = 1 << 18  # texts that are hashed at once; of a longer one, this beginning
STEP_ROWS = 1 << 20  # hashes that are looked up at once
MULTIPLIER = 0x9E3779B97F4A7C15  # odd, so it has an inverse modulo 2⁶⁴


@dataclass(frozen=True)
class Dropped:
    """How many rows were taken out, and why."""

    empty: int  # a text, or one of a pair, is empty or white space
    contradicting: int  # the same text or pair occurs with different labels
    duplicates: int  # the same text or pair with the same label; the first is kept
    overlap: int = 0  # of train: the same text or pair is in a dev set, with any label


def clean(table: pa.Table) -> tuple[np.ndarray, Dropped]:
    """Which rows are worth keeping (N,), and what is to be dropped.

    Texts are compared exactly; `table` has the columns `text`, `label` and, for pairs, `text_pair`.
    """
    texts = _text_columns(table)
    kept, hashes = _look_through(table, texts)
    empty = len(kept) - int(kept.sum())
    contradicting = duplicates = 0
    for rows in _alike(table, kept, hashes):
        wrong, repeated = _compare(_take(table, rows), texts)
        kept[rows[wrong | repeated]] = False
        contradicting += int(wrong.sum())
        duplicates += int(repeated.sum())
    return kept, Dropped(empty, contradicting, duplicates)


def find_shared(table: pa.Table, kept: np.ndarray, others: Sequence[tuple[pa.Table, np.ndarray]]) -> np.ndarray:
    """Which rows (N,), of those that are kept, have a text or pair that is also in a kept row of another table."""
    texts = _text_columns(table)
    shared = np.zeros(table.num_rows, dtype=bool)
    hashes = _look_through(table, texts)[1]
    theirs = [_look_through(other, texts)[1] for other, _ in others]
    known = np.unique(np.concatenate([found[mask] for found, (_, mask) in zip(theirs, others, strict=True)]))
    rows = _rows_with(hashes, kept, known)
    wanted = np.unique(hashes[rows])
    their_rows = [_rows_with(found, mask, wanted) for found, (_, mask) in zip(theirs, others, strict=True)]
    tables = [table, *(other for other, _ in others)]
    chosen = list(zip(tables, [hashes, *theirs], [rows, *their_rows], strict=True))
    num_portions = _count_portions((one, len(some)) for one, _, some in chosen)
    for number in range(num_portions):
        portions = [
            (one, some[found[some] % np.uint64(num_portions) == np.uint64(number)]) for one, found, some in chosen
        ]
        ours = portions[0][1]
        if len(ours):
            taken = [_take(one, some).select(texts) for one, some in portions]
            codes = _codes(pa.concat_tables(taken, promote_options="permissive"), texts)
            shared[ours] = np.isin(codes[: len(ours)], codes[len(ours) :])
    return shared


def _text_columns(table: pa.Table) -> list[str]:
    return [name for name in ("text", "text_pair") if name in table.column_names]


def _look_through(table: pa.Table, names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Whether each row's texts are all filled, and a hash of them."""
    filled = np.ones(table.num_rows, dtype=bool)
    hashes = np.zeros(table.num_rows, dtype=np.uint64)
    for start, batch in in_batches(table):
        place = slice(start, start + len(batch))
        for name in names:
            texts = pc.fill_null(batch[name], "").cast(pa.large_string())
            size = pc.binary_length(pc.utf8_trim_whitespace(texts)).to_numpy()
            filled[place] &= size > 0
            hashes[place] = _mix(hashes[place] + _hash(texts))
    return filled, hashes


def _hash(texts: pa.Array) -> np.ndarray:
    """A number for each text that depends on its first HASHED_BYTES alone."""
    _, offsets, values = texts.buffers()
    bounds = np.frombuffer(offsets, np.int64, len(texts) + 1, 8 * texts.offset)
    found = np.zeros(len(texts), dtype=np.uint64)
    first = 0
    while first < len(texts) and bounds[first] < bounds[-1]:
        last = max(first + 1, int(np.searchsorted(bounds, bounds[first] + HASHED_BYTES, side="right")) - 1)
        part = np.minimum(bounds[first : last + 1] - bounds[first], HASHED_BYTES)
        found[first:last] = _hash_bytes(np.frombuffer(values, np.uint8, int(part[-1]), int(bounds[first])), part)
        first = last
    return found


def _hash_bytes(values: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Σ (byte + 1) MULTIPLIERⁱ modulo 2⁶⁴ over the bytes between two bounds each, by differences of running sums."""
    up, down = _powers(HASHED_BYTES)
    sums = np.zeros(len(values) + 1, dtype=np.uint64)
    np.cumsum((values + np.uint64(1)) * up[: len(values)], out=sums[1:])
    return (sums[bounds[1:]] - sums[bounds[:-1]]) * down[bounds[:-1]]


@cache
def _powers(most: int) -> np.ndarray:
    """The powers of MULTIPLIER, and those of its inverse, modulo 2⁶⁴, from 0 to `most`."""
    bases = np.array([[MULTIPLIER], [pow(MULTIPLIER, -1, 1 << 64)]], dtype=np.uint64)
    factors = np.repeat(bases, most + 1, axis=1)
    factors[:, 0] = 1
    return np.cumprod(factors, axis=1)


def _mix(hashes: np.ndarray) -> np.ndarray:
    """Spreads what differs over all bits; different numbers stay different."""
    mixed = (hashes ^ (hashes >> np.uint64(32))) * np.uint64(MULTIPLIER)
    return mixed ^ (mixed >> np.uint64(29))


def _alike(table: pa.Table, kept: np.ndarray, hashes: np.ndarray) -> Iterator[np.ndarray]:
    """The numbers of kept rows whose hash others have too, in order; equal hashes are in the same of a few portions."""
    ordered = np.sort(hashes[kept])
    shared = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    del ordered
    rows = _rows_with(hashes, kept, shared)
    num_portions = _count_portions([(table, len(rows))])
    for number in range(num_portions):
        yield rows[hashes[rows] % np.uint64(num_portions) == np.uint64(number)]


def _rows_with(hashes: np.ndarray, kept: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The numbers of kept rows that have one of the wanted hashes, which are sorted."""
    found = [np.zeros(0, dtype=np.int64)]
    for start in range(0, len(hashes) if len(wanted) else 0, STEP_ROWS):
        step = hashes[start : start + STEP_ROWS]
        known = wanted[np.minimum(np.searchsorted(wanted, step), len(wanted) - 1)] == step
        found.append(start + np.flatnonzero(known & kept[start : start + STEP_ROWS]))
    return np.concatenate(found)


def _count_portions(chosen: Iterable[tuple[pa.Table, int]]) -> int:
    """Into how many parts rows, so many of each table, are divided so that one part fits into memory; 0 for no rows."""
    size = sum(count * table.nbytes / table.num_rows for table, count in chosen if count)
    return math.ceil(size / COMPARED_BYTES)


def _take(table: pa.Table, rows: np.ndarray) -> pa.Table:
    """The rows, whose numbers rise; batches without any of them are passed over."""
    wanted = np.zeros(table.num_rows, dtype=bool)
    wanted[rows] = True
    parts = ((batch, wanted[start : start + len(batch)]) for start, batch in in_batches(table))
    return pa.Table.from_batches([batch.filter(pa.array(mask)) for batch, mask in parts if mask.any()], table.schema)


def _compare(table: pa.Table, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """For each row whether its text or pair occurs with another label, and if not, whether it occurs before."""
    if table.num_rows == 0:
        return np.zeros(0, dtype=bool), np.zeros(0, dtype=bool)
    labels = table["label"].to_numpy()
    _, first, group = np.unique(_codes(table, texts), return_index=True, return_inverse=True)
    contradicting = np.zeros(len(first), dtype=bool)
    contradicting[group[labels != labels[first][group]]] = True
    wrong = contradicting[group]
    return wrong, ~wrong & (first[group] != np.arange(len(group)))


def _codes(table: pa.Table, texts: list[str]) -> np.ndarray:
    """One number per distinct text or pair."""
    codes = np.zeros(table.num_rows, dtype=np.int64)
    for name in texts:
        # one dictionary for all chunks; 64-bit offsets, for in a large table it may pass 2 GB
        encoded = pc.fill_null(table[name], "").cast(pa.large_string()).dictionary_encode()
        indices = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])
        codes = codes * len(encoded.chunk(0).dictionary) + indices
    return codes
