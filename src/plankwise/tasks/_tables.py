"""Table files (csv, tsv, jsonl, parquet) as Arrow tables of text columns, and errors that name the line.

Arrow reads, batch after batch; no row becomes a Python object, and large files are mapped (`_mapped.py`). Only when something is
wrong does a slow second pass look for the line.
"""

import codecs
import csv
import itertools
import json
import logging
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from plankwise.errors import DataError
from plankwise.kinds import no_such
from plankwise.tasks._mapped import BATCH_ROWS, find_first, gather

SEPARATORS = {".csv": ",", ".tsv": "\t"}
BLOCK_BYTES = 16 << 20  # Arrow's unit of reading, of which it reads some dozens ahead; no single row may be longer
END = "plankwise: end of file"  # a line that the slow pass adds: swallowed by a quote that is never closed
PEEKED_LINES = 1000  # how far to look in a jsonl file for a first value of each column

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Layout:
    """How a file is written; the separator follows the file's ending if absent."""

    separator: str | None = None
    header: bool = True
    encoding: str = "utf-8"
    quoting: bool = True
    skip_ragged: bool = False  # leave out lines with too few or too many fields, and log how many
    flags: bool = False  # given as --separator and so on, not as task.separator; for messages

    def key(self, name: str) -> str:
        return f"--{name}" if self.flags else f"task.{name}"

    def off(self, name: str) -> str:
        return f"--no-{name}" if self.flags else f"task.{name} = false"


def read_table(path: Path, columns: Sequence[str], layout: Layout, *, key: str) -> pa.Table:
    """The named columns of a file as text, in the order asked for; missing values are empty texts.

    Without a header, columns are named "0", "1" and so on. `key` is the config key that gave the path.

    Raises:
        DataError: the file cannot be read, has no rows, or lacks a column.
        RunError: it is large, and the cache cannot be written.
    """
    if not path.is_file():
        what = "that is a folder, not a file" if path.is_dir() else "there is no such file"
        raise DataError(f"{key} is '{path}'; {what}: give the path of a csv, tsv, jsonl or parquet file")
    form = _form(path, layout, key)
    try:
        if path.stat().st_size == 0:
            raise _no_rows(path)
        read = {"parquet": _read_parquet, "jsonl": _read_jsonl, "separated": _read_separated}[form]
        batches = (_as_text(batch, columns, path) for batch in read(path, list(columns), layout))
        table = gather(batches, pa.schema([(name, pa.string()) for name in columns]))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}; check the path and its permissions") from None
    except UnicodeDecodeError as error:
        raise _encoding_error(path, layout) or _unreadable(path, error) from None
    if table.num_rows == 0:
        raise _no_rows(path)
    return table


def place(path: Path, row: int, layout: Layout) -> str:
    """Where the row (counted from 0) stands in the file: `reviews.csv line 42`."""
    form = _form(path, layout, "")
    if form == "parquet":
        return f"{path.name} row {row + 1}"
    if form == "jsonl":
        lines: Iterator[int] = (line for line, _ in _json_lines(path, layout))
    else:
        records = _records(path, layout)
        first = next(records)
        rows = records if layout.header else itertools.chain([first], records)
        lines = (line for line, fields in rows if not layout.skip_ragged or len(fields) == len(first[1]))
    return f"{path.name} line {next(itertools.islice(lines, row, None))}"


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


