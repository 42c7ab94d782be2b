"""Unlabelled documents of a file or folder of any size, shard by shard: only one shard is ever in memory."""

import codecs
import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from plankwise.data.formats import ENDINGS, check_columns, explained, read_batches, read_names, read_text
from plankwise.data.pieces import SCAN_BYTES, Layout, Piece, check_records, find_body, scan
from plankwise.data.quotes import Tell, log
from plankwise.errors import DataError

SHARD_BYTES = 16 << 20  # a shard is this long, and goes on to the end of its last line
PLAIN = (".txt", ".raw")


@dataclass(frozen=True)
class Shard:
    """A piece of one file, and how to find the documents in it."""

    piece: Piece
    unit: Literal["line", "file"]  # what a document of plain text is
    column: str | None  # where the text of a table is; None for plain text
    order: int | None = None  # seeds the order of the documents; None: as they are in the file


def find_shards(
    path: str,
    *,
    unit: Literal["line", "file"],
    column: str | None,
    encoding: str = "utf-8",
    quoting: bool = True,
    key: str,
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
    tables = [file for file in files if file.suffix.lower() in ENDINGS]
    if column is not None and not tables:
        raise DataError(
            f"task.column is {column!r}, but {key} is '{path}', which is plain text without columns; take task.column out"
        )
    shards = []
    for file in files:
        whole = Piece(file, Layout(encoding=encoding, quoting=quoting, keys="text"))
        with explained(whole):
            shards += _shards_of(whole, unit, column)
    if not shards:
        raise DataError(f"{key} is '{path}', in which there is nothing to read; give a file with at least one text")
    return shards


def read_shard(shard: Shard, tell: Tell = log) -> list[str]:
    """The shard's documents in the order that it asks for, without white space around them; empty ones are left out.

    `tell` gets the lines and rows of a table in which quotes can join lines.

    Raises:
        DataError: the file cannot be read, or a piece of it is not text.
    """
    if shard.column is None:
        text = read_text(shard.piece)
        texts: Sequence[str | None] = [text] if shard.unit == "file" else text.split("\n")
    else:
        batches = read_batches(shard.piece, [shard.column], only_text=True, tell=tell)
        columns = (batch[shard.column].cast(pa.large_string()) for batch in batches)
        texts = [text for column in columns for text in column.to_pylist()]
    found = [stripped for text in texts if text and (stripped := text.strip())]
    if shard.order is None:
        return found
    return [found[index] for index in np.random.default_rng([shard.order, shard.piece.start]).permutation(len(found))]


def held_out(text: str, share: float, seed: int) -> bool:
    """Whether the text is among the `share` that is held out: the same answer for the same text, wherever it is."""
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
            f"task.encoding is {encoding!r}, in which a line does not end in one byte as in ASCII, so that a large file cannot be "
            "cut into pieces; convert the files to utf-8"
        )
    return name


def _list_files(place: Path, key: str) -> list[Path]:
    if place.is_file():
        return [place]
    if not place.is_dir():
        raise DataError(f"{key} is '{place}'; there is no such file or folder: give the path of one with texts")
    files = [
        file
        for file in sorted(place.rglob("*"))
        if file.suffix.lower() in (*PLAIN, *ENDINGS)
        and not any(part.startswith(".") for part in file.relative_to(place).parts)
        and file.is_file()
    ]
    if not files:
        raise DataError(f"{key} is '{place}', which has no file that ends in {', '.join((*PLAIN, *ENDINGS))}; add one")
    return files


def _shards_of(whole: Piece, unit: Literal["line", "file"], column: str | None) -> list[Shard]:
    path, size = whole.path, whole.path.stat().st_size
    if size == 0:
        return []
    if whole.form is None:
        column = None
        bounds = [0, size] if unit == "file" else _cut_lines(path, size)
    else:
        names = read_names(whole)
        if not names:
            return []
        if column is None:
            known = ", ".join(names)
            raise DataError(f"{path.name} has columns; set task.column to the one with the text: {known}")
        check_columns(path, [column], names, "; set task.column to the one with the text")
        if whole.form == "parquet":
            bounds = _cut_row_groups(path, column)
        elif whole.form == "jsonl":
            bounds = _cut_lines(path, size)
        elif whole.layout.quoting:
            bounds = _cut_records(replace(whole, start=find_body(whole)), size, len(names))
        else:
            bounds = _cut_lines(path, size, find_body(whole))
    return [Shard(replace(whole, start=start, end=end), unit, column) for start, end in itertools.pairwise(bounds)]


def _cut_lines(path: Path, size: int, start: int = 0) -> list[int]:
    """Where shards begin, and the end: each cut is behind the end of a line; only what is around the cuts is read."""
    bounds = [start]
    with open(path, "rb") as file:
        while bounds[-1] + SHARD_BYTES < size:
            file.seek(bounds[-1] + SHARD_BYTES - 1)
            while (piece := file.readline(SCAN_BYTES)) and not piece.endswith(b"\n"):
                pass
            bounds.append(file.tell())
    return bounds if bounds[-1] == size else [*bounds, size]


def _cut_records(body: Piece, size: int, width: int) -> list[int]:
    """The same for a table behind its header, where the end of a line between double quotes does not end a record."""
    bounds, at, quotes = [body.start], body.start, 0
    for block in scan(body):
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
        check_records(body, width)
        raise DataError(
            f"{body.path.name} has an odd number of double quotes, so that it cannot be cut into pieces; double each quote "
            "that is part of the text, and put the field between quotes"
        )
    return bounds if bounds[-1] == size else [*bounds, size]


def _cut_row_groups(path: Path, column: str) -> list[int]:
    """Row groups gathered until they pass the size of a shard; a single one is never cut."""
    with pa.parquet.ParquetFile(path) as file:
        kind = file.schema_arrow.field(column).type
        if not _is_text(kind.value_type if pa.types.is_dictionary(kind) else kind):
            raise DataError(f"{path.name}: column {column!r} has the type {kind}; give a column of text in task.column")
        # the file's own numbering counts the parts of nested columns, so the place is found by name
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
