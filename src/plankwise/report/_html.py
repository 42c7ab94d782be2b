"""Building blocks of the page: tables that sort and fit, sections, things that fold."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plankwise.report.text import MISSING, cut, esc, is_number

LONG = 14  # letters; a longer text in a table is broken into lines
NO_BREAK = "\u2011"  # a hyphen at which no line is broken
FEW = 4  # columns that fit a phone, and rows that need no sorting there


@dataclass(frozen=True)
class TableCell:
    """What a cell shows, what it is sorted by, and whether it is among the best of its column."""

    text: str
    value: Any = None
    best: bool = False


@dataclass(frozen=True)
class Column:
    """A column's head, the key of what it shows of a row, and how it writes numbers; None: it shows text."""

    name: str
    key: str
    show: Callable[[Any], str] | None = None


def table(
    caption: str, columns: Sequence[Column], rows: Sequence[Mapping[str, Any]], *, key: str = "", sorts: bool = True
) -> str:
    """A table whose head sorts it if it `sorts`; the first column names a row.

    Where the table's box is too narrow for its columns, each row is a card: its name, then each value after its column's head.
    Numbers are sorted by their exact value, missing ones last. A column of numbers none of which is known is left out.
    """
    cells = {column: [_cell(column, row.get(column.key)) for row in rows] for column in columns}
    cells = {
        column: ours for column, ours in cells.items() if not column.show or any(c.value is not None for c in ours)
    }
    head = "".join(f'<th scope="col"{_numeric(column)}{_head(column, sorts=sorts)}</th>' for column in cells)
    body = "".join(f"<tr>{_row(list(cells), row)}</tr>" for row in zip(*cells.values(), strict=True))
    name = f' data-table="{esc(key)}"' if key else ""
    size = "few" if len(cells) <= FEW else "many"
    kind = f"{'sortable ' if sorts else ''}{'long' if len(rows) > FEW else 'short'}"
    return _box(
        caption, f'<table class="{kind}"{name}>', f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>", size=size
    )


def facts(caption: str, rows: Sequence[tuple[str, str]]) -> str:
    """A table of two columns: names and values, not sorted."""
    body = "".join(f'<tr><th scope="row">{esc(name)}</th><td>{esc(value)}</td></tr>' for name, value in rows)
    return _box(caption, '<table class="facts">', f"<tbody>{body}</tbody>", size="whole")


def _box(caption: str, start: str, inside: str, *, size: str) -> str:
    return (
        f'<div class="scroll {size}" tabindex="0" role="region" aria-label="{esc(cut(caption, 120))}">{start}'
        f"<caption>{esc(caption)}</caption>{inside}</table></div>"
    )


def section(title: str, *contents: str, key: str = "") -> str:
    """Contents under a heading; empty if all of them are."""
    inside = "".join(contents)
    name = f' data-section="{esc(key)}"' if key else ""
    return f"<section{name}><h2>{esc(title)}</h2>{inside}</section>" if inside else ""


def judged(verdict: str, title: str, *contents: str, alone: bool) -> str:
    """A section with its verdict: at the top of the page if it is the only one, else under its own heading."""
    told = paragraph(verdict, "verdict")
    return told + section(title, *contents) if alone else section(title, told, *contents)


def grid(*figures: str) -> str:
    inside = "".join(figures)
    return f'<div class="grid-of-figures">{inside}</div>' if inside else ""


def fold(summary: str, inside: str) -> str:
    return f"<details><summary>{esc(summary)}</summary>{inside}</details>"


def paragraph(text: str, kind: str = "") -> str:
    return f"<p{f' class={kind}' if kind else ''}>{esc(text)}</p>"


def _numeric(column: Column) -> str:
    return ' class="number"' if column.show else ""


def _head(column: Column, *, sorts: bool) -> str:
    name = esc(column.name).replace("-", NO_BREAK)
    return f' aria-sort="none"><button type="button">{name}</button>' if sorts else f">{name}"


def _cell(column: Column, value: Any) -> TableCell:
    if isinstance(value, TableCell):
        return value
    if column.show is None:
        return TableCell("" if value is None else str(value))
    return TableCell(column.show(value), value if is_number(value) else None)


def _row(columns: Sequence[Column], row: Sequence[TableCell]) -> str:
    cells = []
    for index, (column, one) in enumerate(zip(columns, row, strict=True)):
        value = "" if one.value is None and column.show else one.text if one.value is None else one.value
        kind = " class=number" if column.show else " class=words" if len(one.text) > LONG else ""
        start, end = ('<th scope="row"', "</th>") if index == 0 else (f'<td data-label="{esc(column.name)}"', "</td>")
        shown = f"<strong>{esc(one.text)}</strong>" if one.best else esc(one.text or MISSING)
        cells.append(f'{start}{kind} data-value="{esc(value)}">{shown}{end}')
    return "".join(cells)
