"""Several runs side by side, and the tables that `plankwise compare` and `plankwise study` leave."""

import json
import statistics
from pathlib import Path
from typing import Any

from plankwise.errors import RunError
from plankwise.report._axes import Axis
from plankwise.report._html import Cell, Column, cell, figure, grid, paragraph, section, table
from plankwise.report._text import count, is_number, number, share, times
from plankwise.report.charts import Bars, Dot, bar_chart, scatter
from plankwise.report.sections import method_of
from plankwise.report.verdict import score_name, score_of, speedup_of

TONES = ("successor", "predecessor", "floor", "a", "b", "c", "d", "e")


def read_table(file: Path) -> dict:
    """A comparison's or study's table.

    Raises:
        RunError: it cannot be read, or is neither.
    """
    try:
        data = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{file} cannot be read ({error}); run the command that wrote it again") from None
    if not isinstance(data, dict) or not isinstance(data.get("tasks", data.get("rows")), list):
        raise RunError(f"{file} is no table of a comparison or a study; give a folder that plankwise wrote")
    return data


def compare_rows(runs: list[tuple[str, dict]]) -> list[dict[str, Any]]:
    """What the comparison table shows of each run."""
    rows = []
    for name, record in runs:
        main = record.get("successor") or record["model"]
        rows.append(
            {
                "name": name,
                "task": record["task"].get("name", ""),
                "method": method_of(record) if "successor" in record else "whole model",
                "metric": score_name(record),
                "score": score_of(record, main),
                "retained": record.get("retained"),
                "parameters": main.get("parameters"),
                "speedup": speedup_of(record)[0] if "successor" in record else None,
                "seconds": record.get("seconds"),
                "seed": record.get("seed"),
            }
        )
    return rows


def show_runs(runs: list[tuple[str, dict]]) -> str:
    """The comparison table and the chart of speed-up against what was kept."""
    rows = compare_rows(runs)
    columns = [Column("name", numeric=False), Column("task", numeric=False), Column("method", numeric=False)]
    columns += [Column("metric", numeric=False), Column("score"), Column("retained"), Column("parameters")]
    columns += [Column("speed-up"), Column("seconds"), Column("seed")]
    cells = [
        [
            Cell(row["name"]),
            Cell(str(row["task"])),
            Cell(row["method"]),
            Cell(row["metric"]),
            cell(row["score"], number),
            cell(row["retained"], share),
            cell(row["parameters"], count),
            cell(row["speedup"], times),
            cell(row["seconds"], lambda value: number(value, 0)),
            Cell(str(row["seed"]), row["seed"]),
        ]
        for row in rows
    ]
    return paragraph(compare_verdict(rows), "verdict") + section(
        "All runs", table("All runs; a column's head sorts", columns, cells, key="runs"), _speed_and_share(rows)
    )


def compare_verdict(rows: list[dict[str, Any]]) -> str:
    """Which run kept the most, and which was fastest; across tasks shares alone compare."""
    kept = [row for row in rows if is_number(row["retained"])]
    if not kept:
        return f"{len(rows)} runs; none of them says what was kept."
    best = max(kept, key=lambda row: row["retained"])
    told = f"Of {len(rows)} runs, {best['name']} keeps the most: {share(best['retained'])} of {best['metric']} on {best['task']}"
    timed = [row for row in rows if is_number(row["speedup"])]
    if not timed:
        return f"{told}; speed was not measured."
    fastest = max(timed, key=lambda row: row["speedup"])
    return f"{told}; {fastest['name']} is the fastest, by {times(fastest['speedup'])}."


def show_table(data: dict) -> str:
    """The table of a comparison, of a study, or of the four settings of a domain."""
    if "study" in data:
        return _study(data)
    return _settings(data) if "rows" in data else _methods(data)


def table_verdicts(data: dict) -> list[str]:
    """A sentence a task."""
    if "study" in data:
        return [_study_verdict(task) for task in data["tasks"]]
    if "rows" in data:
        return [f"{len(data['rows'])} settings of a domain on {data['task']}."]
    return [comparison_verdict(task) for task in data["tasks"]]


def _study_verdict(task: dict) -> str:
    known = [arm for arm in task["arms"] if is_number(arm.get("median"))]
    if not known:
        return f"On {task['task']} no arm has a score."
    best = max(known, key=lambda arm: arm["median"])
    told = f"On {task['task']}, {best['name']} has the highest median {task['metric']}: {number(best['median'])}"
    baseline = task.get("baseline") or {}
    beside = f"; the {baseline['name']} has {number(baseline['score'])}" if is_number(baseline.get("score")) else ""
    return f"{told}{beside}."


def _speed_and_share(rows: list[dict[str, Any]]) -> str:
    methods = list(dict.fromkeys(row["method"] for row in rows))
    tone = {method: TONES[index % len(TONES)] for index, method in enumerate(methods)}
    dots = [
        Dot(
            row["name"],
            row["speedup"],
            row["retained"],
            tone[row["method"]],
            f"{row['name']} ({row['method']}): {times(row['speedup'])} faster, {share(row['retained'])} kept",
        )
        for row in rows
        if is_number(row["speedup"]) and is_number(row["retained"])
    ]
    if not dots:
        return ""
    title = "Speed-up and what was kept"
    axes = (
        Axis("speed-up (times faster than the predecessor)"),
        Axis("share of the score kept", show=lambda v: f"{100 * v:.4g}%"),
    )
    used = [(method, tone[method]) for method in methods if any(dot.tone == tone[method] for dot in dots)]
    return grid(figure(title, scatter(title, dots, *axes), used, bars=True))


def _methods(data: dict) -> str:
    return "".join(_task(task) for task in data["tasks"]) + _macro(data.get("macro") or [])


def _task(task: dict) -> str:
    columns = [Column("row", numeric=False), Column("median"), Column("spread"), Column("best"), Column("retained")]
    columns += [
        Column("seconds"),
        Column("parameters"),
        Column("latency (ms)"),
        Column("speed-up"),
        Column("verdict", numeric=False),
    ]
    rows = [
        [
            Cell(f"{row['label']}, own budget" if row.get("own_budget") else str(row["label"])),
            *(cell(row.get(key), number) for key in ("median", "spread", "best")),
            cell(row.get("retained"), share),
            cell(row.get("seconds"), lambda value: number(value, 0)),
            cell(row.get("parameters"), count),
            cell(row.get("latency_ms"), lambda value: number(value, 2)),
            cell(row.get("speedup"), times),
            Cell(str(row.get("verdict", ""))),
        ]
        for row in task["rows"]
    ]
    failures = "".join(
        paragraph(f"{row['label']}: {row['failure']}", "note") for row in task["rows"] if row.get("failure")
    )
    metric = " and ".join(task["score"])
    seeds = len({one["seed"] for one in task.get("cells") or []})
    caption = f"{metric} on dev, {_seeds(seeds)}; p of a paired randomisation test, Holm-corrected"
    scores: dict[str, list[float]] = {}
    for one in task.get("cells") or []:
        if is_number(one.get("score")):
            scores.setdefault(one["label"], []).append(one["score"])
    chart = _medians(f"{metric} by row: median, lowest and highest seed", metric, [
        (str(row["label"]), row.get("median"), scores.get(row["label"], [])) for row in task["rows"]
    ])  # fmt: skip
    head = paragraph(comparison_verdict(task), "verdict")
    return head + section(str(task["name"]), table(caption, columns, rows, key="comparison"), chart, failures)


def comparison_verdict(task: dict) -> str:
    """What the best row kept, and how the best replacing row stands to the baseline, by the table's own verdicts."""
    rows = [row for row in task["rows"] if row["label"] != "predecessor" and is_number(row.get("median"))]
    if not rows:
        return f"On {task['name']} no row has a score."
    best = max(rows, key=lambda row: row["median"])
    kept = f", {share(best['retained'])} of the predecessor's" if is_number(best.get("retained")) else ""
    told = f"On {task['name']}, {best['label']} has the highest median: {number(best['median'])}{kept}"
    return f"{told} ({best['verdict']})." if best.get("verdict") else f"{told}."


