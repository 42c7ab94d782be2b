"""Texts whose words have tags: CoNLL files (a word a line, an empty line between texts), jsonl and parquet with lists."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from plankwise.errors import DataError

TABLES = (".jsonl", ".parquet")


class Tagged(NamedTuple):
    """One text; tags are empty where none are asked for."""

    words: tuple[str, ...]
    tags: tuple[str, ...]


def read_tagged(
    path: str, words: str, tags: str | None, names: list[str] | None, *, key: str, encoding: str = "utf-8"
) -> list[Tagged]:
    """The texts of a file, in their order.

    Of jsonl and parquet files `words` and `tags` are the columns with lists; any other file is CoNLL's: the first field of a line
    is the word, the last the tag, with tabs or else blanks between. Tags that are whole numbers are places in `names`. `key` is the
    config key that gave the path; with `tags` None, tags are not read.

    Raises:
        DataError: the file cannot be read, has no texts, or a text is not what it should be; says where.
    """
    place = Path(path).expanduser()
    if not place.is_file():
        raise DataError(
            f"{key} is '{path}'; there is no such file: give a CoNLL, jsonl or parquet file of tagged words"
        )
    rows = _read_table(place, words, tags) if place.suffix.lower() in TABLES else _read_conll(place, tags, encoding)
    found = []
    for where, some, given in rows:
        if tags is not None and len(some) != len(given):
            raise DataError(f"{where} has {len(some)} words and {len(given)} tags; give one tag for each word")
        if some:
            found.append(Tagged(tuple(map(str, some)), tuple(_name(tag, names, where) for tag in given)))
    if not found:
        raise DataError(f"{key} is '{path}', which has no texts; give a file with at least one")
    return found


def _name(tag: Any, names: list[str] | None, where: str) -> str:
    if isinstance(tag, str) and tag:
        return tag
    if isinstance(tag, int) and names is not None and 0 <= tag < len(names):
        return names[tag]
    raise DataError(
        f"{where}: tag {tag!r} is not a name; give names, or numbers and in task.labels the names that they count, in their order"
    )


def _read_conll(path: Path, tags: str | None, encoding: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Texts with the line that each begins at; CoNLL's marks of documents and comments are left out."""
    words: list[str] = []
    given: list[str] = []
    first = 1
    for number, line in enumerate([*_lines(path, encoding), ""], 1):
        fields = [part.strip() for part in line.split("\t")] if "\t" in line else line.split()
        if not any(fields):
            yield f"{path.name} line {first}", words, given
            words, given, first = [], [], number + 1
        elif fields[0] == "-DOCSTART-" or (line.startswith("# ") and not words):
            continue
        elif tags is not None and len(fields) < 2:
            raise DataError(
                f"{path.name} line {number}: {line!r} has no tag; a line is a word, a tab or blanks, and its tag"
            )
        else:
            words.append(fields[0])
            given += fields[-1:] if tags is not None else []


def _lines(path: Path, encoding: str) -> list[str]:
    try:
        return path.read_text(encoding).split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"{path.name} cannot be read as {encoding} ({error}); set task.encoding, for example latin-1"
        ) from None


def _read_table(path: Path, words: str, tags: str | None) -> Iterator[tuple[str, list, list]]:
    columns = [words] if tags is None else [words, tags]
    for number, row in enumerate(_read_rows(path, columns), 1):
        where = f"{path.name} {'line' if path.suffix.lower() == '.jsonl' else 'row'} {number}"
        for name in columns:
            if not isinstance(row, dict) or not isinstance(row.get(name), list):
                raise DataError(
                    f"{where} has no list {name!r}; name the columns of words and of tags in task.words and task.tags"
                )
        yield where, row[words], [] if tags is None else row[tags]


def _read_rows(path: Path, columns: list[str]) -> Iterator[Any]:
    if path.suffix.lower() == ".jsonl":
        for number, line in enumerate(_lines(path, "utf-8"), 1):
            if line.strip():
                try:
                    yield json.loads(line)
                except ValueError as error:
                    raise DataError(f"{path.name} line {number} is not JSON ({error}); fix it") from None
        return
    try:
        table = pq.read_table(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path.name} cannot be read ({error}); give a parquet file") from None
    yield from table.select([name for name in columns if name in table.column_names]).to_pylist()
