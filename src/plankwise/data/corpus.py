"""Unlabelled documents of a file or folder of any size, shard by shard: only one shard is ever in memory."""

import codecs
import csv
import hashlib
import io
import itertools
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from plankwise.errors import DataError
from plankwise.kinds import no_such
from plankwise.tasks._tables import SEPARATORS

SHARD_BYTES = 16 << 20  # a shard is this long, and on to the next end of a line
SCAN_BYTES = 1 << 20
HEADER_BYTES = 1 << 20  # a csv header that is longer has a quote that is never closed
PLAIN = (".txt", ".raw")
TABLES = (*SEPARATORS, ".jsonl", ".parquet")

Form = Literal["line", "file", "csv", "tsv", "jsonl", "parquet"]


@dataclass(frozen=True)
class Shard:
    """A piece of one file: bytes from `start` to `end`, or row groups of a parquet file."""

    path: Path
    form: Form  # plain text with a document a line, or one in all; or a table with a document a row
    start: int
    end: int
    column: str | None = None  # of a table, where its text is
    encoding: str = "utf-8"
    order: int | None = None  # seeds the order of its documents; None: as they stand in the file


def find_shards(
    path: str, *, unit: Literal["line", "file"], column: str | None, encoding: str = "utf-8", key: str
) -> list[Shard]:
    """All pieces of the corpus in a fixed order: every document is in exactly one.

    In a folder, files of known endings count, at any depth, hidden ones left out; a file given by itself that has another
    ending is plain text. `unit` is what a document is in plain text, `column` where it is in a table; `key` is the config
    key that gave the path.

    Raises:
        DataError: nothing to read there, no such column, a column where there is no table, or an encoding that cannot be cut.
    """
    encoding = _check_encoding(encoding)
    place = Path(path).expanduser()
    files = _list_files(place, key)
    tables = [file for file in files if file.suffix.lower() in TABLES]
    if column is not None and not tables:
        raise DataError(
            f"task.column is {column!r}, but {key} is '{path}', which is plain text without columns; take task.column out"
        )
    shards = []
    for file in files:
        with _readable(file):
            shards += _shards_of(file, unit, column, encoding)
    if not shards:
        raise DataError(f"{key} is '{path}', in which there is nothing to read; give a file with at least one text")
    return shards


def read_shard(shard: Shard) -> list[str]:
    """The shard's documents in the order that it asks for, without white space around them; empty ones are left out.

    Raises:
        DataError: the file cannot be read, or a piece of it is not text.
    """
    with _readable(shard.path):
        if shard.form == "parquet":
            texts: Sequence[str | None] = _read_parquet(shard)
        elif shard.form in ("csv", "tsv"):
            texts = _read_separated(shard)
        elif shard.form == "jsonl":
            texts = _read_jsonl(shard)
        else:
            text = _read_text(shard)
            texts = [text] if shard.form == "file" else text.split("\n")
    found = [stripped for text in texts if text and (stripped := text.strip())]
    if shard.order is None:
        return found
    return [found[index] for index in np.random.default_rng([shard.order, shard.start]).permutation(len(found))]


def held_out(text: str, share: float, seed: int) -> bool:
    """Whether the text is among the `share` that is held out: the same answer for the same text, wherever it stands."""
    digest = hashlib.blake2b(text.encode(), digest_size=8, key=str(seed).encode()).digest()
    return int.from_bytes(digest, "big") < share * 2**64


def shuffled(shards: Sequence[Shard], seed: int) -> list[Shard]:
    """The shards, and the documents of each, in an order drawn by the seed: a run that needs a part of a corpus gets more than
    its beginning."""
    return [replace(shards[index], order=seed) for index in np.random.default_rng(seed).permutation(len(shards))]


def _check_encoding(encoding: str) -> str:
    """The encoding's plain name; a byte order mark before utf-8 is left out in any case."""
    name = codecs.lookup(encoding).name.removesuffix("-sig")
    if '\n"'.encode(name) != b'\n"':
        raise DataError(
            f"task.encoding is {encoding!r}, in which a line's end is not one byte as in ASCII, so that a large file cannot be "
            "cut into pieces; convert the files to utf-8"
        )
    return name


def _list_files(place: Path, key: str) -> list[Path]:
    if place.is_file():
        return [place]
    if not place.is_dir():
        raise DataError(f"{key} is '{place}'; there is no such file or folder: give the path of one that holds texts")
    files = [
        file
        for file in sorted(place.rglob("*"))
        if file.suffix.lower() in (*PLAIN, *TABLES)
        and not any(part.startswith(".") for part in file.relative_to(place).parts)
        and file.is_file()
    ]
    if not files:
        raise DataError(f"{key} is '{place}', which holds no file that ends in {', '.join((*PLAIN, *TABLES))}; add one")
    return files


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}; check the path and its permissions") from None


