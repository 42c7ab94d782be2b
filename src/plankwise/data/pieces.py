"""Pieces of text files: opened as streams, and looked through line by line in Python to say what is wrong, and where.

This pass is slow; `formats.py` reads with Arrow and comes here only when it has failed.
"""

import codecs
import csv
import io
import itertools
import json
import re
import reprlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from plankwise.errors import DataError

SEPARATORS = {".csv": ",", ".tsv": "\t"}
BLOCK_BYTES = 16 << 20  # Arrow's unit of reading, of which it reads some dozens ahead; no row of a table may be longer
SCAN_BYTES = 1 << 18
END = "plankwise: end of file"  # a line that is added behind the last: part of a field if a quote is never closed
JSON_TYPES: dict[Any, pa.DataType] = {str: pa.string(), bool: pa.bool_(), (int, float): pa.float64()}
SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Layout:
    """How a file is written; the separator follows the file's ending if absent."""

    separator: str | None = None
    header: bool = True
    encoding: str = "utf-8"
    quoting: bool = True
    skip_ragged: bool = False  # leave out lines with too few or too many fields, and log how many
    keys: Literal["all", "flags", "text", "none"] = "all"  # what of it the user can set, and how; for messages

    def key(self, name: str, *, off: bool = False) -> str:
        """What the user sets it with, or switches it off: `task.encoding`, `--no-quoting`; empty if that is not possible."""
        if self.keys == "flags":
            return f"--no-{name}" if off else f"--{name}"
        known = self.keys == "all" or (self.keys == "text" and name in ("encoding", "quoting"))
        return f"task.{name}{' = false' if off else ''}" if known else ""

    def about_quotes(self) -> str:
        """What to do if quotes are part of the text, as the end of a sentence."""
        key = self.key("quoting", off=True)
        way = f"set {key} if quotes are" if key else "double each quote that is"
        return f", or {way} part of the text" if self.quoting else ""


@dataclass(frozen=True)
class Piece:
    """Whole records of one file: bytes from `start` to `end`, or row groups of a parquet file; all of them by default."""

    path: Path
    layout: Layout = Layout()
    start: int = 0
    end: int | None = None

    @property
    def form(self) -> Literal["separated", "jsonl", "parquet"] | None:
        """The file's format, by its ending and layout; None if it has no columns."""
        ending = self.path.suffix.lower()
        if self.layout.separator is not None or ending in SEPARATORS:
            return "separated"
        return "jsonl" if ending == ".jsonl" else "parquet" if ending == ".parquet" else None

    @property
    def has_header(self) -> bool:
        return self.layout.header and self.start == 0

    @property
    def separator(self) -> str:
        return self.layout.separator or SEPARATORS[self.path.suffix.lower()]

    @property
    def is_utf8(self) -> bool:
        return codecs.lookup(self.layout.encoding).name == "utf-8"

    @property
    def block_bytes(self) -> int:
        """What is read at once: a piece with an end as a whole, so that its records may be of any length."""
        return BLOCK_BYTES if self.end is None else max(BLOCK_BYTES, self.end - self.start + 1)


def open_bytes(piece: Piece) -> pa.NativeFile:
    """The piece as a stream, unpacked if it is a .gz file, without the byte order mark of utf-8."""
    if piece.path.suffix.lower() == ".gz":
        return pa.input_stream(str(piece.path), compression="gzip")
    file, start = pa.OSFile(str(piece.path)), piece.start + _mark_bytes(piece)
    return file.get_stream(start, max(0, (file.size() if piece.end is None else piece.end) - start))


def open_utf8(piece: Piece) -> pa.NativeFile:
    """The same in utf-8, whatever the file is written in."""
    stream = open_bytes(piece)
    return stream if piece.is_utf8 else pa.transcoding_input_stream(stream, piece.layout.encoding, "utf-8")


def open_text(piece: Piece, *, newline: str) -> io.TextIOWrapper:
    """The piece, decoded; `newline` as in Python's `open`."""
    return io.TextIOWrapper(open_bytes(piece), encoding=piece.layout.encoding, newline=newline)  # type: ignore[type-var]


def scan(piece: Piece) -> Iterator[bytes]:
    """The piece a little at a time."""
    with open_bytes(piece) as stream:
        yield from iter(lambda: stream.read(SCAN_BYTES), b"")


def name_line(piece: Piece, line: int) -> str:
    """Where a line of the piece (counted from 0) is: `reviews.csv line 42`; reads the file up to the piece."""
    before = replace(piece, start=0, end=piece.start)
    skipped = sum(part.count(b"\n") for part in scan(before)) if piece.start else 0
    return f"{piece.path.name} line {skipped + line + 1}"


def records(piece: Piece) -> Iterator[tuple[int, list[str]]]:
    """Each record of a separated file and the line of the piece on which it begins, header included, empty lines left out.

    Raises:
        DataError: a quote is never closed.
    """
    line = 0
    try:
        with _long_fields(piece), open_text(piece, newline="") as file:
            reader = _fields(piece, itertools.chain(file, [END]))
            for fields in reader:
                if fields == [END]:
                    return
                if fields and fields[-1].endswith(END):
                    raise csv.Error
                if fields:
                    yield line, fields
                line = reader.line_num
    except csv.Error:  # also if a field is longer than Arrow can read
        fault = f"a quoted field that begins here is never closed; close it{piece.layout.about_quotes()}"
        raise DataError(f"{name_line(piece, line)}: {fault}") from None