def encode_numbers(labels: pa.ChunkedArray, path: Path, layout: Layout) -> pa.ChunkedArray:
    """The labels as float64.

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
        raise DataError(
            f"{place(path, row, layout)}: label {labels[row].as_py()!r} is not a finite number; "
            "mend it, or set task.kind = 'classes' if labels are names"
        )
    return numbers


def check_filled(labels: pa.ChunkedArray, path: Path, layout: Layout) -> None:
    """Raises a DataError that names the first line without a label, if there is one."""
    row = find_first(labels.chunks, lambda chunk: pc.equal(pc.utf8_trim_whitespace(chunk), ""))
    if row >= 0:
        raise DataError(f"{place(path, row, layout)}: the label is empty; fill it in or take the row out")


def listed(values: Sequence[str], most: int = 20) -> str:
    """The values with commas between them, cut off after `most`."""
    return ", ".join(map(str, values[:most])) + (f", … {len(values)} in all" if len(values) > most else "")


def _is_number(value: pa.Scalar) -> bool:
    try:
        value.cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _form(path: Path, layout: Layout, key: str) -> str:
    ending = path.suffix.lower()
    if layout.separator is not None or ending in SEPARATORS:
        return "separated"
    if ending in (".jsonl", ".parquet"):
        return ending[1:]
    raise DataError(
        f"{key} is '{path}'; its ending is not one of .csv, .tsv, .jsonl and .parquet: "
        f"rename it, or set {layout.key('separator')} if it is a text file with separated columns"
    )


def _read_separated(path: Path, columns: list[str], layout: Layout) -> Iterator[pa.RecordBatch]:
    first = next(_records(path, layout), (1, []))[1]
    if not first:
        raise _no_rows(path)
    names = first if layout.header else [str(index) for index in range(len(first))]
    cause = "--no-header was given" if layout.flags else "task.header = false"
    why = "" if layout.header else f"; columns are numbered because {cause}"
    _check_columns(path, columns, names, why)
    skipped = 0

    def skip(row: pa.csv.InvalidRow) -> str:
        nonlocal skipped
        skipped += 1
        return "skip"

    parse = pa.csv.ParseOptions(
        delimiter=_separator(path, layout),
        quote_char='"' if layout.quoting else False,
        newlines_in_values=layout.quoting,
        invalid_row_handler=skip if layout.skip_ragged else None,
    )
    read = pa.csv.ReadOptions(
        encoding=layout.encoding, column_names=None if layout.header else names, block_size=BLOCK_BYTES
    )
    convert = pa.csv.ConvertOptions(include_columns=columns, column_types=dict.fromkeys(columns, pa.string()))
    try:
        with pa.csv.open_csv(path, read_options=read, parse_options=parse, convert_options=convert) as batches:
            yield from batches
    except pa.ArrowInvalid as error:
        raise _encoding_error(path, layout) or _record_error(path, layout) or _unreadable(path, error) from None
    if layout.quoting and _count_quotes(path) % 2 and (found := _record_error(path, layout)):
        raise found
    if skipped:
        logger.warning("%s: left out %d malformed lines", path.name, skipped)


def _separator(path: Path, layout: Layout) -> str:
    return layout.separator or SEPARATORS[path.suffix.lower()]


def _text_encoding(layout: Layout) -> str:
    return "utf-8-sig" if codecs.lookup(layout.encoding).name == "utf-8" else layout.encoding


@contextmanager
def _long_fields() -> Iterator[None]:
    before = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _records(path: Path, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """Each record and the line on which it begins, header included, empty lines left out: the slow pass."""
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if layout.quoting else csv.QUOTE_NONE
    with _long_fields(), open(path, encoding=_text_encoding(layout), newline="") as file:
        lines = itertools.chain(file, [END])
        reader = csv.reader(lines, delimiter=_separator(path, layout), quoting=quoting)
        line = 1
        for fields in reader:
            if fields == [END]:
                return
            if fields and fields[-1].endswith(END):
                raise DataError(
                    f"{path.name} line {line}: a quoted field that begins here is never closed; "
                    f"close it, or set {layout.off('quoting')} if quotes are part of the text"
                )
            if fields:
                yield line, fields
            line = reader.line_num + 1


def _record_error(path: Path, layout: Layout) -> DataError | None:
    """What the slow pass finds wrong with a separated file."""
    width, rows = 0, 0
    try:
        for line, fields in _records(path, layout):
            width = width or len(fields)
            rows += 1
            if len(fields) != width and not layout.skip_ragged:
                hint = f", or set {layout.off('quoting')} if quotes are part of the text" if layout.quoting else ""
                return DataError(
                    f"{path.name} line {line}: {len(fields)} columns where the first line has {width}; "
                    f"mend the separators and quotes{hint}"
                )
    except DataError as error:
        return error
    return _no_rows(path) if rows <= layout.header else None


def _count_quotes(path: Path) -> int:
    with open(path, "rb") as file:
        return sum(block.count(b'"') for block in iter(lambda: file.read(BLOCK_BYTES), b""))


def _read_jsonl(path: Path, columns: list[str], layout: Layout) -> Iterator[pa.RecordBatch]:
    known: set[str] = set()
    types: dict[str, pa.DataType] = {}
    for line, row in itertools.islice(_json_lines(path, layout), PEEKED_LINES):
        known |= set(row)
        types |= {
            name: _json_type(path, line, name, row[name])
            for name in columns
            if name not in types and row.get(name) is not None
        }
        if len(types) == len(columns):
            break
    if not known:
        raise _no_rows(path)
    _check_columns(path, columns, sorted(known))
    schema = pa.schema([(name, types.get(name, pa.string())) for name in columns])
    read = pa.json.ReadOptions(block_size=BLOCK_BYTES)
    parse = pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    try:
        with pa.OSFile(str(path)) as file:
            plain = codecs.lookup(layout.encoding).name == "utf-8"
            stream = file if plain else pa.transcoding_input_stream(file, layout.encoding, "utf-8")
            with pa.json.open_json(stream, read_options=read, parse_options=parse) as batches:
                yield from _validated(batches)
    except pa.ArrowInvalid as error:
        found = _encoding_error(path, layout) or _json_error(path, schema, layout)
        raise found or _unreadable(path, error) from None


def _json_lines(path: Path, layout: Layout) -> Iterator[tuple[int, dict[str, Any]]]:
    with open(path, encoding=_text_encoding(layout)) as file:
        for line, text in enumerate(file, 1):
            if not text.strip():
                continue
            try:
                row = json.loads(text)
            except json.JSONDecodeError as error:
                raise DataError(f"{path.name} line {line}: not JSON, {error.msg}; a line holds one object") from None
            if not isinstance(row, dict):
                raise DataError(f'{path.name} line {line}: not an object; write {{"column": value, …}} on each line')
            yield line, row


def _json_type(path: Path, line: int, name: str, value: Any) -> pa.DataType:
    for kind, arrow in ((str, pa.string()), (bool, pa.bool_()), ((int, float), pa.float64())):
        if isinstance(value, kind):
            return arrow
    raise DataError(
        f"{path.name} line {line}: {name!r} holds a {type(value).__name__}; write text, numbers or true/false"
    )


def _json_error(path: Path, schema: pa.Schema, layout: Layout) -> DataError | None:
    try:
        for line, row in _json_lines(path, layout):
            for field in schema:
                value = row.get(field.name)
                if value is not None and _json_type(path, line, field.name, value) != field.type:
                    return DataError(
                        f"{path.name} line {line}: {field.name!r} is {value!r}, but of another type in lines before; "
                        "write all values of a column alike"
                    )
    except DataError as error:
        return error
    return None


def _read_parquet(path: Path, columns: list[str], layout: Layout) -> Iterator[pa.RecordBatch]:
    try:
        with pa.parquet.ParquetFile(path) as file:
            _check_columns(path, columns, file.schema_arrow.names)
            yield from _validated(file.iter_batches(BATCH_ROWS, columns=columns))
    except pa.ArrowInvalid as error:
        raise _unreadable(path, error) from None


def _validated(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        batch.validate(full=True)
        yield batch


def _as_text(batch: pa.RecordBatch, columns: Sequence[str], path: Path) -> pa.RecordBatch:
    """Arrow writes a whole number without a point, so a class 1 is '1' however it was stored."""
    texts = {}
    for name in columns:
        try:
            texts[name] = pc.fill_null(batch[name].cast(pa.string()), "")
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            held = batch[name].type
            raise DataError(f"{path.name}: column {name!r} holds {held}; store it as text or numbers") from None
    return pa.record_batch(texts)


def _check_columns(path: Path, columns: list[str], names: list[str], why: str = "") -> None:
    for name in columns:
        if name not in names:
            raise DataError(f"{path.name}, column {name!r}: {no_such(name, names, 'column')}{why}")
        if names.count(name) > 1:
            raise DataError(f"{path.name} has {names.count(name)} columns named {name!r}; rename all but one")


def _no_rows(path: Path) -> DataError:
    return DataError(f"{path.name} has no rows; give a file with at least one row of data")


def _unreadable(path: Path, error: Exception) -> DataError:
    return DataError(f"{path.name} cannot be read as {path.suffix[1:] or 'a table'}: {error}; write the file anew")


def _encoding_error(path: Path, layout: Layout) -> DataError | None:
    """Says which byte is not of the encoding; line ends are counted in what was decoded before it."""
    decoder = codecs.getincrementaldecoder(layout.encoding)()
    line, seen = 1, 0
    with open(path, "rb") as file:
        while True:
            block = file.read(1 << 20)
            seen += len(block)
            try:
                line += decoder.decode(block, final=not block).count("\n")
            except UnicodeDecodeError as error:
                line += error.object[: error.start].decode(layout.encoding, errors="ignore").count("\n")
                byte = seen - len(error.object) + error.start
                return DataError(
                    f"{path.name} line {line}: byte 0x{error.object[error.start]:02x} at offset {byte} is not "
                    f"{layout.encoding}; set {layout.key('encoding')} to what the file is written in, for example 'latin-1'"
                )
            if not block:
                return None
