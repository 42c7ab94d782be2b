"""Several runs side by side, and the tables that `plankwise compare` and `plankwise study` leave."""

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plankwise.errors import RunError
from plankwise.record import Shown
from plankwise.report._html import Column, TableCell, paragraph, section, table
from plankwise.report._svg import show_all
from plankwise.report.charts import TONES, Axis, BarChart, Bars, Chart, Charts, Dot, Lines, Point, Scatter, Series
from plankwise.report.remarks import NO_ROW, constant_claim, has_learnt, own_seconds, show_retained
from plankwise.report.sections import method_of
from plankwise.report.text import count, fixed, is_number, number, share, times
from plankwise.report.verdict import speedup_of

METHOD_TONES = ("successor", "predecessor", "truncated", "d", "e", "f", "g", "h")
# The plots of several runs by a value of their schedules: the file's name, the key, what the axis says.
CURVES = (
    ("score-by-rate", "rate", "constant replacing rate"),
    ("score-by-start", "start", "replacing rate at the start"),
    ("score-by-full-at", "full_at", "share of the steps at which the rate is 1"),
)
PARAMETERS = Column("parameters", "parameters", count)
SPEED = [Column("latency (ms)", "latency_ms", fixed(2)), Column("speed-up", "speedup", times)]
Runs = Sequence[tuple[str, dict]]  # names and records


def read_results(file: Path) -> dict:
    """The table.json of a comparison or a study.

    Raises:
        RunError: it cannot be read, or is neither.
    """
    try:
        data = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{file} cannot be read ({error}); run the command that wrote it again") from None
    if not isinstance(data, dict) or not isinstance(data.get("tasks", data.get("rows")), list):
        raise RunError(f"{file} is not a table of a comparison or a study; give a folder that plankwise wrote")
    return data


def summarise_runs(runs: Runs) -> list[dict[str, Any]]:
    """What the table of several runs shows of each."""
    rows = []
    for name, record in runs:
        model, shown = record.get("successor") or record["model"], Shown.of(record)
        rows.append(
            {
                "name": name,
                "task": record["task"].get("name", ""),
                "method": method_of(record) if "successor" in record else "whole model",
                "metric": shown.metric,
                "score": shown.value(model),
                "digits": shown.digits,
                "retained": record.get("retained"),
                "parameters": model.get("parameters"),
                "speedup": speedup_of(record)[0] if "successor" in record else None,
                "seconds": own_seconds(record),
                "kept": show_retained(model, record.get("retained")),
                "remark": constant_claim(model),
                "learnt": has_learnt(model) and has_learnt(record.get("predecessor", {})),
                "seed": record.get("seed"),
            }
        )
    return rows


def show_runs(runs: Runs) -> str:
    """The table of all runs and the chart of speed-up against what was kept."""
    rows = summarise_runs(runs)
    columns = [Column(key, key) for key in ("name", "task", "method", "metric")]
    columns += [Column("score", "score", number), Column("retained", "retained", share)]
    columns += [PARAMETERS, SPEED[1]]
    columns += [Column("seconds", "seconds", fixed(0)), Column("seed", "seed", str)]
    cells = [
        row
        | {
            "score": TableCell(number(row["score"], row["digits"]), row["score"]),
            "retained": TableCell(row["kept"], row["retained"]),
        }
        for row in rows
    ]
    listed = table("All runs; a column's head sorts", columns, cells, key="runs")
    listed += "".join(paragraph(f"{row['name']} {row['remark']}.", "note") for row in rows if row["remark"])
    chart = show_all({"speed-up-and-retained": _speed_and_share(rows)})
    return paragraph(runs_verdict(rows), "verdict") + section("All runs", listed, chart)


