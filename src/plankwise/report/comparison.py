"""The tables that `plankwise compare` and `plankwise study` leave."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from plankwise.errors import RunError
from plankwise.files import read_json
from plankwise.report._html import Column, TableCell, judged, paragraph, section, table
from plankwise.report._svg import show_all
from plankwise.report.charts import Axis, BarChart, Bars
from plankwise.report.frontier import frontier_verdict, show_frontier
from plankwise.report.heat_maps import draw_heat_maps
from plankwise.report.ranking import ALPHA, lead_by_seeds, lead_by_test, listed
from plankwise.report.remarks import MARK
from plankwise.report.search import search_verdict, show_search
from plankwise.report.speed import speedup_cell, speedup_of_row
from plankwise.report.sweep import show_sweep, sweep_verdict
from plankwise.report.text import count, fixed, is_number, number, share, signed, times

PREDECESSOR = "predecessor"
BOLD = "bold: the highest median, and those not shown to differ from it"
MARKS = {"own_budget": "own budget", "given": "given"}  # of rows that are not trained as the others are
PARAMETERS = Column("parameters", "parameters", count)
SPEED = [Column("latency (ms)", "latency_ms", fixed(2)), Column("speed-up", "speedup", times)]


@dataclass(frozen=True)
class _Ranked:
    """A row of any of the tables: its median over the seeds, and whether it leads."""

    name: str
    median: float | None
    scores: list[float]  # of the seeds
    leads: bool = False


def read_results(file: Path) -> dict:
    """The table.json of a comparison or a study.

    Raises:
        RunError: it cannot be read, or is neither.
    """
    data = read_json(file, "run the command that wrote it again")
    if not isinstance(data.get("tasks", data.get("rows")), list):
        raise RunError(f"{file} is not a table of a comparison or a study; give a folder that plankwise wrote")
    return data


def show_results(data: dict) -> str:
    """The table of a comparison, a study, a frontier, a search for a plan, a sweep, or of the four settings of a domain."""
    if "frontier" in data:
        return show_frontier(data)
    if "search" in data:
        return show_search(data)
    if "sweep" in data:
        return show_sweep(data)
    if "study" in data:
        return _study(data)
    return _settings(data) if "rows" in data else _methods(data)


def result_verdicts(data: dict) -> list[str]:
    """A sentence a task."""
    if "frontier" in data:
        return [frontier_verdict(data)]
    if "search" in data:
        return [search_verdict(data)]
    if "sweep" in data:
        return [sweep_verdict(data)]
    if "study" in data:
        return [_study_verdict(task) for task in data["tasks"]]
    if "rows" in data:
        return [_settings_verdict(data)]
    return [comparison_verdict(task) for task in data["tasks"]]


def _methods(data: dict) -> str:
    alone = len(data["tasks"]) == 1
    return "".join(_task(task, alone=alone) for task in data["tasks"]) + _macro(data.get("macro") or [])


def _task(task: dict, *, alone: bool) -> str:
    columns = [Column("row", "name"), *(Column(key, key, number) for key in ("median", "spread", "best"))]
    columns += [Column("retained", "retained", share), Column("seconds", "seconds", fixed(0)), PARAMETERS, *SPEED]
    columns.append(Column("verdict", "verdict"))
    rows = [
        {
            **row,
            "name": ", ".join([row["label"], *(word for key, word in MARKS.items() if row.get(key))]),
            "speedup": speedup_cell(speedup_of_row(row)),
        }
        for row in task["rows"]
    ]
    metric = " and ".join(task["score"])
    seeds = len({one["seed"] for one in task.get("cells") or []})
    caption = f"{metric} on dev, {_seeds(seeds)}; p of a paired randomisation test, Holm-corrected; {BOLD}"
    scores: dict[str, list[float]] = {}
    for one in task.get("cells") or []:
        if is_number(one.get("score")):
            scores.setdefault(one["label"], []).append(one["score"])
    ranked = _ranked(task)
    dots = [replace(one, scores=scores.get(one.name, [])) for one in ranked]
    told = [f"{row['label']}: {row['failure']}" for row in task["rows"] if row.get("failure")]
    return judged(
        comparison_verdict(task),
        str(task["name"]),
        table(caption, columns, _marked(rows, ranked), key="comparison"),
        _medians(metric, "row", dots),
        *(paragraph(note, "note") for note in [*told, *(task.get("notes") or [])]),
        alone=alone,
    )


def _ranked(task: dict) -> list[_Ranked]:
    """The rows of a comparison; the predecessor, which all are measured by, does not compete."""
    rows = task["rows"]
    places = [index for index, row in enumerate(rows) if row["label"] != PREDECESSOR and _has_learnt(row)]
    leaders = {places[index] for index in lead_by_test([rows[index] for index in places])}
    return [_Ranked(str(row["label"]), row.get("median"), [], index in leaders) for index, row in enumerate(rows)]


def _has_learnt(row: dict) -> bool:
    """Whether the row is shown to know more than one answer; tables of earlier versions do not say."""
    return bool(row.get("learnt", True))


def _marked(rows: list[dict], ranked: list[_Ranked]) -> list[dict]:
    """The rows as the table shows them: medians that lead in bold, shares that are not an achievement with a star."""
    found = []
    for row, one in zip(rows, ranked, strict=True):
        kept = row.get("retained")
        star = "" if _has_learnt(row) or not is_number(kept) else MARK
        cells = {
            "median": TableCell(number(one.median), one.median, one.leads),
            "retained": TableCell(share(kept) + star, kept),
        }
        found.append(row | cells)
    return found


def comparison_verdict(task: dict) -> str:
    """Which rows lead and what they kept, by the table's own test."""
    leading = {one.name for one in _ranked(task) if one.leads}
    leaders = sorted((row for row in task["rows"] if row["label"] in leading), key=lambda row: -row["median"])
    if not leaders:
        scored = any(is_number(row.get("median")) for row in task["rows"] if row["label"] != PREDECESSOR)
        return f"On {task['name']} no row {'is shown to have learnt the task' if scored else 'has a score'}."
    if len(leaders) == 1:
        (best,) = leaders
        kept = f", {share(best['retained'])} of the predecessor's" if is_number(best.get("retained")) else ""
        told = f"On {task['name']}, {best['label']} has the highest median: {number(best['median'])}{kept}"
        return f"{told} ({best['verdict']})." if best.get("verdict") else f"{told}."
    names = listed([f"{row['label']} ({number(row['median'])})" for row in leaders])
    kept = _range([row.get("retained") for row in leaders], share)
    told = f"On {task['name']}, {names} lead{f', with {kept} of what the predecessor reaches' if kept else ''}"
    if all(is_number(row.get("p")) and row["p"] < ALPHA for row in leaders):
        return f"{told}: each is shown to be better than {task.get('baseline')}, but they were not tested against each other."
    return f"{told}; no difference between them is shown."