def _seeds(number_of: int) -> str:
    return f"{number_of} seed{'s' if number_of != 1 else ''}"


def _medians(title: str, metric: str, rows: list[tuple[str, Any, list[float]]]) -> str:
    known = [(name, median, scores) for name, median, scores in rows if is_number(median)]
    if not known:
        return ""
    intervals = [(min(scores), max(scores)) if len(scores) > 1 else None for _, _, scores in known]
    bars = [Bars("", [median for _, median, _ in known], "successor", intervals)]
    chart = bar_chart(title, [name for name, _, _ in known], bars, Axis(f"{metric} on dev"), dots=True)
    return grid(figure(title, chart))


def _macro(rows: list[dict]) -> str:
    if not rows:
        return ""
    columns = [Column("row", numeric=False), Column("macro"), Column("retained")]
    cells = [
        [Cell(str(row["label"])), cell(row.get("macro"), number), cell(row.get("retained"), share)] for row in rows
    ]
    return section("All tasks", table("Mean of the medians over the tasks", columns, cells, key="macro"))


def _study(data: dict) -> str:
    parts = []
    for task in data["tasks"]:
        baseline = task.get("baseline") or {}
        columns = [
            Column("arm", numeric=False),
            Column("median"),
            Column("lowest"),
            Column("highest"),
            Column("difference"),
        ]
        rows, dots = [], []
        for arm in task["arms"]:
            scores = [one["score"] for one in arm["cells"] if is_number(one.get("score"))]
            ends = (min(scores), max(scores)) if scores else (None, None)
            rows.append(
                [Cell(str(arm["name"])), *(cell(v, number) for v in (arm.get("median"), *ends, arm.get("difference")))]
            )
            dots.append((str(arm["name"]), arm.get("median"), scores))
        caption = f"{task['metric']} on dev over {_seeds(len(data.get('seeds', [])))}; difference: to the {baseline.get('name')}"
        chart = _medians(f"{task['metric']} by arm: median, lowest and highest seed", task["metric"], dots)
        notes = "".join(paragraph(note, "note") for note in task.get("notes") or [])
        parts.append(paragraph(_study_verdict(task), "verdict"))
        parts.append(
            section(f"Study {data['study']}: {task['task']}", table(caption, columns, rows, key="study"), chart, notes)
        )
    return "".join(parts) + _published(data.get("published") or {})


def _published(published: dict) -> str:
    if not published.get("rows"):
        return ""
    columns = [Column("row", numeric=False), *(Column(str(name)) for name in published["columns"])]
    places = published.get("places", 1)
    rows = [
        [Cell(name), *(cell(value, lambda value: number(value, places)) for value in values)]
        for name, values in published["rows"].items()
    ]
    caption = f"{published.get('source')} ({published.get('setting')})"
    remark = paragraph(published["remark"], "note") if published.get("remark") else ""
    return section("Published, not measured here", table(caption, columns, rows, key="published"), remark)


def _settings(data: dict) -> str:
    columns = [Column("setting", numeric=False), Column("median"), Column("perplexity"), Column("retained")]
    columns += [Column("parameters"), Column("until best (s)"), Column("latency (ms)"), Column("speed-up")]
    rows = [
        [
            Cell(str(row["name"])),
            cell(statistics.median(row["scores"]) if row.get("scores") else None, number),
            cell(row.get("perplexity"), lambda value: number(value, 2)),
            cell(row.get("retained"), share),
            cell(row.get("parameters"), count),
            cell(row.get("seconds_to_best"), lambda value: number(value, 0)),
            cell(row.get("latency_ms"), lambda value: number(value, 2)),
            cell(row.get("speedup"), times),
        ]
        for row in data["rows"]
    ]
    caption = f"{' and '.join(data['score'])} on dev, {_seeds(len(data.get('seeds') or []))}; median over the seeds"
    return section(str(data["task"]), table(caption, columns, rows, key="settings"))
