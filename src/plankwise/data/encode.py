"""Texts to token ids: cut to the length that is asked for, never padded here."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset

CHUNK = 2_000  # texts tokenised at once
ROW = "row"  # the key of an example's place among all


@dataclass(frozen=True)
class Encoded:
    """Token ids with their lengths; `labels` among the columns where the table had a label."""

    dataset: Dataset
    lengths: list[int]
    num_cut: int  # texts longer than max_length, which lost their end


@dataclass(frozen=True)
class Blocks(Encoded):
    """Blocks of tokens without the special ones, as `data.blocks` writes them; what makes batches adds those."""


def encode(table: pa.Table, tokenizer: Any, max_length: int) -> Encoded:
    """The table's texts (and pairs) as token ids, row by row, at most `max_length` of them."""
    chunks, num_cut = [], 0
    for start in range(0, table.num_rows, CHUNK):
        rows = table.slice(start, CHUNK)
        texts = [rows[name].to_pylist() for name in ("text", "text_pair") if name in rows.column_names]
        encoding = tokenizer(*texts, truncation=True, max_length=max_length)
        num_cut += sum(bool(item.overflowing) for item in encoding.encodings or ())
        columns = {name: pa.array(values, pa.list_(pa.int32())) for name, values in encoding.items()}
        if "label" in rows.column_names:
            columns["labels"] = rows["label"].combine_chunks()
        chunks.append(pa.table(columns))
    encoded = pa.concat_tables(chunks)
    lengths = pc.list_value_length(encoded["input_ids"]).to_pylist()
    return Encoded(Dataset(encoded), lengths, num_cut)
