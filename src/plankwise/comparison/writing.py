"""A comparison as files: table.md, table.csv and table.json."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

from plankwise.comparison.tables import (
    MEANING,
    Row,
    TaskTable,
    columns_of,
    figures_of,
    macro_rows,
    macro_title,
    show_score,
    show_share,
    unlearnt,
)
from plankwise.data.cells import make_safe
from plankwise.files import write_text
from plankwise.record import describe_machine
from plankwise.report.speed import speedup_keys


def write_tables(tables: Sequence[TaskTable], folder: Path) -> Path:
    """Writes table.md, table.csv and table.json; gives the path of the first."""
    write_text(folder / "table.csv", _csv(tables))
    write_text(folder / "table.json", json.dumps(_json(tables), indent=2, ensure_ascii=False))
    write_text(folder / "table.md", _markdown(tables))
    return folder / "table.md"


def _markdown(tables: Sequence[TaskTable]) -> str:
    lines = []
    for table in tables:
        columns = columns_of(table.task)
        lines += [f"## {_cell(table.title)}", "", *markdown_head(["", *columns, "verdict"])]
        lines += [
            markdown_line([row.name, *figures_of(row, full=True)[: len(columns)], row.verdict]) for row in table.rows
        ]
        below = [f"- {_cell(row.label)}: {_cell(row.failure)}" for row in table.rows if row.failure]
        below += [f"- {_cell(note)}" for note in table.notes]
        lines += ["", *below, ""] if below else [""]
    if len(tables) > 1:
        lines += [f"## {macro_title(tables)}", "", *markdown_head(["", "macro", "retained"])]
        lines += [
            markdown_line([label, show_score(mean), show_share(share, marked=label in unlearnt(tables))])
            for label, mean, share in macro_rows(tables)
        ]
        lines += [""]
    return "\n".join([*lines, f"{MEANING[0].upper()}{MEANING[1:]}.", ""])


def markdown_head(header: list[str]) -> list[str]:
    return [markdown_line(header), "|" + "|".join(["---"] + ["---:"] * (len(header) - 1)) + "|"]


def markdown_line(cells: list[str]) -> str:
    return "| " + " | ".join(map(_cell, cells)) + " |"


def _cell(text: str) -> str:
    """Text that Markdown shows as it stands, on one line."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _csv(tables: Sequence[TaskTable]) -> str:
    out = io.StringIO()
    rows = [{"task": table.task.name, **_flat(plain_row(row))} for table in tables for row in table.rows]
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {key: make_safe(cell, keep_numbers=True) if isinstance(cell, str) else cell for key, cell in row.items()}
        for row in rows
    )
    if len(tables) > 1:
        for label, mean, share in macro_rows(tables):
            writer.writerow({"task": "macro", "label": label, "median": mean, "retained": share})
    return out.getvalue()


def _flat(row: dict) -> dict:
    """The same with the interval in two columns."""
    low, high = row["speedup_interval"] or (None, None)
    rest = {key: value for key, value in row.items() if key != "speedup_interval"}
    return {**rest, "speedup_low": low, "speedup_high": high}


def plain_row(row: Row) -> dict:
    """A row's figures, unrounded."""
    summary, comparison = row.summary, row.comparison
    keys = ("median", "spread", "best", "retained", "seconds")
    return {
        "label": row.label,
        **{key: None if summary is None else getattr(summary, key) for key in keys},
        "parameters": row.parameters,
        "latency_ms": row.latency_ms,
        **speedup_keys(row.faster),
        "difference": None if comparison is None else comparison.difference,
        "p": None if comparison is None else comparison.p,
        "verdict": row.verdict,
        "own_budget": row.own_budget,
        "given": row.given,
        "failure": row.failure,
        "remark": row.remark,
        "learnt": row.learnt,
        "held_back": row.held_back,
        "rank": row.rank,
    }


def _json(tables: Sequence[TaskTable]) -> dict:
    tasks = [
        {
            "name": table.task.name,
            "recipe": table.task.recipe,
            "score": list(table.task.score_names),
            "predecessor": table.task.predecessor,
            "baseline": table.baseline,
            "latency_batch": table.task.latency_batch,
            "timing": table.task.timing,
            "rows": [plain_row(row) for row in table.rows],
            "notes": table.notes,
            "cells": [cell.to_json() for cell in table.task.cells],
            "given": {row.label: row.path for row in table.task.given},
            "configs": {label: config.model_dump(mode="json") for label, config in table.task.configs.items()},
        }
        for table in tables
    ]
    macros = [{"label": label, "macro": mean, "retained": share} for label, mean, share in macro_rows(tables)]
    return {
        "tasks": tasks,
        "macro": macros if len(tables) > 1 else None,
        "seeds": sorted({cell.seed for table in tables for cell in table.task.cells}),
        "machine": describe_machine(),
    }
