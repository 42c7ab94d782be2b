"""The errors of a task without labels of whole texts, in the one shape of `evaluation.error_view`: figures of both models side by
side, and the cases that got worse."""

from collections.abc import Mapping
from typing import Any

from plankwise.report._html import Column, TableCell, paragraph, table
from plankwise.report._svg import show_all
from plankwise.report.charts import Axis, BarChart, Bars, Chart
from plankwise.report.text import FORMS, change, cut, esc, is_number, share

MAX_GROUPS = 12  # rows of a table that its chart shows
MAX_TEXT = 600  # characters of each text of a case
PAIR = ("predecessor", "successor")
CELLS = {
    "both_right": "both right",
    "lost": "lost: only the predecessor is right",
    "gained": "gained: only the successor is right",
    "both_wrong": "both wrong",
}


def found_of(record: dict) -> dict:
    """What an analysis of errors found, of labels or in the common shape; empty without one."""
    return record.get("analysis", {}).get("errors") or {}


def is_view(found: dict) -> bool:
    """Whether it has the common shape."""
    return "tables" in found


def show_view(found: dict) -> str:
    """What the figures mean, the four cells, a chart of each table's first figures, and the tables."""
    cells = found.get("cells")
    return (
        paragraph(f"{found['examples']:,} {found['unit']} of dev. {found['note']}")
        + (count_cells(cells, found["cells_of"], sum(cells.values())) if cells else "")
        + show_all({"errors": view_charts(found)})
        + "".join(_table(one) for one in found["tables"])
    )


def count_cells(cells: Mapping[str, int], of: str, total: int) -> str:
    """How many are right by both models, by one of the two, by none."""
    rows = [
        {"cell": told, "count": cells.get(key), "share": cells.get(key, 0) / (total or 1)}
        for key, told in CELLS.items()
    ]
    columns = [Column("cell", "cell"), Column(of, "count", str), Column("share", "share", share)]
    return table("Right and wrong, both models", columns, rows, key="cells")


def view_charts(found: dict) -> list[Chart]:
    """A chart for each table of several rows: its first figure for both models."""
    charts: list[Chart] = []
    for one in found.get("tables", []):
        rows, first = one["rows"][:MAX_GROUPS], one["columns"][0]
        if len(rows) > 1:
            names = [row["name"] if row["of"] is None else f"{row['name']} ({row['of']:,})" for row in rows]
            bars = [
                Bars(model, [row[key][0] for row in rows], model)
                for model, key in zip(PAIR, ("before", "after"), strict=True)
            ]
            high = 1.0 if first["form"] == "share" else None
            label = f"{first['name']}, by {one['first']}" + (f" ({one['of']})" if one["of"] else "")
            charts.append(
                BarChart(one["title"], names, bars, Axis(label, low=0.0, high=high, show=_brief(first["form"])))
            )
    return charts


def cases(record: dict, key: str, most: int) -> str:
    """The cases that got worse, with a filter; texts are cut at MAX_TEXT characters."""
    found = found_of(record)
    if not is_view(found) or not found["cases_total"]:
        return ""
    listed, total = found["cases"][:most], found["cases_total"]
    if not listed:
        return paragraph(f"{found['cases_title']}: {total:,}. Their texts are not kept (analysis.texts is false).")
    left_out = f"; the first {len(listed)} of {total:,} are listed." if len(listed) < total else "."
    return (
        paragraph(f"{found['cases_title']}{left_out}")
        + f'<div class="filter" data-filters="{esc(key)}"><label>filter <input type="search" autocomplete="off" '
        f'placeholder="words in a case"></label> <span class="count" role="status">{len(listed)} shown</span></div>'
        f'<ol class="flips" id="{esc(key)}" tabindex="0" aria-label="cases">{"".join(map(_case, listed))}</ol>'
    )


def _case(one: dict) -> str:
    fields = "".join(f"<dt>{esc(name)}</dt><dd>{esc(cut(text, MAX_TEXT))}</dd>" for name, text in one["fields"])
    models = "".join(
        f'<dt class="t-{model}">{model}</dt><dd>{_lines(one[key])}</dd>'
        for model, key in zip(PAIR, ("before", "after"), strict=True)
    )
    return (
        f'<li><p class="text"><b>{esc(cut(one["title"], MAX_TEXT))}</b></p><dl>{fields}{models}</dl>'
        f'<p class="answers"><span class="row">row {esc(one["row"])}</span></p></li>'
    )


def _lines(lines: list[str]) -> str:
    return "<br>".join(esc(cut(line, MAX_TEXT)) for line in lines)


def _table(one: dict) -> str:
    of = [Column(one["of"], "of", FORMS["count"])] if one["of"] else []
    figures = [Column(column["name"], str(place), FORMS[column["form"]]) for place, column in enumerate(one["columns"])]
    rows = [_row(row, [column["form"] for column in one["columns"]]) for row in one["rows"]]
    total = one["rows_total"]
    left_out = f"; the first {len(rows)} of {total:,} rows" if len(rows) < total else ""
    caption = f"{one['title']}, before → after{left_out}"
    return table(caption, [Column(one["first"], "name"), *of, *figures], rows, key=f"errors-{one['first']}")


def _row(row: dict, forms: list[str]) -> dict[str, Any]:
    """Figures before and after in one cell each, sorted by what they are after."""
    pairs = zip(row["before"], row["after"], forms, strict=True)
    cells = {
        str(place): TableCell(change(before, after, form), after if is_number(after) else None)
        for place, (before, after, form) in enumerate(pairs)
    }
    return {"name": row["name"], "of": row["of"], **cells}


def _brief(form: str) -> Any:
    return share if form == "share" else FORMS["count"] if form == "count" else "{:.3g}".format