def runs_verdict(rows: list[dict[str, Any]]) -> str:
    """Which run kept the most, and which was fastest; across tasks only shares can be compared."""
    kept = [row for row in rows if is_number(row["retained"]) and row["learnt"]]
    if not kept and any(row["remark"] for row in rows):
        return f"{len(rows)} runs; none of them is shown to have kept anything that was learnt."
    if not kept:
        return f"{len(rows)} runs; none of them says what was kept."
    best = max(kept, key=lambda row: row["retained"])
    told = f"Of {len(rows)} runs, {best['name']} keeps the most: {share(best['retained'])} of {best['metric']} on {best['task']}"
    timed = [row for row in rows if is_number(row["speedup"])]
    if not timed:
        return f"{told}; speed was not measured."
    fastest = max(timed, key=lambda row: row["speedup"])
    return f"{told}; {fastest['name']} is the fastest, by {times(fastest['speedup'])}."


def comparison_charts(runs: Runs) -> Charts:
    """What is drawn of several runs: scores by a value of their schedules, and speed-up against what was kept."""
    charts = {name: _curve(runs, key, label) for name, key, label in CURVES}
    return charts | {"speed-up-and-retained": _speed_and_share(summarise_runs(runs))}


def _curve(runs: Runs, key: str, label: str) -> list[Chart]:
    """The score by the schedule's `key`, a line a task and learning rate through the means; none for a single value."""
    lines: dict[str, list[Point]] = {}
    for _, record in runs:
        config, task = record.get("config", {}), record["task"]["name"]
        schedule = config.get("method", {}).get("schedule") or {}
        constant = schedule.get("kind") == "constant"
        if is_number(schedule.get(key)) and (key == "rate") == constant and "successor" in record:
            rate = config.get("training", {}).get("learning_rate")
            line = task if constant else f"{task}, learning rate {rate}"
            lines.setdefault(line, []).append((schedule[key], record["successor"]["score"]))
    if all(len({value for value, _ in points}) < 2 for points in lines.values()):
        return []
    series = []
    for index, (name, points) in enumerate(lines.items()):
        scores: dict[float, list[float]] = {}
        for value, score in sorted(points):
            scores.setdefault(value, []).append(score)
        means = [(value, statistics.fmean(found)) for value, found in scores.items()]
        series.append(Series(name, means, TONES[index % len(TONES)], singles=points))
    return [Lines(f"Score by {label}", series, Axis(label), Axis("score on dev, mean as a line"))]


def _speed_and_share(rows: list[dict[str, Any]]) -> list[Chart]:
    methods = list(dict.fromkeys(row["method"] for row in rows))
    dots = [
        Dot(
            row["name"],
            row["speedup"],
            row["retained"],
            METHOD_TONES[methods.index(row["method"]) % len(METHOD_TONES)],
            group=row["method"],
            tip=f"{row['name']} ({row['method']}): {times(row['speedup'])} faster, {share(row['retained'])} kept",
        )
        for row in rows
        if is_number(row["speedup"]) and is_number(row["retained"]) and row["learnt"]
    ]
    x = Axis("speed-up (times faster than the predecessor)")
    y = Axis("share of the score kept", show=lambda value: f"{100 * value:.4g}%")
    return [Scatter("Speed-up and what was kept", dots, x, y)] if dots else []


def show_results(data: dict) -> str:
    """The table of a comparison, of a study, or of the four settings of a domain."""
    if "study" in data:
        return _study(data)
    return _settings(data) if "rows" in data else _methods(data)


def result_verdicts(data: dict) -> list[str]:
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
    known = [arm for arm in known if arm.get("learnt", True)]
    if not known:
        return f"On {task['task']} no arm is shown to have learnt the task."
    best = max(known, key=lambda arm: arm["median"])
    told = f"On {task['task']}, {best['name']} has the highest median {task['metric']}: {number(best['median'])}"
    baseline = task.get("baseline") or {}
    beside = f"; the {baseline['name']} has {number(baseline['score'])}" if is_number(baseline.get("score")) else ""
    return f"{told}{beside}."


def _methods(data: dict) -> str:
    return "".join(_task(task) for task in data["tasks"]) + _macro(data.get("macro") or [])


def _task(task: dict) -> str:
    columns = [Column("row", "name"), *(Column(key, key, number) for key in ("median", "spread", "best"))]
    columns += [Column("retained", "retained", share), Column("seconds", "seconds", fixed(0)), PARAMETERS, *SPEED]
    columns.append(Column("verdict", "verdict"))
    rows = [
        {**row, "name": f"{row['label']}, own budget" if row.get("own_budget") else row["label"]}
        for row in task["rows"]
    ]
    failures = "".join(
        paragraph(f"{row['label']}: {row['failure']}", "note") for row in task["rows"] if row.get("failure")
    ) + "".join(paragraph(note, "note") for note in task.get("notes") or [])
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
    rows = [row for row in rows if row.get("learnt", True)]
    if not rows:
        return f"On {task['name']} {NO_ROW}."
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
    return show_all({"": [BarChart(title, [name for name, _, _ in known], bars, Axis(f"{metric} on dev"), dots=True)]})


def _macro(rows: list[dict]) -> str:
    if not rows:
        return ""
    columns = [Column("row", "label"), Column("macro", "macro", number), Column("retained", "retained", share)]
    return section("All tasks", table("Mean of the medians over the tasks", columns, rows, key="macro"))


def _study(data: dict) -> str:
    shown = []
    for task in data["tasks"]:
        baseline = task.get("baseline") or {}
        columns = [Column("arm", "name")]
        columns += [Column(key, key, number) for key in ("median", "lowest", "highest", "difference")]
        rows, dots = [], []
        for arm in task["arms"]:
            scores = [one["score"] for one in arm["cells"] if is_number(one.get("score"))]
            rows.append({**arm, "lowest": min(scores, default=None), "highest": max(scores, default=None)})
            dots.append((str(arm["name"]), arm.get("median"), scores))
        caption = f"{task['metric']} on dev over {_seeds(len(data.get('seeds', [])))}; difference: to the {baseline.get('name')}"
        chart = _medians(f"{task['metric']} by arm: median, lowest and highest seed", task["metric"], dots)
        notes = "".join(paragraph(note, "note") for note in task.get("notes") or [])
        shown.append(paragraph(_study_verdict(task), "verdict"))
        shown.append(
            section(f"Study {data['study']}: {task['task']}", table(caption, columns, rows, key="study"), chart, notes)
        )
    return "".join(shown) + _published(data.get("published") or {})


def _published(published: dict) -> str:
    if not published.get("rows"):
        return ""
    names, show = published["columns"], fixed(published.get("places", 1))
    columns = [Column("row", "row name"), *(Column(str(name), name, show) for name in names)]
    rows = [{**dict(zip(names, row, strict=True)), "row name": name} for name, row in published["rows"].items()]
    caption = f"{published.get('source')} ({published.get('setting')})"
    remark = paragraph(published["remark"], "note") if published.get("remark") else ""
    return section("Published, not measured here", table(caption, columns, rows, key="published"), remark)


def _settings(data: dict) -> str:
    columns = [
        Column("setting", "name"),
        Column("median", "median", number),
        Column("perplexity", "perplexity", fixed(2)),
    ]
    columns += [
        Column("retained", "retained", share),
        PARAMETERS,
        Column("until best (s)", "seconds_to_best", fixed(0)),
    ]
    columns += SPEED
    rows = [{**row, "median": statistics.median(row["scores"]) if row.get("scores") else None} for row in data["rows"]]
    caption = f"{' and '.join(data['score'])} on dev, {_seeds(len(data.get('seeds') or []))}; median over the seeds"
    notes = "".join(paragraph(f"{row['name']}: {row['remark']}", "note") for row in rows if row.get("remark"))
    return section(str(data["task"]), table(caption, columns, rows, key="settings"), notes)
