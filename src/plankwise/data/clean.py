"""Takes out examples that teach nothing or teach the wrong thing: empty, contradicting, repeated."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class Dropped:
    """How many rows were taken out, and why."""

    empty: int  # a text, or one of a pair, is empty or white space
    contradicting: int  # the same text or pair occurs with different labels
    duplicates: int  # the same text or pair with the same label; the first is kept


def clean(table: pa.Table) -> tuple[pa.Table, Dropped]:
    """The rows worth keeping, in their order, and what was dropped.

    Texts are compared exactly; `table` has the columns `text`, perhaps `text_pair`, and `label`.
    """
    texts = [name for name in ("text", "text_pair") if name in table.column_names]
    filled = np.ones(table.num_rows, dtype=bool)
    for name in texts:
        length = pc.utf8_length(pc.utf8_trim_whitespace(table[name]))
        filled &= pc.greater(pc.fill_null(length, 0), 0).to_numpy()
    rest = table.filter(pa.array(filled))
    if rest.num_rows == 0:
        return rest, Dropped(table.num_rows, 0, 0)

    labels = rest["label"].to_numpy()
    _, first, group = np.unique(_codes(rest, texts), return_index=True, return_inverse=True)
    contradicting = np.zeros(len(first), dtype=bool)
    contradicting[group[labels != labels[first][group]]] = True
    wrong = contradicting[group]
    repeated = ~wrong & (first[group] != np.arange(len(group)))
    kept = rest.filter(pa.array(~wrong & ~repeated))
    return kept, Dropped(table.num_rows - rest.num_rows, int(wrong.sum()), int(repeated.sum()))


def _codes(table: pa.Table, texts: list[str]) -> np.ndarray:
    """One number per distinct text or pair."""
    codes = np.zeros(table.num_rows, dtype=np.int64)
    for name in texts:
        # one dictionary for all chunks; 64-bit offsets, for in a large table it may pass 2 GB
        encoded = table[name].cast(pa.large_string()).dictionary_encode()
        indices = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])
        codes = codes * len(encoded.chunk(0).dictionary) + indices
    return codes
