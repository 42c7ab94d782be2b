"""The verdict: one sentence and four figures, from the record alone; claims nothing that was not measured."""

import math
from dataclasses import dataclass
from typing import Any

from plankwise.report._text import MISSING, count, duration, is_number, number, share, times

LEVEL = 0.005  # ratios this near to one are called equal
SIGNIFICANT = 1.96  # standard errors


@dataclass(frozen=True)
class Figure:
    """One of the four figures at the top: what, how much, and from what to what."""

    name: str
    value: str
    note: str


def is_text(record: dict) -> bool:
    """Whether the task is a language model's, judged by perplexity."""
    return "objective" in record.get("task", {})


def score_name(record: dict) -> str:
    return "perplexity" if is_text(record) else " and ".join(record.get("task", {}).get("score", ["score"]))


def score_of(record: dict, model: dict) -> Any:
    """What the page shows as a model's score: perplexity for a language model."""
    perplexity = model.get("metrics", {}).get("perplexity")
    return perplexity if is_text(record) and perplexity is not None else model.get("score")


def show_score(record: dict, model: dict) -> str:
    return number(score_of(record, model), 2 if is_text(record) else 4)


def speedup_of(record: dict) -> tuple[float | None, str]:
    """Times by which the successor is faster, and at which batch size; None if it was not measured."""
    if is_number(record.get("speedup")):
        return record["speedup"], next(iter(record["predecessor"].get("latency") or {}), "")
    for batch, ratio in record.get("analysis", {}).get("cost", {}).get("speedup", {}).items():
        if is_number(ratio):
            return ratio, batch
    return None, ""


def verdict(record: dict) -> str:
    """The result in one sentence; says so if the successor does not beat the truncated model, or was not timed."""
    if "successor" not in record:
        model = record["model"]
        return f"The model has {_with_article(score_name(record))} of {show_score(record, model)} on dev."
    claims = [f"is {' and '.join(made)}"] if (made := [*_smaller(record), *_faster(record)]) else []
    untimed = "" if speedup_of(record)[0] else "; its speed was not measured"
    return f"The successor {' and '.join([*claims, _kept(record)])}{_beside_floor(record)}{untimed}."


def figures(record: dict) -> list[Figure]:
    """Smaller, faster, kept, cost: what the top of the page shows; a record of a whole model has score, size and cost."""
    cost = Figure("cost", duration(record.get("seconds")), _steps(record))
    if "successor" not in record:
        model = record["model"]
        size = Figure("size", count(model["parameters"]), f"parameters, {number(model.get('size_mb'), 1)} MB")
        return [Figure("score", show_score(record, model), score_name(record)), size, cost]
    before, after = record["predecessor"], record["successor"]
    ratio, batch = speedup_of(record)
    return [
        Figure(
            "smaller",
            times(record.get("compression_ratio")),
            f"{count(before['parameters'])} → {count(after['parameters'])} parameters",
        ),
        Figure("faster", times(ratio) if ratio else MISSING, _time_note(record, batch) if ratio else "not measured"),
        Figure(
            "kept",
            share(record.get("retained")),
            f"{score_name(record)} {show_score(record, before)} → {show_score(record, after)}",
        ),
        cost,
    ]


def _with_article(name: str) -> str:
    return f"an {name}" if name[:1] in "aeio" or name.startswith("f1") else f"a {name}"


def _ratio(value: float, more: str, less: str, equal: str) -> str:
    if abs(value - 1) < LEVEL:
        return equal
    return f"{_plain(value)} times {more}" if value > 1 else f"{_plain(1 / value)} times {less}"


def _plain(value: float) -> str:
    """One place, or two where one would say that nothing changed."""
    return f"{value:.1f}" if value >= 1.05 else f"{value:.2f}"


def _smaller(record: dict) -> list[str]:
    value = record.get("compression_ratio")
    return [_ratio(value, "smaller", "larger", "of the same size")] if is_number(value) else []


def _faster(record: dict) -> list[str]:
    ratio, _ = speedup_of(record)
    return [_ratio(ratio, "faster", "slower", "as fast")] if ratio else []


def _kept(record: dict) -> str:
    before, after = record["predecessor"], record["successor"]
    if is_text(record):
        return f"has a perplexity of {show_score(record, after)}, the predecessor {show_score(record, before)}"
    if not is_number(record.get("retained")):
        return f"has {_with_article(score_name(record))} of {show_score(record, after)}"
    return f"keeps {share(record['retained'])} of {score_name(record)}"


def _beside_floor(record: dict) -> str:
    if "floor" not in record:
        return ""
    after, floor = record["successor"], record["floor"]
    if is_text(record):
        reached = f"a truncated model trained as long has {show_score(record, floor)}"
    elif is_number(floor.get("retained")):
        reached = f"a truncated model trained as long keeps {share(floor['retained'])}"
    else:
        reached = f"a truncated model trained as long has {show_score(record, floor)}"
    if not is_number(after.get("score")) or not is_number(floor.get("score")):
        return f"; {reached}"
    if after["score"] <= floor["score"]:
        return f"; it does not beat the floor: {reached}"
    return f"; {reached}{_doubt(record, after['score'], floor['score'])}"


def _doubt(record: dict, score: float, other: float) -> str:
    """Whether as many dev examples could tell the two apart, were they drawn anew for each: for accuracy only."""
    task = record.get("task", {})
    examples = sum(task["dev"].values()) if isinstance(task.get("dev"), dict) else 0
    if task.get("score") != ["accuracy"] or not examples:
        return ""
    error = math.sqrt((score * (1 - score) + other * (1 - other)) / examples)
    within = abs(score - other) < SIGNIFICANT * error
    return f", a gap within the sampling error of {examples:,} dev examples" if within else ""


def _time_note(record: dict, batch: str) -> str:
    before, after = record["predecessor"].get("latency_ms"), record["successor"].get("latency_ms")
    if not (is_number(before) and is_number(after)):
        latency = record["analysis"]["cost"].get("latency", {})
        means = [latency.get(name, {}).get(batch, {}).get("mean_ms") for name in ("predecessor", "successor")]
        before, after = means
    told = f"{number(before, 1)} → {number(after, 1)} ms"
    return f"{told}, batch of {batch}" if batch else told


def _steps(record: dict) -> str:
    skipped = record.get("skipped_steps") or 0
    told = f"of training, {record.get('steps', 0):,} steps"
    return f"{told}, {skipped:,} without a slot" if skipped else told
