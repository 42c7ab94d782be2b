"""Errors to label by hand: a sample of them as a table for a spreadsheet, and the same table read back (thesis §5.6)."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from plankwise.data.cells import make_safe, undo_safe
from plankwise.errors import DataError
from plankwise.evaluation.errors import MODELS
from plankwise.evaluation.rules import compare_classes
from plankwise.files import write_text

CLASS = "error_class"
LONGEST_ROW = 15  # digits of a row's number
SEPARATOR = ";"  # between the classes of an error that belongs to several
BYTE_ORDER_MARK = "\ufeff"  # without it some spreadsheets read utf-8 as something else


@dataclass(frozen=True)
class Answers:
    """The examples of a run in order, and the classes that its two models gave them."""

    texts: list[tuple[str, ...]]
    names: list[str]
    labels: np.ndarray  # (N,) class indices
    predicted: dict[str, np.ndarray]  # (N,) class indices, by model

    @property
    def wrong(self) -> dict[str, np.ndarray]:
        return {name: self.predicted[name] != self.labels for name in MODELS}

    @property
    def binary(self) -> bool:
        return len(self.names) == 2

    @property
    def columns(self) -> list[str]:
        return ["row", *("text", "text_pair")[: len(self.texts[0])], "label", *MODELS, CLASS]

    def cells(self, row: int) -> list[str]:
        """What the table says of an example, its error class empty."""
        answers = (self.names[self.predicted[name][row]] for name in MODELS)
        return [str(row), *self.texts[row], self.names[self.labels[row]], *answers, ""]


def write_sample(path: Path, answers: Answers, *, count: int, seed: int) -> int:
    """Writes a CSV of up to `count` examples that either model got wrong, and says how many they are.

    They are drawn by the seed; of two classes half are false positives and half false negatives, as far as there are so many.
    Each model's errors among them are a fair sample of all that it made on that side.

    Without any errors nothing is written.

    Raises:
        RunError: the place is not for writing.
    """
    rows = _draw(answers, count, seed)
    if not rows:
        return 0
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(answers.columns)
    writer.writerows([make_safe(cell) for cell in answers.cells(row)] for row in rows)
    write_text(path, BYTE_ORDER_MARK + text.getvalue())
    return len(rows)


def _draw(answers: Answers, count: int, seed: int) -> list[int]:
    wrong = answers.wrong["predecessor"] | answers.wrong["successor"]
    sides = [answers.labels == 0, answers.labels == 1] if answers.binary else [np.ones(len(wrong), dtype=bool)]
    generator = np.random.default_rng(seed)
    pools = sorted((generator.permutation(np.flatnonzero(wrong & side)) for side in sides), key=len)
    drawn: list[int] = []
    for left, pool in zip(range(len(pools), 0, -1), pools, strict=True):
        drawn += pool[: (count - len(drawn)) // left].tolist()
    return sorted(drawn)


def read_labels(path: Path, answers: Answers, *, margin: float) -> dict:
    """The error classes that were filled in, as a table like that of the rules, and how many rows were left empty.

    An error may belong to several classes, with a semicolon between them. Rows that were left empty count for nothing.

    Raises:
        DataError: no table, other columns, rows that are not of this run, or nothing filled in.
    """
    classes: dict[int, list[str]] = {}
    for line, cells in _read_rows(path, answers.columns):
        row = _check_row(path, line, cells, answers)
        if row in classes:
            raise DataError(f"{path.name} line {line}: row {row} is there twice; take one of the two out")
        classes[row] = [name for part in cells[-1].split(SEPARATOR) if (name := " ".join(part.split()))]
    labelled = np.array(sorted(row for row, found in classes.items() if found), dtype=int)
    if not len(labelled):
        raise DataError(f"{path.name} has nothing in the column {CLASS}; write the class of each error there")
    names = sorted({name for found in classes.values() for name in found})
    members = {name: np.array([name in classes[row] for row in labelled.tolist()]) for name in names}
    wrong = {name: mistakes[labelled] for name, mistakes in answers.wrong.items()}
    return {
        "margin": margin,
        "rules": [{"name": name, "rule": "labelled by hand"} for name in names],
        "labelled": len(labelled),
        "empty": len(classes) - len(labelled),
        "rows": compare_classes(members, wrong, answers.labels[labelled], binary=answers.binary, margin=margin),
    }


def _read_rows(path: Path, columns: list[str]) -> list[tuple[int, list[str]]]:
    """The number of the line that each row ends on, and its cells in the order of `columns`."""
    try:
        text = path.read_text("utf-8-sig")
        header = text.partition("\n")[0]
        delimiter = max(",;\t", key=header.count)
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        found = [name.strip() for name in next(reader, [])]
        lines = [(reader.line_num, cells) for cells in reader if any(cells)]
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not utf-8 at byte {error.start}; save it as a csv file in utf-8") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); give the file that --sample wrote") from None
    except csv.Error as error:
        raise DataError(f"{path} is not a csv file ({error}); give the file that --sample wrote") from None
    if sorted(found) != sorted(columns):
        raise DataError(
            f"{path.name} has the columns {', '.join(found) or 'none'}, but a sample of this run has {', '.join(columns)}; "
            "give the file that --sample wrote, with the last column filled in and no other added"
        )
    for line, cells in lines:
        if len(cells) != len(found):
            raise DataError(f"{path.name} line {line} has {len(cells)} cells instead of {len(found)}; fix the line")
    order = [found.index(name) for name in columns]
    return [(line, [undo_safe(cells[place]) for place in order]) for line, cells in lines]


def _check_row(path: Path, line: int, cells: list[str], answers: Answers) -> int:
    """The row's number, if all but its error class is what this run's sample would say, spaces aside."""
    number = cells[0].strip()
    row = int(number) if number.isdecimal() and len(number) <= LONGEST_ROW else -1
    known = 0 <= row < len(answers.texts)
    expected = answers.cells(row) if known else []
    for column, given, own in zip(answers.columns[1:-1], cells[1:-1], expected[1:-1], strict=False):
        if given.split() != own.split():
            raise DataError(
                f"{path.name} line {line}: {column} is {_short(given)}, but in row {row} of this run it is {_short(own)}; "
                "sample the errors of this run with --sample and label those"
            )
    if not known or not any(mistakes[row] for mistakes in answers.wrong.values()):
        raise DataError(
            f"{path.name} line {line}: row {_short(number)} is not an error of this run; "
            "sample the errors of this run with --sample and label those"
        )
    return row


def _short(text: str, most: int = 40) -> str:
    return repr(text if len(text) <= most else f"{text[:most]}…")
