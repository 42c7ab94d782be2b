"""Table files (csv, tsv, jsonl, parquet) as Arrow tables of text columns, and labels as numbers; large tables are mapped."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from plankwise.data.formats import place, read_batches
from plankwise.data.mapped import find_first, gather
from plankwise.data.pieces import Layout, Piece
from plankwise.data.quotes import Tell, log
from plankwise.errors import DataError


def read_table(path: Path, columns: Sequence[str], layout: Layout, *, key: str, tell: Tell = log) -> pa.Table:
    """The named columns of a file as text, in the order asked for; missing values are empty texts.

    Without a header, columns are named "0", "1" and so on. `key` is the config key that gave the path;
    `tell` gets the lines and rows of a file in which quotes can join lines.

    Raises:
        DataError: the file cannot be read, has no rows, or lacks a column.
        RunError: it is large, and the cache cannot be written.
    """
    if not path.is_file():
        what = "that is a folder, not a file" if path.is_dir() else "there is no such file"
        raise DataError(f"{key} is '{path}'; {what}: give the path of a csv, tsv, jsonl or parquet file")
    piece = Piece(path, layout)
    if piece.form is None:
        raise DataError(
            f"{key} is '{path}'; its ending is not one of .csv, .tsv, .jsonl and .parquet: "
            f"rename it, or set {layout.key('separator')} if it is a text file with separated columns"
        )
    batches = (_as_text(batch, columns, path) for batch in read_batches(piece, columns, tell=tell))
    table = gather(batches, pa.schema([(name, pa.string()) for name in columns]))
    if table.num_rows == 0:
        raise DataError(f"{path.name} has no rows; give a file with at least one row of data")
    return table


def encode_classes(
    labels: pa.ChunkedArray, values: Sequence[str], fault: str, path: Path, layout: Layout
) -> pa.ChunkedArray:
    """The index in `values` of each label, int64; `fault` ends the sentence "label … " for one that is not there.

    Raises:
        DataError: a label is empty or not in `values`.
    """
    check_filled(labels, path, layout)
    known = pa.array(values, pa.string())
    codes = [pc.index_in(chunk, value_set=known).cast(pa.int64()) for chunk in labels.chunks]
    row = find_first(codes, pc.is_null)
    if row >= 0:
        raise DataError(f"{place(path, row, layout)}: label {labels[row].as_py()!r} {fault}")
    return pa.chunked_array(codes, pa.int64())


def encode_numbers(
    labels: pa.ChunkedArray,
    path: Path,
    layout: Layout,
    fault: str = "is not a finite number; fix it, or set task.kind = 'classes' if labels are names",
) -> pa.ChunkedArray:
    """The labels as float64; `fault` ends the sentence "label … " for one that is not a finite number.

    Raises:
        DataError: a label is empty or not a finite number.
    """
    check_filled(labels, path, layout)
    labels = pc.utf8_trim_whitespace(labels)
    try:
        numbers = labels.cast(pa.float64())
        row = pc.index(pc.is_finite(numbers), False).as_py()
    except pa.ArrowInvalid:
        row = next(index for index, value in enumerate(labels) if not _is_number(value))
    if row >= 0:
        raise DataError(f"{place(path, row, layout)}: label {labels[row].as_py()!r} {fault}")
    return numbers


def check_filled(labels: pa.ChunkedArray, path: Path, layout: Layout) -> None:
    """Raises a DataError that names the first line without a label, if there is one."""
    row = find_first(labels.chunks, lambda chunk: pc.equal(pc.utf8_trim_whitespace(chunk), ""))
    if row >= 0:
        raise DataError(f"{place(path, row, layout)}: the label is empty; fill it in or take the row out")


def listed(values: Sequence[str], most: int = 20) -> str:
    """The values with commas between them, at most `most` of them."""
    return ", ".join(map(str, values[:most])) + (f", … {len(values)} in all" if len(values) > most else "")


def _is_number(value: pa.Scalar) -> bool:
    try:
        value.cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _as_text(batch: pa.RecordBatch, columns: Sequence[str], path: Path) -> pa.RecordBatch:
    """Arrow writes a whole number without a point, so a class 1 is '1' however it was stored."""
    texts = {}
    for name in columns:
        try:
            texts[name] = pc.fill_null(batch[name].cast(pa.string()), "")
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            kind = batch[name].type
            raise DataError(f"{path.name}: column {name!r} has the type {kind}; store it as text or numbers") from None
    return pa.record_batch(texts)
