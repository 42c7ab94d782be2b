"""The verdict: one sentence and four figures, from the record alone; claims nothing that was not measured."""

import math
from dataclasses import dataclass

from plankwise.record import Shown
from plankwise.report.remarks import (
    constant_claim,
    constant_remark,
    has_learnt,
    is_untrained,
    like_the_successor,
    own_seconds,
    training_time,
    what_to_do,
)
from plankwise.report.speed import ShownSpeedup, speedup_of
from plankwise.report.text import MISSING, count, duration, is_number, number, share, times

LEVEL = 0.005  # ratios this near to one are called equal
SIGNIFICANT = 1.96  # standard errors


@dataclass(frozen=True)
class Tile:
    """One of the figures at the top of the page: what, how much, and from what to what."""

    name: str
    value: str
    note: str


def score_name(record: dict) -> str:
    return Shown.of(record).metric


def show_score(record: dict, model: dict) -> str:
    """The figure that the record shows of a model."""
    shown = Shown.of(record)
    return number(shown.value(model), shown.digits)


def verdict(record: dict) -> str:
    """The result in one sentence; says so if the successor does not beat the truncated model, or was not timed.

    A model that is not shown to beat a constant answer is called that first, with what to do.
    """
    if "successor" not in record:
        model = record["model"]
        told = f"The model has {_with_article(score_name(record))} of {show_score(record, model)} on dev"
        return (
            f"{told}." if has_learnt(model) else f"{told}; it {constant_claim(model)}: {what_to_do(record, 'model')}."
        )
    after = record["successor"]
    first = "" if has_learnt(after) else f"The successor {constant_claim(after)}: {what_to_do(record, 'successor')}. "
    claims = [f"is {' and '.join(made)}"] if (made := [*_smaller(record), *_faster(record)]) else []
    beside = f"{_beside_predecessor(record)}{_beside_truncated(record)}{_doubt_of_speed(record)}"
    return f"{first}{'It' if first else 'The successor'} {' and '.join([*claims, _kept(record)])}{beside}."


def tiles(record: dict) -> list[Tile]:
    """Smaller, faster, kept, cost: what the top of the page shows; a record of a whole model has score, size and cost."""
    cost = Tile("cost", duration(own_seconds(record)), _steps(record))
    if "successor" not in record:
        model = record["model"]
        size = Tile("size", count(model["parameters"]), f"parameters, {number(model.get('size_mb'), 1)} MB")
        note = "" if has_learnt(model) else f", {constant_remark(model)}"
        return [Tile("score", show_score(record, model), f"{score_name(record)}{note}"), size, cost]
    before, after = record["predecessor"], record["successor"]
    faster = speedup_of(record)
    return [
        Tile(
            "smaller",
            times(record.get("compression_ratio")),
            f"{count(before['parameters'])} → {count(after['parameters'])} parameters",
        ),
        Tile("faster", MISSING if faster is None else faster.figure, _time_note(record, faster)),
        _kept_tile(record),
        cost,
    ]


def _kept_tile(record: dict) -> Tile:
    """No share where predecessor or successor is not shown to beat a constant answer: then nothing that was learnt was kept."""
    told = (
        f"{score_name(record)} {show_score(record, record['predecessor'])} → {show_score(record, record['successor'])}"
    )
    for name in ("predecessor", "successor"):
        if not has_learnt(record[name]):
            return Tile("kept", MISSING, f"{name} {constant_remark(record[name])}; {told}")
    return Tile("kept", share(record.get("retained")), told)


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
    found = speedup_of(record)
    if found is None:
        return []
    told = _ratio(found.ratio, "faster", "slower", "as fast")
    return [told if found.measured is None or found.ratio <= 1 else f"at most {told}"]


def _doubt_of_speed(record: dict) -> str:
    found = speedup_of(record)
    if found is None:
        return "; its speed was not measured"
    return f"; speed-up {found.doubt}" if found.doubt else ""


def _kept(record: dict) -> str:
    before, after = record["predecessor"], record["successor"]
    named = f"has {_with_article(score_name(record))} of {show_score(record, after)}"
    if Shown.of(record).lower_is_better or not (has_learnt(before) and has_learnt(after)):  # a share would tell nothing
        return f"{named}, the predecessor {show_score(record, before)}"
    return f"keeps {share(record['retained'])} of {score_name(record)}" if is_number(record.get("retained")) else named


def _beside_predecessor(record: dict) -> str:
    before = record["predecessor"]
    return "" if has_learnt(before) else f"; the predecessor itself {constant_claim(before)}"


def _beside_truncated(record: dict) -> str:
    """How the truncated model stands to the successor; scores within the sampling error of each other are a tie."""
    if "truncated" not in record:
        return ""
    trained = like_the_successor(record)
    if not has_learnt(record["truncated"]):
        return f"; a truncated model {trained} {constant_claim(record['truncated'])}"
    shown, truncated = Shown.of(record), record["truncated"]
    in_shares = is_number(truncated.get("retained")) and not shown.lower_is_better
    reached = f"keeps {share(truncated['retained'])}" if in_shares else f"has {show_score(record, truncated)}"
    ours, theirs = shown.value(record["successor"]), shown.value(truncated)
    if is_number(ours) and is_number(theirs):
        doubt = "" if ours == theirs else _doubt(record, ours, theirs)
        if ours == theirs or doubt:
            return f"; no difference is shown between it and a truncated model {trained}, which {reached}{doubt}"
        if ours > theirs if shown.lower_is_better else ours < theirs:
            return f"; it does not beat the truncated model, which, {trained}, {reached}"
    return f"; a truncated model {trained} {reached}"


def _doubt(record: dict, score: float, other: float) -> str:
    """A remark if the gap is within the sampling error of two dev sets of this size; for accuracy only."""
    shown, dev = Shown.of(record), record["task"].get("dev")
    pieces = sum(dev.values()) if isinstance(dev, dict) else 0
    if shown.metric != "accuracy" or not pieces or not (0 <= score <= 1 and 0 <= other <= 1):
        return ""
    error = math.sqrt((score * (1 - score) + other * (1 - other)) / pieces)
    within = abs(score - other) < SIGNIFICANT * error
    return f", a gap within the sampling error of {pieces:,} dev {shown.unit}" if within else ""


def _time_note(record: dict, faster: ShownSpeedup | None) -> str:
    if faster is None:
        return "not measured"
    batch = faster.batch
    before, after = record["predecessor"].get("latency_ms"), record["successor"].get("latency_ms")
    if not (is_number(before) and is_number(after)):
        latency = record["analysis"]["cost"].get("latency", {})
        means = [latency.get(name, {}).get(batch, {}).get("mean_ms") for name in ("predecessor", "successor")]
        before, after = means
    told = f"{number(before, 1)} → {number(after, 1)} ms"
    told = f"{told}, batch of {batch}" if batch else told
    return f"{told}; {faster.doubt}" if faster.doubt else told


def _steps(record: dict) -> str:
    skipped = record.get("skipped_steps") or 0
    apart = "successor" in (record.get("seconds_by") or {})
    if is_untrained(record):
        told = "of solving, no training" if record.get("solving") else "no training"
    else:
        what = "solving and training" if record.get("solving") else "training"
        told = f"of {what}{' the successor' if apart else ''}, {record.get('steps', 0):,} steps"
        told = f"{told}, {skipped:,} without a slot" if skipped else told
    return f"{told}; {training_time(record, without='successor')}" if apart and len(record["seconds_by"]) > 1 else told