@contextmanager
def _long_fields(piece: Piece) -> Iterator[None]:
    """Inside, a field may be as long as Arrow reads; the limit is one for all of Python, so it is put back."""
    limit = csv.field_size_limit(piece.block_bytes)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def find_body(piece: Piece) -> int:
    """The byte at which the rows of a separated file begin, behind its header."""
    with _long_fields(piece), open_text(piece, newline="") as file:
        reader = _fields(piece, file)
        next(filter(None, reader), None)
    with open_text(piece, newline="") as file:
        header = "".join(itertools.islice(file, reader.line_num))
    return _mark_bytes(piece) + len(header.encode(piece.layout.encoding))


def json_lines(piece: Piece) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each object of a jsonl file and its line in the piece; empty lines are left out.

    Raises:
        DataError: a line is not an object.
    """
    with open_text(piece, newline="\n") as file:
        for line, text in enumerate(file):
            if not text.strip():
                continue
            try:
                row = json.loads(text)
            except (json.JSONDecodeError, RecursionError) as error:
                reason = getattr(error, "msg", "nested too deeply")
                raise DataError(
                    f"{name_line(piece, line)}: not JSON, {reason}; write one object on each line"
                ) from None
            if not isinstance(row, dict):
                fault = 'not an object; write {"column": value, …} on each line'
                raise DataError(f"{name_line(piece, line)}: {fault}")
            yield line, row


def json_type(value: Any) -> pa.DataType | None:
    """How Arrow reads such values; None if they are not what a table can hold."""
    return next((arrow for kind, arrow in JSON_TYPES.items() if isinstance(value, kind)), None)


def check_records(piece: Piece, width: int) -> int:
    """The number of rows in a piece of a separated file.

    Raises:
        DataError: a record has another width, or a quote that is never closed.
    """
    count = -int(piece.has_header)
    for line, fields in records(piece):
        count += 1
        if len(fields) != width and not piece.layout.skip_ragged:
            raise DataError(
                f"{name_line(piece, line)}: {len(fields)} columns where the first line has {width}; "
                f"fix the separators and quotes{piece.layout.about_quotes()}"
            )
    return count


def check_json(piece: Piece, schema: pa.Schema, *, only_text: bool) -> int:
    """The number of objects in a piece of a jsonl file.

    Raises:
        DataError: a value does not fit the schema, or with `only_text` is missing.
    """
    count = 0
    for line, row in json_lines(piece):
        count += 1
        for name, kind in zip(schema.names, schema.types, strict=True):
            value = row.get(name)
            if only_text and name not in row:
                fault = f"no {name!r}, only {', '.join(row) or 'an empty object'}; write it on each line"
            elif value is not None and json_type(value) != kind:
                what = {"string": "text", "bool": "true or false", "double": "a number"}[str(kind)]
                fault = f"{name!r} is {reprlib.repr(value)}, not {what}; write all values of a column alike"
            elif isinstance(value, str) and SURROGATE.search(value):
                fault = f"{name!r} has half of a character that JSON writes as two (a surrogate); fix it or take it out"
            else:
                continue
            raise DataError(f"{name_line(piece, line)}: {fault}")
    return count


def check_encoding(piece: Piece) -> None:
    """Raises a DataError that names the first byte up to the piece's end that is not of the encoding, if there is one."""
    layout = piece.layout
    decoder = codecs.getincrementaldecoder(layout.encoding)()
    before = replace(piece, start=0)
    line, seen = 1, _mark_bytes(before)
    for part in itertools.chain(scan(before), [b""]):
        seen += len(part)
        try:
            line += decoder.decode(part, final=not part).count("\n")
        except UnicodeError as error:
            key = layout.key("encoding")
            way = f"set {key} to what the file is written in, for example 'latin-1'" if key else "fetch the file again"
            if not isinstance(error, UnicodeDecodeError):  # utf-16 without its mark
                raise DataError(f"{piece.path.name} is not {layout.encoding} ({error}); {way}") from None
            line += error.object[: error.start].decode(layout.encoding, errors="ignore").count("\n")
            byte = seen - len(error.object) + error.start
            where = f"{piece.path.name} line {line}: byte 0x{error.object[error.start]:02x} at offset {byte}"
            raise DataError(f"{where} is not {layout.encoding}; {way}") from None


def _fields(piece: Piece, lines: Iterable[str]) -> Any:
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if piece.layout.quoting else csv.QUOTE_NONE
    return csv.reader(lines, delimiter=piece.separator, quoting=quoting)


def _mark_bytes(piece: Piece) -> int:
    """The length of the byte order mark that the piece begins with."""
    if piece.start or not piece.is_utf8:
        return 0
    with open(piece.path, "rb") as file:
        return len(codecs.BOM_UTF8) if file.read(3) == codecs.BOM_UTF8 else 0
