"""What a search leaves, as table.json has it: the library, the plans with predicted and measured figures, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from plankwise.run.inputs import Run
from plankwise.search.costs import Costs
from plankwise.search.goal import Goal
from plankwise.search.library import Candidate, Library
from plankwise.search.scores import Score
from plankwise.search.whole import Measured, Named


@dataclass(frozen=True)
class Row:
    """A plan with what was predicted of it, as far as the library tells, and what was measured."""

    named: Named
    blocks: Sequence[Candidate]  # that its costs are predicted by
    effect: float | None  # predicted
    measured: Measured


def tabulate(
    run: Run,
    library: Library,
    costs: Costs,
    scores: Mapping[Candidate, Score],
    rows: Sequence[Row],
    predecessor: Mapping[str, float],
    goal: Goal,
    more: Mapping[str, Any],
) -> dict[str, Any]:
    """All of it; the first row is the plan that was found."""
    return {
        "search": {
            "task": run.task.name,
            "metric": " and ".join(run.task.score_names),
            "goal": {"kind": goal.kind, "value": goal.value, "told": str(goal)},
            "predecessor": dict(predecessor),
            "outside": costs.outside,
            "batch_size": costs.batch_size,
            "length": costs.length,
            "timing": costs.timing,
            "steady": costs.steady,
            "chains": [{"path": chain.path, "length": chain.length} for chain in library.chains],
            **more,
        },
        "library": [_candidate_json(one, score, library, costs) for one, score in scores.items()],
        "rows": [_row_json(run, row, costs, predecessor) for row in rows],
    }


def _candidate_json(one: Candidate, score: Score, library: Library, costs: Costs) -> dict[str, Any]:
    replaced = [library.kept[block] for block in one.blocks]
    return {
        **asdict(one.slot),
        "label": one.label,
        "parameters": one.parameters,
        "span_parameters": sum(other.parameters for other in replaced),
        "time": costs.time(one),
        "speedup": sum(map(costs.time, replaced)) / max(costs.time(one), 1e-12),  # of the span alone
        **asdict(score),
    }


def _row_json(run: Run, row: Row, costs: Costs, predecessor: Mapping[str, float]) -> dict[str, Any]:
    measured = row.measured
    return {
        "name": row.named.name,
        "kind": row.named.kind,
        "solved": row.named.solved,
        "plan": row.named.plan.to_json(),
        "predicted": {
            "effect": row.effect,
            "speedup": 1 / costs.total_time(row.blocks),
            "parameters": costs.total_parameters(row.blocks),
        },
        **asdict(measured),
        "kept": run.task.retained(measured.score, predecessor["score"]),
        "kept_other": run.task.retained(measured.other_score, predecessor["other_score"]),
    }


def tell_found(table: Mapping[str, Any]) -> list[str]:
    """The reasons for the plan that was found, for the top of its recipe."""
    about, found = table["search"], table["rows"][0]
    predicted, speed = found["predicted"], found["speedup"]
    unsteady = "" if speed["steady"] else ", unsteady: the machine was busy"
    lines = [
        f"A plan for {about['goal']['told']}, found by `plankwise plan`; edit it as you like, and run it with "
        "`plankwise compress`.",
        f"Effect (how far the answers are from the predecessor's, before any training): predicted {predicted['effect']:.4f}, "
        f"measured {found['effect']:.4f}.",
        f"Speed at batch size {about['batch_size']}: predicted {predicted['speedup']:.2f}x, measured {speed['median']:.2f}x "
        f"({speed['low']:.2f} to {speed['high']:.2f}{unsteady}).",
        f"Parameters: {found['parameters']:,} of {about['predecessor']['parameters']:,}.",
        f"{about['metric']} on dev before any training: {found['score']:.4f}, predecessor "
        f"{about['predecessor']['score']:.4f}.",
        f"Chosen out of {about['scored']} candidates, and the best by measured effect of {about['finalists']} plans. "
        "Compared with, all before any training:",
    ]
    for row in table["rows"][1:]:
        lines.append(
            f"- {row['name']}: effect {row['effect']:.4f}, {row['speedup']['median']:.2f}x, {row['parameters']:,} parameters, "
            f"{about['metric']} {row['score']:.4f}"
        )
    return lines


def tell_slots(table: Mapping[str, Any]) -> list[str]:
    """For each slot of the plan that was found, why it is there."""
    known = {_key(one): one for one in table["library"]}
    told = []
    for slot in table["rows"][0]["plan"]:
        one = known[_key(slot)]
        start = f", started from its {one['start']} block" if one["start"] and len(slot["span"]) > 1 else ""
        told.append(
            f"alone: effect {one['effect']:.4f}, {one['speedup']:.2f}x as fast as the {_blocks(slot['span'])} it replaces, "
            f"{one['parameters']:,} parameters instead of {one['span_parameters']:,}{start}"
        )
    return told


def _key(slot: Mapping[str, Any]) -> tuple:
    return (
        slot["path"],
        tuple(slot["span"]),
        slot["part"],
        tuple(sorted((key, str(v)) for key, v in slot["options"].items())),
    )


def _blocks(span: Sequence[int]) -> str:
    return "block" if len(span) == 1 else f"{len(span)} blocks"
