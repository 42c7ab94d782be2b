"""What kinds of task share in predicting: a table's texts are read, and written again with what a model says."""

import csv
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console

from plankwise.data.cells import read_cells, read_columns
from plankwise.data.pieces import Piece
from plankwise.data.quotes import Tally
from plankwise.data.tables import read_table
from plankwise.errors import ConfigError, DataError
from plankwise.files import whole_file


def check_columns(given: Sequence[str], wanted: int, what: str) -> None:
    """Compares how often --text is given with what a model takes; `what` ends the sentence.

    Raises:
        ConfigError: it is given more or less often.
    """
    if len(given) != wanted:
        raise ConfigError(f"--text is given {len(given)} time{'s' * (len(given) != 1)}; {what}")


def check_file(out: Path) -> None:
    """
    Raises:
        ConfigError: the place for predictions of a table is a folder.
    """
    if out.is_dir():
        raise ConfigError(f"--out is {out}, which is a folder; give the name of a csv file")


def check_folder(out: Path) -> None:
    """
    Raises:
        ConfigError: the place for predictions of test files is a file.
    """
    if out.is_file():
        raise ConfigError(f"--out is {out}, which is a file; test files are written into a folder")


def find_test(options: Any, out: Path, what: str) -> Any:
    """The task's test file, whose predictions go into the folder `out`; `what` says what it holds, and what else can be given.

    Raises:
        ConfigError: `out` is a file.
        DataError: there is no test file.
    """
    check_folder(out)
    if options.test is None:
        raise DataError(f"task.test is not given; name the file of {what}")
    return options.test


def read_texts(piece: Piece, texts: list[str], console: Console, *, key: str = "--table") -> pa.Table:
    """The columns of text of a file that `key` gave; says what is odd about its quotes.

    Raises:
        DataError: it cannot be read.
    """
    tally = Tally()
    table = read_table(piece.path, texts, piece.layout, key=key, tell=tally.add)
    for note in tally.notes:
        console.print(note, soft_wrap=True)
    return table


def write_beside(
    out: Path, piece: Piece, new: list[str], predictions: Iterable[list[str]], count: int, console: Console
) -> None:
    """Writes all columns of a file, and beside them predictions in the `new` columns; `count`: of the predictions.

    Raises:
        DataError: the file has changed meanwhile.
    """
    columns = read_columns(piece)
    write_rows(out, columns, read_cells(piece, columns), new, predictions, count, console)


def write_rows(
    path: Path,
    columns: list[str],
    rows: Iterable[list[str]],
    new: list[str],
    predictions: Iterable[list[str]],
    count: int,
    console: Console,
) -> None:
    """Writes rows as they come, each with its predictions behind it in the `new` columns; `count`: of the predictions.

    Raises:
        DataError: there are more or fewer rows than predictions.
    """
    names = [_free_name(name, columns) for name in new]
    for name, given in zip(new, names, strict=True):
        if given != name:
            console.print(f"the table has a column {name!r} already, so the new one is {given!r}", soft_wrap=True)
    with whole_file(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*columns, *names])
        for row, predicted in itertools.zip_longest(rows, predictions):
            if row is None or predicted is None:
                raise DataError(
                    f"the table has another number of rows than the {count} that were predicted, so it was changed "
                    "meanwhile; predict it again"
                )
            writer.writerow([*row, *predicted])


def _free_name(name: str, taken: list[str]) -> str:
    """The name, with a number behind it if it is taken."""
    names = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(2)))
    return next(one for one in names if one not in taken)
