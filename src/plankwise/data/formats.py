"""The one reader of csv, tsv, jsonl and parquet: a file, or a piece of one, as Arrow batches, and errors that name the line.

No row becomes a Python object, and a file need not fit into memory.
"""

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from plankwise.data.mapped import BATCH_ROWS
from plankwise.data.pieces import (
    SEPARATORS,
    Layout,
    Piece,
    check_encoding,
    check_json,
    check_records,
    json_lines,
    json_type,
    name_line,
    open_text,
    open_utf8,
    records,
)
from plankwise.data.quotes import Tell, compare_lines, count_quotes_and_lines, log
from plankwise.errors import DataError
from plankwise.kinds import no_such

ENDINGS = (*SEPARATORS, ".jsonl", ".parquet")
PEEKED_LINES = 1000  # how far to look in a jsonl file for a first value of each column

logger = logging.getLogger(__name__)


def read_batches(
    piece: Piece, columns: Sequence[str], *, only_text: bool = False, tell: Tell = log
) -> Iterator[pa.RecordBatch]:
    """The named columns, batch by batch, with the types they are stored in; nothing if there are no rows.

    Without a header, columns are named "0", "1" and so on. A column of a jsonl file has text, numbers or true/false, and lines
    without it are null; with `only_text` each line must have it, with text or null. `tell` gets the lines and rows of a file in
    which quotes can join lines, once all have been read.

    Raises:
        DataError: the file cannot be read, or lacks a column.
    """
    if piece.form == "parquet":
        return _read_parquet(piece, list(columns))
    if piece.form == "jsonl":
        return _read_jsonl(piece, list(columns), only_text)
    return _read_separated(piece, list(columns), tell)


def read_names(piece: Piece) -> list[str]:
    """The columns of the piece's file; of jsonl those of the piece's first line; none if there are no lines.

    Raises:
        DataError: the file cannot be read.
    """
    with explained(piece):
        if piece.form == "parquet":
            return pa.parquet.read_schema(piece.path).names
        if piece.form == "jsonl":
            return list(next(json_lines(piece), (1, {}))[1])
        first = next(records(Piece(piece.path, piece.layout)), (1, []))[1]
    return first if piece.layout.header else [str(index) for index in range(len(first))]


def read_text(piece: Piece) -> str:
    """The piece as it is written, decoded.

    Raises:
        DataError: the file cannot be read.
    """
    with explained(piece), open_text(piece, newline="") as file:
        return file.read()


def check_columns(path: Path, columns: Sequence[str], names: list[str], hint: str = "") -> None:
    """Raises a DataError if one of `columns` is not in `names`, with the hint, or is there more than once."""
    for name in columns:
        if name not in names:
            raise DataError(f"{path.name}, column {name!r}: {no_such(name, names, 'column')}{hint}")
        if names.count(name) > 1:
            raise DataError(f"{path.name} has {names.count(name)} columns named {name!r}; rename all but one")


def place(path: Path, row: int, layout: Layout) -> str:
    """Where the row (counted from 0) is in the file: `reviews.csv line 42`."""
    piece = Piece(path, layout)
    if piece.form == "parquet":
        return f"{path.name} row {row + 1}"
    if piece.form == "jsonl":
        lines: Iterator[int] = (line for line, _ in json_lines(piece))
    else:
        width = len(read_names(piece))
        rows = itertools.islice(records(piece), int(layout.header), None)
        lines = (line for line, fields in rows if not layout.skip_ragged or len(fields) == width)
    return name_line(piece, next(itertools.islice(lines, row, None)))


@contextmanager
def explained(piece: Piece, look: Callable[[], int] = lambda: 1) -> Iterator[None]:
    """Turns an error of the system or of Arrow into a DataError.

    After an error of Arrow, `look` goes through the piece once more: it raises an error that names the line, or returns the
    number of rows. That there are none is an error for Arrow, but not here.

    Raises:
        DataError: the file cannot be read.
    """
    try:
        yield
        return
    except OSError as error:
        raise DataError(f"{piece.path} cannot be read: {error}; check the file and its permissions") from None
    except (UnicodeError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0].rstrip(".")
    if piece.form != "parquet":
        check_encoding(piece)
    if look() == 0:
        return
    what = piece.path.suffix[1:] or "a table"
    raise DataError(f"{piece.path.name} cannot be read as {what}: {reason}; write the file again")