def _range(values: list[Any], show: Callable[[Any], str]) -> str:
    """The lowest and the highest value, or the one that all have; empty if none is known."""
    known = [value for value in values if is_number(value)]
    return " to ".join(dict.fromkeys(map(show, (min(known), max(known))))) if known else ""


def _seeds(number_of: int) -> str:
    return f"{number_of} seed{'s' if number_of != 1 else ''}"


def _medians(metric: str, what: str, rows: list[_Ranked]) -> str:
    """A dot a row at its median, with the lowest and the highest seed as a whisker; all that lead have one colour."""
    known = [row for row in rows if is_number(row.median)]
    if not known:
        return ""
    intervals = [(min(row.scores), max(row.scores)) if len(row.scores) > 1 else None for row in known]
    tones = ["predecessor" if row.name == PREDECESSOR else "successor" if row.leads else "h" for row in known]
    bars = [
        Bars(
            name,
            [row.median if tone == here else None for row, tone in zip(known, tones, strict=True)],
            here,
            [pair if tone == here else None for pair, tone in zip(intervals, tones, strict=True)],
        )
        for here, name in {"predecessor": PREDECESSOR, "successor": "among the best", "h": "not among them"}.items()
        if here in tones
    ]
    spread = ": median, lowest and highest seed" if any(intervals) else ""
    title, names = f"{metric} by {what}{spread}", [row.name for row in known]
    return show_all({"": [BarChart(title, names, bars, Axis(f"{metric} on dev"), stacked=True, dots=True)]})


def _macro(rows: list[dict]) -> str:
    if not rows:
        return ""
    columns = [Column("row", "label"), Column("macro", "macro", number), Column("retained", "retained", share)]
    return section("All tasks", table("Mean of the medians over the tasks", columns, rows, key="macro"))


def _study(data: dict) -> str:
    alone = len(data["tasks"]) == 1
    shown = [_study_task(data, task, alone=alone) for task in data["tasks"]]
    return "".join(shown) + _published(data.get("published") or {})


def _study_task(data: dict, task: dict, *, alone: bool) -> str:
    baseline, arms = task.get("baseline") or {}, _arms(task)
    columns = [Column("arm", "name"), *(Column(key, key, number) for key in ("median", "lowest", "highest"))]
    columns.append(Column("difference", "difference", signed))
    rows = [
        {**row, "lowest": min(arm.scores, default=None), "highest": max(arm.scores, default=None)}
        for row, arm in zip(task["arms"], arms, strict=True)
    ]
    seeds = _seeds(len(data.get("seeds", [])))
    caption = f"{task['metric']} on dev over {seeds}; difference: to the {baseline.get('name')}; {BOLD}"
    before = [_Ranked(PREDECESSOR, baseline.get("score"), [])] if baseline.get("name") == PREDECESSOR else []
    return judged(
        _study_verdict(task),
        f"Study {data['study']}: {task['task']}",
        table(caption, columns, _marked(rows, arms), key="study"),
        *_heat_maps(data, task),
        _medians(task["metric"], "arm", before + arms),
        *(paragraph(note, "note") for note in task.get("notes") or []),
        alone=alone,
    )


