"""A study's results as tables: on the terminal, in table.md and in table.json; published figures always apart and marked."""

import json
import statistics
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from plankwise.files import write_text
from plankwise.report.remarks import ADVICE, has_learnt_in_most, seeds_remark
from plankwise.report.text import as_markdown
from plankwise.studies import Arm, Axis, Measured, Published, StudyRequest

WIDTH = 100
COLUMNS = ("score", "lowest", "highest", "difference", "seeds", "idle steps")


def write_tables(request: StudyRequest, results: list[Measured], published: Published, axis: Axis) -> None:
    """Writes table.md and table.json."""
    texts = [f"# Study: {request.name}", *map(_markdown, results), _markdown_published(published)]
    write_text(request.folder / "table.md", "\n\n".join(texts) + "\n")
    data = {
        "study": request.name,
        "seeds": request.seeds,
        "axis": asdict(axis),
        "tasks": [to_json(measured) for measured in results],
        "published": asdict(published),
    }
    write_text(request.folder / "table.json", json.dumps(data, indent=2, ensure_ascii=False) + "\n")


def to_json(measured: Measured) -> dict[str, Any]:
    return {
        "task": measured.task,
        "metric": measured.metric,
        "baseline": {"name": measured.baseline_name, "score": measured.baseline},
        "arms": [_arm_to_json(measured, arm) for arm in measured.arms],
        "notes": [*measured.notes, *_constant_remarks(measured)],
    }


def show_tables(results: list[Measured], published: Published, console: Console) -> None:
    """Prints what was measured, then what was published."""
    for measured in results:
        _show(_title(measured), _columns(measured), _rows(measured), console)
        for line in _remarks(measured):
            _say(line, console)
        console.print()
    if published.rows:
        _show(_published_title(published), published.columns, _published_rows(published), console)
    else:
        _say(_published_title(published), console)
    if published.remark:
        _say(f"{published.source}: {published.remark}", console)


def _show(title: str, columns: tuple[str, ...], rows: list[tuple[str, ...]], console: Console) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("", overflow="fold")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    _say(title, console)
    console.print(table, width=min(WIDTH, console.width))


def _say(line: str, console: Console) -> None:
    console.print(line, width=min(WIDTH, console.width))


def _markdown(measured: Measured) -> str:
    lines = [f"## {as_markdown(_title(measured))}", "", *_markdown_table(_columns(measured), _rows(measured))]
    remarks = _remarks(measured)
    return "\n".join([*lines, *([""] if remarks else []), *(f"- {as_markdown(line)}" for line in remarks)])


def _markdown_published(published: Published) -> str:
    lines = [f"## {_published_title(published)}", ""]
    if published.rows:
        lines += [*_markdown_table(published.columns, _published_rows(published)), ""]
    return "\n".join([*lines, f"{published.source}: {published.remark}"]) if published.remark else "\n".join(lines[:-1])


def _markdown_table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    head = [f"| | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    return head + [f"| {' | '.join(map(as_markdown, row))} |" for row in rows]


def _title(measured: Measured) -> str:
    seeds = len({point.seed for point in measured.points})
    return f"{measured.task}: score is {measured.metric} on dev, the median of {seeds} seed{'s' if seeds > 1 else ''}"


def _published_title(published: Published) -> str:
    return f"published, not measured here: {published.source} ({published.setting})"


def _columns(measured: Measured) -> tuple[str, ...]:
    return COLUMNS if _any_idle(measured) else COLUMNS[:-1]


def _rows(measured: Measured) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    if measured.baseline is not None and measured.baseline_name not in (arm.label for arm in measured.arms):
        rows.append((measured.baseline_name, f"{measured.baseline:.4f}"))
    rows += [(_name(arm), *_cells(measured, arm)) for arm in measured.arms]
    width = 1 + len(_columns(measured))
    return [(*row, *[""] * (width - len(row)))[:width] for row in rows]


def _cells(measured: Measured, arm: Arm) -> tuple[str, ...]:
    scores, middle, asked = measured.scores(arm), measured.median(arm), len(measured.points_of(arm))
    if middle is None:
        return ("failed", "", "", "", f"0 of {asked}")
    idle = statistics.fmean(point.idle_share for point in measured.points_of(arm) if point.score is not None)
    return (
        f"{middle:.4f}",
        f"{min(scores):.4f}",
        f"{max(scores):.4f}",
        "" if measured.baseline is None else f"{middle - measured.baseline:+.4f}",
        str(asked) if len(scores) == asked else f"{len(scores)} of {asked}",
        f"{idle:.0%}",
    )


def _any_idle(measured: Measured) -> bool:
    return any(point.idle_share for point in measured.points)


def _remarks(measured: Measured) -> list[str]:
    lines = [] if measured.baseline is None else [f"difference: to the {measured.baseline_name}"]
    if _any_idle(measured):
        lines.append("idle steps: no slot was drawn, so nothing was trained")
    failed = [f"failed: {_name(p.arm)}, seed {p.seed}: {p.failure}" for p in measured.failures]
    return [*lines, *measured.notes, *_constant_remarks(measured), *failed]


def _constant_remarks(measured: Measured) -> list[str]:
    """A line for each arm with seeds that are not shown to know more than one answer."""
    found = {arm: seeds_remark(measured.described(arm)) for arm in measured.arms}
    return [f"{_name(arm)}: {remark}; {ADVICE}" for arm, remark in found.items() if remark]


def _name(arm: Arm) -> str:
    return ", ".join(filter(None, (arm.series, arm.row, arm.at)))


def _published_rows(published: Published) -> list[tuple[str, ...]]:
    return [
        (name, *("–" if figure is None else f"{figure:.{published.places}f}" for figure in figures))
        for name, figures in published.rows.items()
    ]


def _arm_to_json(measured: Measured, arm: Arm) -> dict[str, Any]:
    middle = measured.median(arm)
    known = middle is not None and measured.baseline is not None
    return {
        "name": _name(arm),
        "series": arm.series,
        "row": arm.row,
        "at": arm.at,
        "overrides": list(arm.overrides),
        "median": middle,
        "difference": middle - measured.baseline if known else None,  # type: ignore[operator]
        "remark": seeds_remark(measured.described(arm)),
        "learnt": has_learnt_in_most(measured.described(arm)),
        "cells": [
            {
                "seed": point.seed,
                "score": point.score,
                "idle_share": point.idle_share,
                "failure": point.failure or None,
                "beyond_constant": point.beyond_constant,
            }
            for point in measured.points_of(arm)
        ],
    }
