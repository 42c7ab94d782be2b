"""The tables that `plankwise compare` and `plankwise study` leave."""

import json
import statistics
from pathlib import Path
from typing import Any

from plankwise.errors import RunError
from plankwise.report._html import Column, TableCell, paragraph, section, table
from plankwise.report._svg import show_all
from plankwise.report.charts import Axis, BarChart, Bars
from plankwise.report.ranking import ALPHA, lead_by_seeds, lead_by_test, listed
from plankwise.report.text import count, fixed, is_number, number, share, times

PREDECESSOR = "predecessor"
BOLD = "bold: the highest median, and those not shown to differ from it"
PARAMETERS = Column("parameters", "parameters", count)
SPEED = [Column("latency (ms)", "latency_ms", fixed(2)), Column("speed-up", "speedup", times)]


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
        return [_settings_verdict(data)]
    return [comparison_verdict(task) for task in data["tasks"]]


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
    )
    metric = " and ".join(task["score"])
    seeds = len({one["seed"] for one in task.get("cells") or []})
    caption = f"{metric} on dev, {_seeds(seeds)}; p of a paired randomisation test, Holm-corrected; {BOLD}"
    scores: dict[str, list[float]] = {}
    for one in task.get("cells") or []:
        if is_number(one.get("score")):
            scores.setdefault(one["label"], []).append(one["score"])
    chart = _medians(metric, "row", [
        (str(row["label"]), row.get("median"), scores.get(row["label"], [])) for row in task["rows"]
    ])  # fmt: skip
    head = paragraph(comparison_verdict(task), "verdict")
    listed_rows = table(caption, columns, _in_bold(rows, _leaders(task)), key="comparison")
    return head + section(str(task["name"]), listed_rows, chart, failures)


def _leaders(task: dict) -> set[int]:
    """The places of the leading rows; the predecessor, which all are measured by, does not compete."""
    places = [index for index, row in enumerate(task["rows"]) if row["label"] != PREDECESSOR]
    found = lead_by_test([task["rows"][index] for index in places], task.get("baseline"))
    return {places[index] for index in found}


def _in_bold(rows: list[dict], leaders: set[int]) -> list[dict]:
    """The rows with the medians of those that lead in bold."""
    return [
        {**row, "median": TableCell(number(row.get("median")), row.get("median"), best=True)}
        if index in leaders
        else row
        for index, row in enumerate(rows)
    ]


def comparison_verdict(task: dict) -> str:
    """Which rows lead and what they kept, by the table's own test."""
    leaders = sorted((task["rows"][index] for index in _leaders(task)), key=lambda row: -row["median"])
    if not leaders:
        return f"On {task['name']} no row has a score."
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


def _range(values: list[Any], show: Any) -> str:
    """The lowest and the highest value, or the one that all have; empty if none is known."""
    known = [value for value in values if is_number(value)]
    return " to ".join(dict.fromkeys(map(show, (min(known), max(known))))) if known else ""


def _seeds(number_of: int) -> str:
    return f"{number_of} seed{'s' if number_of != 1 else ''}"


def _medians(metric: str, what: str, rows: list[tuple[str, Any, list[float]]]) -> str:
    """A dot a row at its median, with the lowest and the highest seed as a whisker."""
    known = [(name, median, scores) for name, median, scores in rows if is_number(median)]
    if not known:
        return ""
    intervals = [(min(scores), max(scores)) if len(scores) > 1 else None for _, _, scores in known]
    bars = [Bars("", [median for _, median, _ in known], "successor", intervals)]
    spread = ": median, lowest and highest seed" if any(intervals) else ""
    axis = Axis(f"{metric} on dev")
    return show_all(
        {"": [BarChart(f"{metric} by {what}{spread}", [name for name, *_ in known], bars, axis, dots=True)]}
    )


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
        scores = [_scores(arm) for arm in task["arms"]]
        rows = [
            {**arm, "lowest": min(found, default=None), "highest": max(found, default=None)}
            for arm, found in zip(task["arms"], scores, strict=True)
        ]
        caption = (
            f"{task['metric']} on dev over {_seeds(len(data.get('seeds', [])))}; difference: to the "
            f"{baseline.get('name')}; {BOLD}"
        )
        dots = [(str(arm["name"]), arm.get("median"), found) for arm, found in zip(task["arms"], scores, strict=True)]
        notes = "".join(paragraph(note, "note") for note in task.get("notes") or [])
        arms = table(caption, columns, _in_bold(rows, _leading_arms(task)), key="study")
        shown.append(paragraph(_study_verdict(task), "verdict"))
        shown.append(
            section(f"Study {data['study']}: {task['task']}", arms, _medians(task["metric"], "arm", dots), notes)
        )
    return "".join(shown) + _published(data.get("published") or {})


def _scores(arm: dict) -> list[float]:
    return [one["score"] for one in arm["cells"] if is_number(one.get("score"))]


def _leading_arms(task: dict) -> set[int]:
    return lead_by_seeds([_scores(arm) for arm in task["arms"]], [arm.get("median") for arm in task["arms"]])


def _study_verdict(task: dict) -> str:
    arms = task["arms"]
    known = [(str(arm["name"]), arm["median"], _scores(arm)) for arm in arms if is_number(arm.get("median"))]
    if not known:
        return f"On {task['task']} no arm has a score."
    leaders = [(str(arms[index]["name"]), arms[index]["median"]) for index in _leading_arms(task)]
    told = _seeds_verdict(task["task"], task["metric"], known, leaders, "arms")
    baseline = task.get("baseline") or {}
    beside = f"; the {baseline['name']} has {number(baseline['score'])}" if is_number(baseline.get("score")) else ""
    return f"{told}{beside}."


def _seeds_verdict(
    task: str, metric: str, known: list[tuple[str, float, list[float]]], leaders: list[tuple[str, float]], what: str
) -> str:
    """Who leads where only seeds were compared, and why others are not told from them."""
    leaders = sorted(leaders, key=lambda one: -one[1])
    if len(leaders) == 1:
        return f"On {task}, {leaders[0][0]} has the highest median {metric}: {number(leaders[0][1])}"
    single = any(len(scores) < 2 for _, _, scores in known)
    why = "one seed is too few to tell them apart" if single else "the ranges of their seeds overlap"
    if len(leaders) == len(known):
        medians = _range([median for _, median in leaders], number)
        return f"On {task}, no difference between the {len(known)} {what} is shown ({metric} {medians}): {why}"
    names = listed([f"{name} ({number(median)})" for name, median in leaders])
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
    rows = [{**row, "median": _middle(row), "spread": _spread(row["scores"])} for row in data["rows"]]
    metric = " and ".join(data["score"])
    caption = (
        f"{metric} on dev, {_seeds(len(data.get('seeds') or []))}; retained and both speed-ups compare a compressed setting "
        f"with its whole one; {BOLD}"
    )
    settings = table(caption, columns, _in_bold(rows, _leading_settings(data)), key="settings")
    chart = _medians(metric, "setting", [(row["name"], _middle(row), row["scores"]) for row in data["rows"]])
    failures = "".join(
        paragraph(f"{row['name']}: seed {seed} failed: {why}", "note")
        for row in data["rows"]
        for seed, why in (row.get("failures") or {}).items()
    )
    return paragraph(_settings_verdict(data), "verdict") + section(str(data["task"]), settings, chart, failures)


def _middle(row: dict) -> float | None:
    return statistics.median(row["scores"]) if row.get("scores") else None


def _spread(scores: list[float]) -> float | None:
    return max(scores) - min(scores) if scores else None


def _leading_settings(data: dict) -> set[int]:
    return lead_by_seeds([row.get("scores") or [] for row in data["rows"]], list(map(_middle, data["rows"])))


def _settings_verdict(data: dict) -> str:
    rows = data["rows"]
    known = [(row["name"], middle, row["scores"]) for row in rows if (middle := _middle(row)) is not None]
    if not known:
        return f"On {data['task']} no setting has a score."
    leading = {rows[index]["name"] for index in _leading_settings(data)}
    leaders = [(name, middle) for name, middle, _ in known if name in leading]
    return f"{_seeds_verdict(data['task'], ' and '.join(data['score']), known, leaders, 'settings')}."
