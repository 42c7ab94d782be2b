"""Texts with their translations: two text files line by line, gzip or not, or two columns of a table."""

import gzip
import zlib
from pathlib import Path
from typing import NamedTuple

from plankwise.data.formats import ENDINGS
from plankwise.data.pieces import Layout
from plankwise.data.tables import read_table
from plankwise.errors import DataError


class Pair(NamedTuple):
    source: str
    target: str


def read_pairs(
    given: str | list[str], source: str, target: str, *, key: str, encoding: str = "utf-8"
) -> tuple[list[Pair], int]:
    """The pairs in their order, and how many were dropped because a side is empty; `key` is the config key that gave the files.

    Raises:
        DataError: a file cannot be read, the files have other numbers of lines, or there are no pairs.
    """
    if isinstance(given, str):
        if Path(given).suffix.lower() not in ENDINGS:
            raise DataError(
                f"{key} is '{given}', one file that is no table; list two text files, the texts and their translations, or "
                "give a csv, tsv, jsonl or parquet file"
            )
        table = read_table(Path(given).expanduser(), [source, target], Layout(encoding=encoding), key=key)
        sides = [table[name].to_pylist() for name in (source, target)]
    else:
        sides = [read_lines(path, key, encoding) for path in given]
        if len(sides[0]) != len(sides[1]):
            raise DataError(
                f"{key}: '{given[0]}' has {len(sides[0])} lines and '{given[1]}' {len(sides[1])}; line by line, one must be the "
                "other's translation"
            )
    pairs = [Pair(one.strip(), other.strip()) for one, other in zip(*sides, strict=True)]
    kept = [pair for pair in pairs if all(pair)]
    if not kept:
        raise DataError(f"{key} is {given!r}, which has no texts; give at least one with its translation")
    return kept, len(pairs) - len(kept)


def read_lines(path: str, key: str, encoding: str) -> list[str]:
    """The lines of a text file, or of what gzip has packed.

    Raises:
        DataError: it cannot be read.
    """
    place = Path(path).expanduser()
    if not place.is_file():
        raise DataError(f"{key} is '{path}'; there is no such file: give a text file, a text a line")
    try:
        packed = place.read_bytes()
        text = (gzip.decompress(packed) if place.suffix.lower() == ".gz" else packed).decode(encoding)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(
            f"{place.name} cannot be read as {encoding} ({error}); set task.encoding, for example latin-1, or fix the file"
        ) from None
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines
