"""Several runs side by side: a table and a chart for each task, for scores of different tasks do not compare."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from plankwise.record import Shown
from plankwise.report._html import Column, TableCell, judged, paragraph, table
from plankwise.report._svg import show_all
from plankwise.report.charts import TONES, Axis, Chart, Charts, Dot, Lines, Point, Scatter, Series
from plankwise.report.ranking import lead_by_error, listed
from plankwise.report.remarks import constant_claim, has_learnt, own_seconds, show_retained
from plankwise.report.sections import method_of
from plankwise.report.speed import ShownSpeedup, speedup_cell, speedup_of
from plankwise.report.text import count, fixed, is_number, number, share, times

METHOD_TONES = ("successor", "predecessor", "truncated", "d", "e", "f", "g", "h")
# The plots of several runs by a value of their schedules: the file's name, the key, what the axis says.
CURVES = (
    ("score-by-rate", "rate", "constant replacing rate"),
    ("score-by-start", "start", "replacing rate at the start"),
    ("score-by-full-at", "full_at", "share of the steps at which the rate is 1"),
)
Runs = Sequence[tuple[str, dict]]  # names and records
Row = dict[str, Any]


@dataclass(frozen=True)
class RunGroup:
    """Runs on one task with one metric; `warning` says why their scores do not compare even so, else it is empty."""

    title: str
    runs: Runs
    warning: str

    @property
    def rows(self) -> list[Row]:
        return summarise_runs(self.runs)

    @property
    def verdict(self) -> str:
        if self.warning:
            return f"{len(self.runs)} runs on {self.title}, which are not ranked: {self.warning}."
        return runs_verdict(self.rows)


def group_runs(runs: Runs) -> list[RunGroup]:
    """The runs by task and metric, in the order in which they were given."""
    groups: dict[tuple, list[tuple[str, dict]]] = {}
    for name, record in runs:
        task, shown = record["task"], Shown.of(record)
        labels = tuple(map(str, task.get("labels") or []))
        groups.setdefault((task.get("name", ""), shown.metric, task.get("kind"), labels), []).append((name, record))
    titles = [f"{task}, {metric}" if task else metric for task, metric, *_ in groups]
    return [
        RunGroup(title if titles.count(title) == 1 else f"{title}, labels {', '.join(key[3])}", found, _warning(found))
        for title, (key, found) in zip(titles, groups.items(), strict=True)
    ]


def groups_note(groups: Sequence[RunGroup]) -> str:
    """Why there are several tables; empty if there is one."""
    if len(groups) < 2:
        return ""
    runs = sum(len(group.runs) for group in groups)
    return (
        f"{runs} runs in {len(groups)} groups: scores on different tasks, or by different metrics, do not compare, "
        "so each group has a ranking of its own."
    )


def summarise_runs(runs: Runs) -> list[Row]:
    """What the table of several runs shows of each."""
    rows = []
    for name, record in runs:
        model, shown = record.get("successor") or record["model"], Shown.of(record)
        faster = speedup_of(record) if "successor" in record else None
        rows.append(
            {
                "name": name,
                "task": record["task"].get("name", ""),
                "method": method_of(record) if "successor" in record else "whole model",
                "metric": shown.metric,
                "score": shown.value(model),
                "digits": shown.digits,
                "lower": shown.lower_is_better,
                "dev": sum(_dev_rows(record).values()),
                "before": shown.value(record.get("predecessor") or {}),
                "retained": record.get("retained"),
                "parameters": model.get("parameters"),
                "speedup": None if faster is None else faster.ratio,
                "faster": faster,
                "seconds": own_seconds(record),
                "kept": show_retained(model, record.get("retained")),
                "remark": constant_claim(model),
                "learnt": has_learnt(model) and has_learnt(record.get("predecessor", {})),
                "seed": record.get("seed"),
            }
        )
    return rows


def show_runs(runs: Runs) -> str:
    """For each group of runs its verdict, its table and the chart of speed-up against what was kept."""
    groups = group_runs(runs)
    note = groups_note(groups)
    return (paragraph(note) if note else "") + "".join(_show_group(one, alone=len(groups) == 1) for one in groups)


def runs_verdict(rows: list[Row]) -> str:
    """Which runs of one group are best, and which are fastest; ties are named together."""
    key, show = ("score", fixed(rows[0]["digits"])) if rows[0]["lower"] else ("retained", share)
    known = [row for row in rows if is_number(row[key]) and row["learnt"]]
    if not known:
        measured = any(is_number(row[key]) for row in rows)
        if len(rows) == 1:
            told = "is not shown to have kept anything that was learnt" if measured else "does not say what was kept"
            return f"{rows[0]['name']} {told}."
        what = "is shown to have kept anything that was learnt" if measured else "says what was kept"
        return f"{len(rows)} runs; none of them {what}."
    best = [known[index] for index in (_best_scores(known) if rows[0]["lower"] else _most_kept(known))]
    best.sort(key=lambda row: row[key], reverse=not rows[0]["lower"])
    figures = list(dict.fromkeys(show(row[key]) for row in (best[0], best[-1])))
    metric, task, many = rows[0]["metric"], rows[0]["task"], len(best) > 1
    if len(rows) == 1:
        return f"{rows[0]['name']}, the only run on {task}, {_alone(rows[0], figures[0])}."
    claim = (
        f"{'have' if many else 'has'} the lowest {metric} on {task}: {' to '.join(figures)}"
        if rows[0]["lower"]
        else f"{'keep' if many else 'keeps'} the most: {' to '.join(figures)} of {metric} on {task}"
    )
    told = f"Of {len(rows)} runs, {listed([row['name'] for row in best])} {claim}{_tie(best, figures)}"
    timed = [row for row in rows if is_number(row["speedup"])]
    if not timed:
        return f"{told}; speed was not measured."
    fastest = [timed[index]["name"] for index in sorted(_fastest(timed))]
    top = max(row["speedup"] for row in timed)
    return f"{told}; {listed(fastest)} {'is' if len(fastest) == 1 else 'are'} the fastest, by {times(top)}."


def _tie(best: list[Row], figures: list[str]) -> str:
    """Why several runs are named as the best."""
    if len(figures) > 1:
        return f", a gap within the sampling error of {best[0]['dev']:,} dev examples"
    return ", a tie" if len(best) > 1 else ""


def _alone(row: Row, figure: str) -> str:
    """What a run with none beside it reached."""
    reached = f"has a {row['metric']} of {figure}" if row["lower"] else f"keeps {figure} of {row['metric']}"
    timed = f"is {times(row['speedup'])} as fast" if is_number(row["speedup"]) else "was not timed"
    return f"{reached} and {timed}"


def run_charts(runs: Runs) -> Charts:
    """What is drawn of several runs, a panel a group: scores by a value of their schedules, speed-up against what was kept."""
    groups = group_runs(runs)
    charts = {name: [one for group in groups for one in _curve(group, key, label)] for name, key, label in CURVES}
    return charts | {"speed-up-and-retained": [one for group in groups for one in _speed_and_share(group)]}


def _show_group(group: RunGroup, *, alone: bool) -> str:
    rows = group.rows
    columns = [Column(key, key) for key in ("name", "method")]
    columns += [Column(rows[0]["metric"], "score", number), Column("retained", "retained", share)]
    columns += [Column("parameters", "parameters", count), Column("speed-up", "speedup", times)]
    columns += [Column("seconds", "seconds", fixed(0)), Column("seed", "seed", str)]
    ranked = not group.warning and len(rows) > 1
    best, kept, fastest = (_best_scores(rows), _most_kept(rows), _fastest(rows)) if ranked else (set(), set(), set())
    cells = [
        row
        | {
            "score": TableCell(number(row["score"], row["digits"]), row["score"], index in best),
            "retained": TableCell(row["kept"], row["retained"], index in kept),
            "speedup": replace(speedup_cell(row["faster"]), best=index in fastest),
        }
        for index, row in enumerate(rows)
    ]
    meaning = "; bold: the best, and what is not shown to differ from it" if ranked else ""
    dev = f" on {rows[0]['dev']:,} dev examples" if len({row["dev"] for row in rows}) == 1 and rows[0]["dev"] else ""
    listed_runs = table(f"{rows[0]['metric']}{dev}{meaning}", columns, cells, key="runs")
    listed_runs += "".join(paragraph(f"{row['name']} {row['remark']}.", "note") for row in rows if row["remark"])
    chart = show_all({"": _speed_and_share(group)}) if len(rows) > 1 else ""
    return judged(group.verdict, f"Runs on {group.title}", listed_runs, chart, alone=alone)


def _best_scores(rows: list[Row]) -> set[int]:
    errors = [_error(row["score"], row) for row in rows]
    return lead_by_error(_learnt(rows, "score"), errors, lower=rows[0]["lower"], places=rows[0]["digits"])


def _error(score: Any, row: Row) -> float | None:
    """The standard error of a share right on as many dev examples; None for a metric that is not such a share."""
    if row["metric"] != "accuracy" or not row["dev"] or not is_number(score) or not 0 <= score <= 1:
        return None
    return math.sqrt(score * (1 - score) / row["dev"])


def _most_kept(rows: list[Row]) -> set[int]:
    """Those that kept the most; the error of what was kept is the score's, by the predecessor's score."""
    found = []
    for row in rows:
        error, before = _error(row["score"], row), row["before"]
        found.append(error / before if error is not None and is_number(before) and before > 0 else None)
    return lead_by_error(_learnt(rows, "retained"), found, places=3)


def _learnt(rows: list[Row], key: str) -> list[float | None]:
    """The values of the runs that are shown to have learnt the task; the others do not compete."""
    return [row[key] if row["learnt"] else None for row in rows]


def _fastest(rows: list[Row]) -> set[int]:
    errors = [_error_of_speed(row["faster"]) for row in rows]
    return lead_by_error([row["speedup"] for row in rows], errors, places=2)


def _error_of_speed(found: ShownSpeedup | None) -> float | None:
    """The standard error that the interval stands for; None where there is no interval."""
    return None if found is None or found.interval is None else (found.interval[1] - found.interval[0]) / 2 / 1.96


def _dev_rows(record: dict) -> dict[str, float]:
    dev = record["task"].get("dev")
    return {name: rows for name, rows in dev.items() if is_number(rows)} if isinstance(dev, dict) else {}


def _warning(runs: Runs) -> str:
    """What tells the dev sets of runs on one task apart; empty if nothing does."""
    sizes = {name: sum(_dev_rows(record).values()) for name, record in runs}
    if len(set(sizes.values())) > 1:
        told = listed([f"{size:,} in {name}" for name, size in sizes.items()])
        return f"their dev sets have different numbers of examples ({told})"
    seeds = {name: _seed_of_dev(record) for name, record in runs}
    if len(set(seeds.values())) > 1:
        told = listed([f"{seed} in {name}" for name, seed in seeds.items() if seed is not None])
        return f"their dev sets were drawn with different seeds ({told}); set run.data_seed to one value for all"
    return ""


def _seed_of_dev(record: dict) -> int | None:
    """The seed that drew the dev set; None for one that was given and is used whole."""
    config, task = record.get("config") or {}, record["task"]
    given = set(_dev_rows(record)) <= set(task.get("dropped") or {})
    if given and (config.get("task") or {}).get("dev_limit") is None:
        return None
    seed = (config.get("run") or {}).get("data_seed")
    return record.get("seed") if seed is None else seed


def _curve(group: RunGroup, key: str, label: str) -> list[Chart]:
    """The score by the schedule's `key`, a line a learning rate through the means; none for a single value."""
    lines: dict[str, list[Point]] = {}
    for _, record in group.runs:
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
    return [Lines(f"{group.title}: score by {label}", series, Axis(label), Axis("score on dev, mean as a line"))]


def _speed_and_share(group: RunGroup) -> list[Chart]:
    rows = group.rows
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
    return [Scatter(f"{group.title}: speed-up and what was kept", dots, x, y)] if dots else []