def _shards_of(path: Path, unit: Literal["line", "file"], column: str | None, encoding: str) -> list[Shard]:
    size = path.stat().st_size
    if size == 0:
        return []
    ending = path.suffix.lower()
    if ending not in TABLES:
        bounds = [0, size] if unit == "file" else _cut_lines(path, size)
        return [Shard(path, unit, start, end, None, encoding) for start, end in itertools.pairwise(bounds)]
    if ending == ".parquet":
        form: Form = "parquet"
        bounds = _cut_row_groups(path, column)
    elif ending == ".jsonl":
        form = "jsonl"
        keys = _first_keys(path, encoding)
        if keys is None:
            return []
        _check_column(path, column, keys)
        bounds = _cut_lines(path, size)
    else:
        form = "csv" if ending == ".csv" else "tsv"
        names, body = _read_header(path, SEPARATORS[ending], encoding)
        _check_column(path, column, names)
        bounds = _cut_records(path, body, size)
    return [Shard(path, form, start, end, column, encoding) for start, end in itertools.pairwise(bounds)]


def _check_column(path: Path, column: str | None, names: list[str]) -> None:
    if column is None:
        raise DataError(f"{path.name} has columns; set task.column to the one that holds the text: {', '.join(names)}")
    if column not in names:
        raise DataError(f"task.column is {column!r}, in {path.name} {no_such(column, names, 'column')}")
    if names.count(column) > 1:
        raise DataError(f"{path.name} has {names.count(column)} columns named {column!r}; rename all but one")


def _cut_lines(path: Path, size: int) -> list[int]:
    """Where shards begin, and the end: each cut stands behind a line's end; only what is around the cuts is read."""
    bounds = [0]
    with open(path, "rb") as file:
        while bounds[-1] + SHARD_BYTES < size:
            file.seek(bounds[-1] + SHARD_BYTES - 1)
            while (piece := file.readline(SCAN_BYTES)) and not piece.endswith(b"\n"):
                pass
            bounds.append(file.tell())
    return bounds if bounds[-1] == size else [*bounds, size]


def _cut_records(path: Path, body: int, size: int) -> list[int]:
    """The same for a table behind its header, where a line's end between double quotes ends no record."""
    bounds, at, quotes = [body], body, 0
    with open(path, "rb") as file:
        file.seek(body)
        while block := file.read(SCAN_BYTES):
            if at + len(block) >= bounds[-1] + SHARD_BYTES:
                codes = np.frombuffer(block, np.uint8)
                lines = np.flatnonzero(codes == ord("\n"))
                before = quotes + np.searchsorted(np.flatnonzero(codes == ord('"')), lines)
                ends = at + 1 + lines[before % 2 == 0]
                while (found := np.searchsorted(ends, bounds[-1] + SHARD_BYTES)) < len(ends):
                    bounds.append(int(ends[found]))
            quotes += block.count(b'"')
            at += len(block)
    if quotes % 2:
        raise DataError(
            f"{path.name} has an odd number of double quotes, so a quoted field is never closed; close it, or write a quote "
            "that is part of the text twice, in a field between quotes"
        )
    return bounds if bounds[-1] == size else [*bounds, size]


def _cut_row_groups(path: Path, column: str | None) -> list[int]:
    """Row groups gathered until they pass the size of a shard; a single one is never cut."""
    with _as_parquet(path) as file:
        schema = file.schema_arrow
        _check_column(path, column, schema.names)
        kind = schema.field(column).type
        if not _is_text(kind.value_type if pa.types.is_dictionary(kind) else kind):
            raise DataError(f"{path.name}: column {column!r} holds {kind}; give a column of text in task.column")
        # the file's own numbering has nested columns spread out, so the place is found by name
        places = [index for index in range(len(file.schema)) if file.schema.column(index).path == column]
        bounds, size = [0], 0
        for group in range(file.num_row_groups):
            if size >= SHARD_BYTES:
                bounds.append(group)
                size = 0
            size += file.metadata.row_group(group).column(places[0]).total_uncompressed_size
        return [*bounds, file.num_row_groups] if file.metadata.num_rows else []


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


@contextmanager
def _as_parquet(path: Path) -> Iterator[pa.parquet.ParquetFile]:
    try:
        with pa.parquet.ParquetFile(path) as file:
            yield file
    except pa.ArrowException as error:
        raise DataError(f"{path.name} cannot be read as parquet: {_reason(error)}; write the file anew") from None


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".")


def _read_parquet(shard: Shard) -> list[str | None]:
    with _as_parquet(shard.path) as file:
        table = file.read_row_groups(range(shard.start, shard.end), columns=[shard.column])
        table.validate(full=True)
        return table[shard.column].cast(pa.large_string()).to_pylist()


