"""Plans measured whole: solved in order, then their end effect, their score on dev, their speed and their size.

Those that a search has found stand beside simple ones of about the same cost: even spans, late ones, dropped top layers, and plans
drawn at random from the same library. Every plan has a file of its own, so that none is measured twice.
"""

from __future__ import annotations

import copy
import hashlib
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import nn

from plankwise.core.plan import Plan, Slot, late_sizes, spans_of
from plankwise.errors import PlanError
from plankwise.evaluation.held_back import HALVES
from plankwise.evaluation.latency import Timed, measure_latency
from plankwise.evaluation.size import count_parameters
from plankwise.files import read_as, write_text
from plankwise.models.plans import assemble, check_collapse, take_out
from plankwise.run.inputs import Run
from plankwise.runtimes.torch import TorchPredictor
from plankwise.search.costs import Costs
from plankwise.search.library import Candidate, Library
from plankwise.search.scores import Workbench, states_in

PREDECESSOR, SUCCESSOR = "predecessor", "successor"
FOUND, NEXT, EVEN, LATE, DROPPED, RANDOM = "found", "next best", "even", "late", "dropped", "random"  # kinds of plan


@dataclass(frozen=True)
class Named:
    """A plan to measure; one that is not solved has its blocks as they are."""

    kind: str
    name: str
    plan: Plan
    solved: bool = True


@dataclass(frozen=True)
class Measured:
    """What was measured of a plan without any training."""

    effect: float
    score: float  # on dev
    choosing_score: float  # on what may choose: one half of dev, or training examples kept out
    other_score: float  # on the other half of dev, or on all of it
    parameters: int
    speedup: dict[str, Any]  # median, low, high, steady
    slots: list[dict]  # what became of each when it was solved
    seconds: float  # that solving took


class Plans:
    """Measures plans of one run."""

    def __init__(self, run: Run, bench: Workbench, folder: Path, *, batch_size: int) -> None:
        self.run = run
        self.bench = bench
        self.folder = folder
        self.batch_size = batch_size
        self.timed: Timed = run.task.timed()
        self.reasons: dict[Plan, str | None] = {}  # why a plan does not fit, of those that were tried

    def measure(self, named: Named) -> Measured:
        """What was measured of a plan, or is now."""
        key = json.dumps([named.plan.to_json(), named.solved], sort_keys=True)
        file = self.folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
        if not file.is_file():
            found = self._measure(named)
            write_text(file, json.dumps({**asdict(found), "plan": named.plan.to_json()}, indent=2))
        return read_as(file, Measured)

    def why_not(self, plan: Plan) -> str | None:
        """Why a plan does not fit the model: its successor cannot be taken out, or solved slot by slot. None if it does."""
        if plan not in self.reasons:
            try:
                self.reasons[plan] = self._try_out(plan)
            except PlanError as error:
                self.reasons[plan] = str(error)
        return self.reasons[plan]

    def _try_out(self, plan: Plan) -> str | None:
        successors = self.bench.build(plan)
        check_collapse(self.bench.model, plan, successors)
        owned = [id(parameter) for one in successors for parameter in one.parameters()]
        return (
            None
            if len(owned) == len(set(owned))
            else "its successors share weights, and are solved one after the other"
        )

    def score_predecessor(self) -> tuple[float, float, float]:
        """On dev, on what may choose, and on the other half of dev."""
        return self._scores(self.bench.model)

    def _measure(self, named: Named) -> Measured:
        started = time.monotonic()
        with states_in(self.folder) as states:
            if named.solved:
                tokens = self.run.config.plan.solving.tokens
                successors, slots = self.bench.solve(named.plan, tokens, states)
            else:
                successors, slots = self.bench.build(named.plan), []
        seconds = time.monotonic() - started
        effect = self.bench.measure(named.plan, successors)
        successor = take_out(assemble(copy.deepcopy(self.bench.model), named.plan, successors))
        score, choosing, other = self._scores(successor)
        return Measured(
            effect, score, choosing, other, count_parameters(successor), self._time(successor), slots, seconds
        )

    def _scores(self, model: nn.Module) -> tuple[float, float, float]:
        task, predictor = self.run.task, TorchPredictor(model)
        found = task.score_in_training(predictor)
        if HALVES[0] in found:
            return found["score"], found[HALVES[0]], found[HALVES[1]]
        score = found["score"] if self.run.config.evaluation.choose_on == "dev" else task.score(predictor)["score"]
        return score, found["score"], score

    def _time(self, successor: nn.Module) -> dict[str, Any]:
        speed = measure_latency(
            {PREDECESSOR: TorchPredictor(self.bench.model), SUCCESSOR: TorchPredictor(successor)},
            self.timed,
            batch_sizes=[self.batch_size],
            predictions=self.run.config.evaluation.latency_predictions,
        )
        (found,) = speed.speedups[SUCCESSOR].values()
        return found.to_json()


