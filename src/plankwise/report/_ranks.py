"""Where a ranking loses: how many queries, and those whose best relevant text fell furthest."""

from typing import Any

from plankwise.report._html import Column, paragraph, table
from plankwise.report.text import cut, number

MAX_TEXT = 200


def ranks(found: dict[str, Any]) -> str:
    """A sentence and a table of what the analysis of a ranking found; empty for an analysis of another kind."""
    if "fallen" not in found:
        return ""
    told = paragraph(
        f"Of {found['queries']:,} dev queries {found['worse']:,} rank worse by the successor and {found['better']:,} better; both "
        f"orders agree with Kendall's tau {number(found['agreement'], 3)}."
    )
    if not found["fallen"]:
        return told
    columns = [Column("query", "query"), Column("its best relevant text", "text"), Column("now first", "first")]
    columns += [
        Column("rank before", "before", _rank),
        Column("rank after", "after", _rank),
        Column("texts", "texts", str),
    ]
    rows = [
        {**row, **{name: cut(row.get(name, ""), MAX_TEXT) for name in ("text", "first")}}
        for row in ({"query": f"query {row['row'] + 1}", **row} for row in found["fallen"])
    ]
    shown, total = len(rows), found["fallen_total"]
    caption = f"Queries whose best relevant text fell{f', {shown:,} of {total:,}' if shown < total else ''}"
    return told + table(caption, columns, rows, key="fallen")


def _rank(value: Any) -> str:
    return f"{value:g}"