def _heat_maps(data: dict, task: dict) -> list[str]:
    axis = data.get("axis") or {}  # tables of earlier versions have none
    return [show_all({"": draw_heat_maps(task, axis, "")})] if axis.get("rows") else []


def _arms(task: dict) -> list[_Ranked]:
    scores = [[one["score"] for one in arm["cells"] if is_number(one.get("score"))] for arm in task["arms"]]
    return _rank_by_seeds(task["arms"], "name", [arm.get("median") for arm in task["arms"]], scores)


def _rank_by_seeds(rows: list[dict], key: str, middles: list[float | None], scores: list[list[float]]) -> list[_Ranked]:
    """Rows that nothing was tested on; those that are not shown to have learnt the task do not lead."""
    competing = [middle if _has_learnt(row) else None for row, middle in zip(rows, middles, strict=True)]
    leaders = lead_by_seeds(scores, competing)
    return [_Ranked(str(row[key]), middles[index], scores[index], index in leaders) for index, row in enumerate(rows)]


def _study_verdict(task: dict) -> str:
    told = _seeds_verdict(task["task"], task["metric"], _arms(task), "arm")
    baseline = task.get("baseline") or {}
    beside = f"; the {baseline['name']} has {number(baseline['score'])}" if is_number(baseline.get("score")) else ""
    return f"{told}{beside}."


def _seeds_verdict(task: str, metric: str, rows: list[_Ranked], what: str) -> str:
    """Who leads where only seeds were compared, and why others are not told from them."""
    known = [row for row in rows if row.median is not None]
    leaders = sorted((row for row in known if row.leads), key=lambda row: -row.median)  # type: ignore[operator]
    if not leaders:
        return f"On {task} no {what} {'is shown to have learnt the task' if known else 'has a score'}"
    if len(leaders) == 1:
        return f"On {task}, {leaders[0].name} has the highest median {metric}: {number(leaders[0].median)}"
    single = any(len(row.scores) < 2 for row in leaders)
    why = "one seed is too few to tell them apart" if single else "the ranges of their seeds overlap"
    if len(leaders) == len(known):
        medians = _range([row.median for row in leaders], number)
        return f"On {task}, no difference between the {len(known)} {what}s is shown ({metric} {medians}): {why}"
    names = listed([f"{row.name} ({number(row.median)})" for row in leaders])
    return f"On {task}, {names} lead in {metric}; no difference between them is shown: {why}"


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
    """The four settings of a domain."""
    columns = [Column("setting", "name"), Column("perplexity", "perplexity", fixed(2))]
    columns += [Column(key, key, number) for key in ("median", "spread")]
    columns += [Column("retained", "retained", share), Column("until best (s)", "seconds_to_best", fixed(0))]
    columns += [Column("speed-up of tuning", "speedup_of_tuning", times), PARAMETERS, *SPEED]
    ranked = _ranked_settings(data)
    rows = [
        {
            **row,
            "spread": max(one.scores) - min(one.scores) if one.scores else None,
            "speedup": speedup_cell(speedup_of_row(row)),
        }
        for row, one in zip(data["rows"], ranked, strict=True)
    ]
    metric = " and ".join(data["score"])
    caption = (
        f"{metric} on dev, {_seeds(len(data.get('seeds') or []))}; retained and both speed-ups compare a compressed setting "
        f"with its whole one; {BOLD}"
    )
    told = [f"{row['name']}: {row['remark']}" for row in data["rows"] if row.get("remark")]
    told += [
        f"{row['name']}: seed {seed} failed: {why}"
        for row in data["rows"]
        for seed, why in (row.get("failures") or {}).items()
    ]
    return judged(
        _settings_verdict(data),
        str(data["task"]),
        table(caption, columns, _marked(rows, ranked), key="settings"),
        _medians(metric, "setting", ranked),
        *(paragraph(note, "note") for note in told),
        alone=True,
    )


def _ranked_settings(data: dict) -> list[_Ranked]:
    scores = [row.get("scores") or [] for row in data["rows"]]
    return _rank_by_seeds(data["rows"], "name", [statistics.median(one) if one else None for one in scores], scores)


def _settings_verdict(data: dict) -> str:
    return f"{_seeds_verdict(data['task'], ' and '.join(data['score']), _ranked_settings(data), 'setting')}."