@dataclass(frozen=True)
class Simple:
    """A simple plan, with the block that stands for each of its slots: its successors cost what these cost."""

    named: Named
    blocks: list[Candidate]


def simple_plans(library: Library, costs: Costs, budget: float, by: str) -> list[Simple]:
    """Even, late and dropped plans of `layers` with as many successors as the budget leaves; even ones with one more, too.

    Each chain is cut to about the same share. `by` says what the budget is of: time or parameters.
    """
    most = max(chain.length for chain in library.chains)
    made = {kind: [_simple(library, kind, number) for number in range(1, most)] for kind in (EVEN, LATE, DROPPED)}
    chosen: list[Simple] = []
    for kind, plans in made.items():
        within = [one for one in plans if _cost(one, costs, by) <= budget * (1 + 1e-9)]
        above = [one for one in plans if one not in within]
        chosen += within[-1:] or plans[:1]
        if kind == EVEN and within:
            chosen += above[:1]
    unique = {json.dumps([one.named.plan.to_json(), one.named.solved]): one for one in reversed(chosen)}
    return list(reversed(unique.values()))


def _cost(one: Simple, costs: Costs, by: str) -> float:
    return costs.total_time(one.blocks) if by == "time" else costs.total_parameters(one.blocks)


def _simple(library: Library, kind: str, number: int) -> Simple:
    """So many successors of the longest chain, and a like share of each other."""
    most = max(chain.length for chain in library.chains)
    kept = {(one.slot.path, one.slot.span[0]): one for one in library.kept}
    slots: list[Slot] = []
    blocks: list[Candidate] = []
    for chain in library.chains:
        count = max(1, round(number * chain.length / most))
        spans = spans_of(_sizes(kind, chain.length, count))
        # Of one block the block itself is the best successor.
        slots += [Slot(chain.path, tuple(span)) for span in spans if len(span) > 1]
        blocks += [kept[chain.path, span[0]] for span in spans]
    name = f"{_told(kind)}, {len(blocks)} block{'s' if len(blocks) > 1 else ''}"
    named = Named(kind, name, library.plan_of(slots), solved=kind != DROPPED)
    return Simple(named, blocks)


def _told(kind: str) -> str:
    return {EVEN: "even spans", LATE: "late spans", DROPPED: "top layers dropped"}[kind]


def _sizes(kind: str, length: int, count: int) -> list[int]:
    if kind == EVEN:
        share, more = divmod(length, count)
        return [share + (index >= count - more) for index in range(count)]
    if kind == LATE:
        return late_sizes(length, count)
    # The last block that is kept stands for those above it, as it is.
    return [*[1] * (count - 1), length - count + 1]


def find_predicted(library: Library, effects: dict[Candidate, float], plan: Plan) -> float | None:
    """The summed effects of a plan's candidates; None if one of them has none."""
    found = library.find(plan)
    if found is None or any(one not in effects for one in found):
        return None
    return sum(effects[one] for one in found)
