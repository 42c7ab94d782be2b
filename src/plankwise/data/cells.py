"""Every column of a table file as text, row by row, as it is copied beside predictions; only a few rows are in memory."""

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import pyarrow.parquet

from plankwise.data.formats import explained, read_names
from plankwise.data.mapped import BATCH_ROWS
from plankwise.data.pieces import Piece, json_lines, records

RISKY = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet runs a cell that begins so as a formula
NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


def read_columns(piece: Piece) -> list[str]:
    """The names of all columns in their order; of jsonl those of all lines, in the order in which they first occur.

    Raises:
        DataError: the file cannot be read.
    """
    if piece.form != "jsonl":
        return read_names(piece)
    with explained(piece):
        return list(dict.fromkeys(name for _, row in json_lines(piece) for name in row))


def read_cells(piece: Piece, columns: list[str]) -> Iterator[list[str]]:
    """The cells of each row as text, for the columns that `read_columns` gives; lists and the like are written as JSON.

    Raises:
        DataError: the file cannot be read.
    """
    with explained(piece):
        if piece.form == "jsonl":
            for _, row in json_lines(piece):
                yield [_as_text(row.get(name)) for name in columns]
        elif piece.form == "parquet":
            with pyarrow.parquet.ParquetFile(piece.path) as file:
                for batch in file.iter_batches(BATCH_ROWS):
                    values = [column.to_pylist() for column in batch.columns]
                    yield from ([_as_text(value) for value in row] for row in zip(*values, strict=True))
        else:
            for _, fields in itertools.islice(records(piece), int(piece.has_header), None):
                yield fields


def make_safe(cell: str, *, keep_numbers: bool = False) -> str:
    """The cell as no spreadsheet takes it for a formula: with a ' before it if it begins like one, though it may be a number."""
    if keep_numbers and NUMBER.fullmatch(cell):
        return cell
    return f"'{cell}" if cell.startswith((*RISKY, "'")) else cell


def undo_safe(cell: str) -> str:
    """What `make_safe` was given, if it was not to keep numbers."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith((*RISKY, "'")) else cell


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool | int | float | list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)
