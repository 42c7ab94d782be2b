"""The score of a candidate: it alone, solved on what the predecessor gives its span, and how far the model's answers then are.

Every score is written to a file of its own, so that a search that was stopped goes on where it was.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import nn

from plankwise.core.plan import Plan
from plankwise.errors import PlanError
from plankwise.files import explain_full_disk, read_as, write_text
from plankwise.models.plans import assemble, build_successors
from plankwise.search.library import Candidate
from plankwise.search.texts import Texts
from plankwise.solving.effect import EndEffect
from plankwise.solving.solve import solve
from plankwise.training.products import fast_products


@dataclass(frozen=True)
class Score:
    """A candidate's end effect; `failure` says why there is none."""

    effect: float | None
    start: str | None  # the block of its span that its weights come from
    maps: int  # linear maps that were solved
    seconds: float
    failure: str | None = None


class Workbench:
    """Solves plans of one model and measures their end effects; the model is only read."""

    def __init__(self, model: nn.Module, texts: Texts, seed: int) -> None:
        self.model = model
        self.texts = texts
        self.seed = seed
        self.effect: EndEffect | None = None  # with the predecessor's answers, once any plan has been measured

    def solve(self, plan: Plan, tokens: int, folder: Path) -> tuple[list[nn.Module], list[dict]]:
        """A plan's successors, solved in order, each on what those before it give; and what became of each slot."""
        batches, choosing = self.texts.to_solve_on(tokens, self.model)
        weights = next(self.model.parameters())
        with fast_products(device=weights.device):
            solution = solve(
                self.model, plan, lambda init: self.build(plan, init), batches, choosing, folder, keep_others=True
            )
        return [one.to(weights.dtype) for one in solution.successors], solution.slots

    def build(self, plan: Plan, init: str = "lower") -> list[nn.Module]:
        return build_successors(self.model, plan, init=init, seed=self.seed)

    @torch.no_grad()
    def measure(self, plan: Plan, successors: list[nn.Module]) -> float:
        """The end effect of all successors, on texts that nothing was solved on."""
        hybrid = assemble(copy.deepcopy(self.model), plan, successors)
        if self.effect is None:
            self.effect = EndEffect(hybrid, self.texts.to_measure_by(self.model))
        # Rounding makes a divergence of nothing a little less than nothing.
        return max(0.0, self.effect.of(hybrid).measure([True] * len(plan.slots)))


def score_all(
    candidates: Sequence[Candidate],
    bench: Workbench,
    tokens: int,
    folder: Path,
    show: Callable[[int, Candidate, Score], None] = lambda number, candidate, score: None,
) -> list[Score]:
    """The scores of all candidates, from their files where they are there; `show` is told of every new one."""
    found: list[Score] = []
    for _, group in itertools.groupby(candidates, key=lambda one: (one.slot.path, one.slot.span)):
        some = list(group)
        if all(_file(folder, one).is_file() for one in some):
            found += [read_as(_file(folder, one), Score) for one in some]
            continue
        with states_in(folder) as states:  # what the predecessor gives at a span is kept for all of its candidates
            for one in some:
                file = _file(folder, one)
                if not file.is_file():
                    score = _score(one, bench, tokens, states)
                    write_text(file, json.dumps({**asdict(score), "slot": asdict(one.slot)}, indent=2))
                    show(len(found) + 1, one, score)
                found.append(read_as(file, Score))
    return found


@contextmanager
def states_in(folder: Path) -> Iterator[Path]:
    """An empty folder for states; its name is one that is swept if this process is killed."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        explain_full_disk(folder),
        tempfile.TemporaryDirectory(prefix=".states.", suffix=".part", dir=folder) as states,
    ):
        yield Path(states)


def _score(candidate: Candidate, bench: Workbench, tokens: int, states: Path) -> Score:
    started, plan = time.monotonic(), Plan((candidate.slot,))
    try:
        successors, (slot,) = bench.solve(plan, tokens, states)
        effect = bench.measure(plan, successors)
    except PlanError as error:
        return Score(None, None, 0, time.monotonic() - started, str(error))
    if not math.isfinite(effect):
        return Score(None, slot["start"], slot["maps"], time.monotonic() - started, "its effect is not a number")
    return Score(effect, slot["start"], slot["maps"], time.monotonic() - started)


def _file(folder: Path, candidate: Candidate) -> Path:
    return folder / f"{candidate.file_name}.json"