def _read_separated(piece: Piece, columns: list[str], tell: Tell) -> Iterator[pa.RecordBatch]:
    layout, names = piece.layout, read_names(piece)
    if not names:
        return
    key = "" if layout.header else layout.key("header", off=True)
    check_columns(piece.path, columns, names, key and f"; columns are numbered because of {key}")
    skipped = rows = 0

    def skip(row: pa.csv.InvalidRow) -> str:
        nonlocal skipped
        skipped += 1
        return "skip"

    parse = pa.csv.ParseOptions(
        delimiter=piece.separator,
        quote_char='"' if layout.quoting else False,
        newlines_in_values=layout.quoting,
        invalid_row_handler=skip if layout.skip_ragged else None,
    )
    read = pa.csv.ReadOptions(column_names=None if piece.has_header else names, block_size=piece.block_bytes)
    convert = pa.csv.ConvertOptions(include_columns=columns, column_types=dict.fromkeys(columns, pa.string()))
    with explained(piece, lambda: check_records(piece, len(names))), open_utf8(piece) as stream:
        for batch in pa.csv.open_csv(stream, read_options=read, parse_options=parse, convert_options=convert):
            rows += batch.num_rows
            yield batch
        if layout.quoting:
            quotes, lines = count_quotes_and_lines(piece)
            if quotes % 2:  # Arrow accepts the end of the file as the end of a quoted field
                check_records(piece, len(names))
            tell(compare_lines(piece, lines, rows + skipped, len(names)))
    if skipped:
        logger.warning("%s: left out %d malformed lines", piece.path.name, skipped)


def _read_jsonl(piece: Piece, columns: list[str], only_text: bool) -> Iterator[pa.RecordBatch]:
    with explained(piece):
        types = {} if only_text else _look_ahead(piece, columns)
    if types is None:
        return
    schema = pa.schema([(name, types.get(name, pa.string())) for name in columns])
    read = pa.json.ReadOptions(block_size=piece.block_bytes)
    parse = pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")

    def look() -> int:
        return check_json(piece, schema, only_text=only_text)

    with explained(piece, look), open_utf8(piece) as stream:
        for batch in _validated(pa.json.open_json(stream, read_options=read, parse_options=parse)):
            if only_text and any(column.null_count for column in batch.columns):
                look()  # a null may be a line without the column
            yield batch


def _look_ahead(piece: Piece, columns: list[str]) -> dict[str, pa.DataType] | None:
    """The type of each column, by its first value; None if there are no lines."""
    names: set[str] = set()
    types: dict[str, pa.DataType] = {}
    line = -1
    for line, row in itertools.islice(json_lines(piece), PEEKED_LINES):
        names |= set(row)
        for name in columns:
            if name not in types and (value := row.get(name)) is not None:
                types[name] = json_type(value)
                if types[name] is None:
                    what = f"{name!r} is a {type(value).__name__}"
                    raise DataError(f"{name_line(piece, line)}: {what}; write text, numbers or true/false")
        if len(types) == len(columns):
            break
    if line < 0:
        return None
    check_columns(piece.path, columns, sorted(names))
    return types


def _read_parquet(piece: Piece, columns: list[str]) -> Iterator[pa.RecordBatch]:
    with explained(piece), pa.parquet.ParquetFile(piece.path) as file:
        check_columns(piece.path, columns, file.schema_arrow.names)
        groups = list(range(file.num_row_groups))[piece.start : piece.end]
        yield from _validated(file.iter_batches(BATCH_ROWS, row_groups=groups, columns=columns))


def _validated(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        batch.validate(full=True)
        yield batch