def _read_header(path: Path, separator: str, encoding: str) -> tuple[list[str], int]:
    """The columns' names, and where the rows begin."""
    with open(path, "rb") as file:
        header = _first_record(file)
        if header.count(b'"') % 2:
            raise DataError(f"{path.name} line 1: a quoted field is never closed in the header; close it")
        shard = Shard(path, "file", 0, file.tell(), None, encoding)
    text = _read_text(shard).strip("\r\n")
    return next(csv.reader(io.StringIO(text, newline=""), delimiter=separator), [""]), shard.end


def _first_record(file: BinaryIO) -> bytes:
    record = b""
    while len(record) < HEADER_BYTES and (line := file.readline(HEADER_BYTES)):
        record += line
        if record.strip() and record.count(b'"') % 2 == 0:
            break
    return record


def _read_separated(shard: Shard) -> list[str]:
    separator = SEPARATORS[f".{shard.form}"]
    names, _ = _read_header(shard.path, separator, shard.encoding)
    rows = _read_text(shard).encode()
    # one block, for no record may reach over a block's end
    read = pa.csv.ReadOptions(column_names=names, block_size=len(rows) + 1, use_threads=False)
    parse = pa.csv.ParseOptions(delimiter=separator, newlines_in_values=True)
    convert = pa.csv.ConvertOptions(include_columns=[shard.column], column_types={shard.column: pa.large_string()})
    try:
        table = pa.csv.read_csv(pa.BufferReader(rows), read_options=read, parse_options=parse, convert_options=convert)
    except pa.ArrowInvalid as error:
        raise DataError(
            f"{shard.path.name}, counted from line {_line_at(shard, b'')}: {_reason(error)}; mend the separators and quotes"
        ) from None
    return table[shard.column].to_pylist()


def _first_keys(path: Path, encoding: str) -> list[str] | None:
    """The names in a file's first object; none if it has only white space."""
    with open(path, "rb") as file:
        line = next((line for line in iter(file.readline, b"") if line.strip()), b"")
        shard = Shard(path, "jsonl", file.tell() - len(line), file.tell(), None, encoding)
    return list(_parse_object(shard, _read_text(shard), 0)) if line else None


def _read_jsonl(shard: Shard) -> list[str | None]:
    lines = _read_text(shard).split("\n")
    return [_text_of(shard, line, number) for number, line in enumerate(lines) if line.strip()]


def _text_of(shard: Shard, line: str, number: int) -> str | None:
    row = _parse_object(shard, line, number)
    if shard.column not in row:
        found = ", ".join(row) or "an empty object"
        raise DataError(f"{_line_name(shard, number)}: no {shard.column!r}, only {found}; write it on each line")
    text = row[shard.column]
    if text is None:
        return None
    if not isinstance(text, str):
        what = type(text).__name__
        raise DataError(f"{_line_name(shard, number)}: {shard.column!r} holds a {what}, not text; write it in quotes")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DataError(
            f"{_line_name(shard, number)}: {shard.column!r} holds half of a character that JSON writes as two (a surrogate); "
            "mend it or take it out"
        ) from None
    return text


def _parse_object(shard: Shard, line: str, number: int) -> dict:
    try:
        row = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        reason = getattr(error, "msg", "nested too deeply")
        raise DataError(f"{_line_name(shard, number)}: not JSON, {reason}; a line holds one object") from None
    if not isinstance(row, dict):
        raise DataError(f'{_line_name(shard, number)}: not an object; write {{"column": "text", …}} on each line')
    return row


def _read_text(shard: Shard) -> str:
    """The shard's bytes, decoded; a byte order mark is left out."""
    with open(shard.path, "rb") as file:
        file.seek(shard.start)
        data = file.read(shard.end - shard.start)
    if shard.start == 0 and shard.encoding == "utf-8":
        data = data.removeprefix(codecs.BOM_UTF8)
    try:
        return data.decode(shard.encoding)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{shard.path.name} line {_line_at(shard, data[: error.start])}: byte 0x{data[error.start]:02x} is not "
            f"{shard.encoding}; set task.encoding to what the file is written in, for example 'latin-1'"
        ) from None


def _line_name(shard: Shard, number: int) -> str:
    return f"{shard.path.name} line {_line_at(shard, b'') + number}"


def _line_at(shard: Shard, before: bytes) -> int:
    """The number of a line in its file, by what stands before it in its shard: a second pass, for errors alone."""
    line, left = 1 + before.count(b"\n"), shard.start
    with open(shard.path, "rb") as file:
        while left > 0 and (block := file.read(min(left, SCAN_BYTES))):
            line += block.count(b"\n")
            left -= len(block)
    return line
