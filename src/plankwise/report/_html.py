"""Building blocks of the page: tables that sort, figures with a legend, sections, things that fold."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from plankwise.report._text import MISSING, cut, esc, is_number

LONG = 32  # letters; a longer text in a table is broken into lines


@dataclass(frozen=True)
class Cell:
    """What a cell shows, and what it is sorted by."""

    text: str
    value: Any = None


@dataclass(frozen=True)
class Column:
    name: str
    numeric: bool = True


def cell(value: Any, show: Any) -> Cell:
    """A number as `show` writes it, sorted by its exact value; a missing one is sorted last."""
    return Cell(show(value), value if is_number(value) else None)


def table(caption: str, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, key: str = "") -> str:
    """A table whose head sorts it, in a box that scrolls by itself when the screen is narrow; the first column names a row.

    A column of numbers none of which is known is left out.
    """
    shown = [
        i for i, column in enumerate(columns) if not column.numeric or any(row[i].value is not None for row in rows)
    ]
    columns, rows = [columns[i] for i in shown], [[row[i] for i in shown] for row in rows]
    head = "".join(
        f'<th scope="col" aria-sort="none"{_numeric(column)}><button type="button">{esc(column.name)}</button></th>'
        for column in columns
    )
    body = "".join(f"<tr>{_row(columns, row)}</tr>" for row in rows)
    name = f' data-table="{esc(key)}"' if key else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{esc(cut(caption, 120))}"><table class="sortable"{name}>'
        f"<caption><span>{esc(caption)}</span></caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def facts(caption: str, rows: Sequence[tuple[str, str]]) -> str:
    """A table of two columns: names and values, not sorted."""
    body = "".join(f'<tr><th scope="row">{esc(name)}</th><td>{esc(value)}</td></tr>' for name, value in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{esc(cut(caption, 120))}"><table class="facts">'
        f"<caption><span>{esc(caption)}</span></caption><tbody>{body}</tbody></table></div>"
    )


def figure(
    title: str, chart: str, legend: Sequence[tuple[str, str]] = (), note: str = "", *, bars: bool = False
) -> str:
    """A chart under its title; `legend` is pairs of name and tone, shown as lines or as `bars`."""
    keys = "".join(
        f'<span class="key"><svg viewBox="0 0 26 10" aria-hidden="true">{_swatch(tone, bars)}</svg>{esc(name)}</span>'
        for name, tone in legend
    )
    return (
        f"<figure><figcaption>{esc(title)}</figcaption>"
        + (f'<div class="legend">{keys}</div>' if keys else "")
        + chart
        + (f'<p class="note">{esc(note)}</p>' if note else "")
        + "</figure>"
    )


def _swatch(tone: str, bars: bool) -> str:
    if bars:
        return f'<rect class="t-{tone}" x="8" width="10" height="10"/>'
    return (
        f'<line class="line t-{tone}" x1="1" x2="25" y1="5" y2="5"/><circle class="dot t-{tone}" cx="13" cy="5" r="4"/>'
    )


def section(title: str, *parts: str, key: str = "") -> str:
    """A headed part of the page; empty if all its parts are."""
    inside = "".join(parts)
    name = f' data-section="{esc(key)}"' if key else ""
    return f"<section{name}><h2>{esc(title)}</h2>{inside}</section>" if inside else ""


def grid(*figures: str) -> str:
    inside = "".join(figures)
    return f'<div class="grid-of-figures">{inside}</div>' if inside else ""


def fold(summary: str, inside: str) -> str:
    return f"<details><summary>{esc(summary)}</summary>{inside}</details>"


def paragraph(text: str, kind: str = "") -> str:
    return f"<p{f' class={kind}' if kind else ''}>{esc(text)}</p>"


def _numeric(column: Column) -> str:
    return ' class="number"' if column.numeric else ""


def _row(columns: Sequence[Column], row: Sequence[Cell]) -> str:
    parts = []
    for index, (column, one) in enumerate(zip(columns, row, strict=True)):
        value = "" if one.value is None and column.numeric else one.text if one.value is None else one.value
        kind = " class=number" if column.numeric else " class=words" if len(one.text) > LONG else ""
        start, end = ('<th scope="row"', "</th>") if index == 0 else ("<td", "</td>")
        parts.append(f'{start}{kind} data-value="{esc(value)}">{esc(one.text or MISSING)}{end}')
    return "".join(parts)
