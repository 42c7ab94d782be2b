"""An error view of any kind of task: counts before and after, and the cases that got worse, to be read one by one.

All kinds but `labels` have this one shape, so that one function shows it on the page and one in the terminal.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

MOST_CASES = 50
MOST_ROWS = 50  # of a table
MOST_CHARACTERS = 2_000  # of each text of a case

Form = Literal["count", "share", "number"]


class Row(NamedTuple):
    """A line of a table: what it is on, and one figure a column for each model; None where there is none."""

    name: str
    before: Sequence[float | None]
    after: Sequence[float | None]
    of: int | None = None  # how many examples it is on, the same for both models


class Table(NamedTuple):
    """Figures of predecessor and successor, side by side."""

    title: str
    first: str  # what a row is
    columns: Sequence[tuple[str, Form]]
    rows: Sequence[Row]
    of: str = ""  # what `Row.of` counts


class Case(NamedTuple):
    """An example to read; what the models gave is one line or several."""

    row: int  # its place among the dev examples
    title: str
    fields: Sequence[tuple[str, str]]  # names and texts, such as the question and the right answers
    before: Sequence[str]
    after: Sequence[str]


@dataclass(frozen=True)
class ErrorView:
    """What is said of the errors of predecessor and successor on the same examples."""

    kind: str  # of task
    examples: int
    unit: str  # what the examples are
    note: str  # what the figures mean
    tables: Sequence[Table]
    cases: Sequence[Case]  # the worst first, at least MOST_CASES of them if there are so many
    cases_title: str
    cases_total: int
    cells: Mapping[str, int] | None = None  # as `evaluation.errors.count_cells` gives them
    cells_of: str = ""  # what they count

    def to_json(self, *, keep_texts: bool = True) -> dict:
        """What the record says; without texts there are no cases, but how many there would be."""
        cells = {} if self.cells is None else {"cells": dict(self.cells), "cells_of": self.cells_of}
        return {
            "kind": self.kind,
            "examples": self.examples,
            "unit": self.unit,
            "note": self.note,
            **cells,
            "tables": [_table_to_json(table) for table in self.tables],
            "cases_title": self.cases_title,
            "cases_total": self.cases_total,
            "cases": [_case_to_json(case) for case in self.cases[:MOST_CASES]] if keep_texts else [],
        }


def make_row(name: str, both: Iterable[Sequence[float | None]], of: int | None = None) -> Row:
    """The row of what is measured of the predecessor, and then of the successor."""
    before, after = both
    return Row(name, before, after, of)


def worst_first(falls: np.ndarray) -> list[int]:
    """The rows of falls (N,) above zero, the largest first; of equals the earlier."""
    order = np.argsort(-falls, kind="stable")
    return order[falls[order] > 0].tolist()


def _table_to_json(table: Table) -> dict:
    return {
        "title": table.title,
        "first": table.first,
        "of": table.of,
        "columns": [{"name": name, "form": form} for name, form in table.columns],
        "rows_total": len(table.rows),
        "rows": [
            {"name": row.name, "of": row.of, "before": _finite(row.before), "after": _finite(row.after)}
            for row in table.rows[:MOST_ROWS]
        ],
    }


def _case_to_json(case: Case) -> dict:
    return {
        "row": case.row,
        "title": _shorten(case.title),
        "fields": [[name, _shorten(text)] for name, text in case.fields],
        "before": [_shorten(line) for line in case.before],
        "after": [_shorten(line) for line in case.after],
    }


def _finite(values: Sequence[float | None]) -> list[float | None]:
    return [None if value is None or not math.isfinite(value) else value for value in values]


def _shorten(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"
