"""Predictions as a csv file: all columns of a table, then what a model says of each row."""

import csv
import itertools
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from plankwise.errors import DataError
from plankwise.files import whole_file


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
