"""The flow of a search, top to bottom: predecessor → library → costs → scores → plans → table and recipe.

FOLDER/predecessor-run/    the predecessor, if it has to be trained
FOLDER/costs.json          times of all kinds of module
FOLDER/candidates/         the score of each candidate
FOLDER/plans/              each plan that was measured whole
FOLDER/plan.toml           the recipe with the plan that was found
FOLDER/compared/           recipes with the plans that it was compared with
FOLDER/table.json          all of it, which the page is made of

A search that was stopped goes on where it was, and one for another goal takes the scores that are there.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from plankwise.config import RunConfig, validate_config
from plankwise.context import Context, open_context
from plankwise.core.plan import Plan
from plankwise.errors import ConfigError, PlanError, RunError
from plankwise.evaluation.size import count_parameters
from plankwise.families import chains_of
from plankwise.files import read_as, read_json, sweep_leftovers, write_text
from plankwise.report.speed import UNSTEADY
from plankwise.run.folders import FolderLock
from plankwise.run.sharing import ReadyPredecessor, make_predecessor, open_inputs
from plankwise.search.choosing import cover, draw_covers
from plankwise.search.costs import Costs, measure_costs
from plankwise.search.goal import PARAMETERS, TIME, WITHIN, Goal
from plankwise.search.library import Candidate, count_outside, find_offered, make_library
from plankwise.search.market import Market, check_reachable, check_size
from plankwise.search.scores import Score, Workbench, score_all
from plankwise.search.tables import Row, tabulate, tell_found, tell_slots
from plankwise.search.texts import divide_texts
from plankwise.search.whole import FOUND, NEXT, RANDOM, Measured, Named, Plans, find_predicted, simple_plans
from plankwise.search.writing import SAID_BY_SLOTS, as_recipe
from plankwise.training.interruption import interruptible

ASKED, COSTS, TABLE, RECIPE, COMPARED = "asked.json", "costs.json", "table.json", "plan.toml", "compared"
HALVINGS = 6  # of the range of speeds, for a goal that is a score
NARROW = 1.03  # ratio of two speeds between which no further is tried
MOST_TRIED = 64  # plans, of which few or none fit the model
ABOUT = 0.9  # share of the budget from which on a random plan costs about as much


@dataclass(frozen=True)
class Request:
    """What is searched, and how far."""

    goal: Goal
    spans: int = 4  # blocks in a span, at most
    parts: tuple[str, ...] | None = None  # that candidates are of; all that offer some if None
    tokens: int = 12_000  # that each candidate is solved on
    batch_size: int | None = None  # that times are measured at; the recipe's first if None
    plans: int = 4  # that are measured whole
    random: int = 3  # plans drawn at random, to compare with


def find_plan(recipe: dict, request: Request, folder: Path, console: Console) -> dict:
    """Searches, writes the plan as a recipe, and gives table.json.

    Raises:
        PlankwiseError: anything that the user can fix. Bad input is found before anything is scored.
        InterruptedRunError: it was told to stop.
    """
    find_offered(request.parts)
    base = _read(recipe, folder, console)
    context = open_context(console, folder, base.run.seed)
    if context.world_size > 1:
        raise ConfigError("a plan is searched in one process; start the command without torchrun")
    batch_size = request.batch_size or base.evaluation.latency_batch_sizes[0]
    with interruptible(), FolderLock(folder, console) as lock:
        inputs = open_inputs(base, console)
        model = inputs.predecessor.model
        assert model is not None
        check_size(request.goal, count_parameters(model), count_outside(model, chains_of(model, base.plan.chains)))
        lock.acquire()
        lock.log.begin()
        _claim(folder, {"config": base.model_dump(mode="json"), "tokens": request.tokens, "batch_size": batch_size})
        ready = make_predecessor(inputs)
        search = Search(ready, request, context, batch_size)
        text = json.dumps(search.run(), indent=2)
        table = json.loads(text)  # as whoever reads the file has it
        _write_recipes(folder, recipe, table, ready.path if ready.stages else None)
        write_text(folder / TABLE, text)
        return table


def _write_recipes(folder: Path, recipe: dict, table: dict[str, Any], predecessor: str | None) -> None:
    """One for the plan that was found, and one for each that it was compared with, to train them as well."""
    found, *others = table["rows"]
    plan = Plan.from_json(found["plan"])
    write_text(folder / RECIPE, as_recipe(recipe, plan, predecessor, tell_found(table), tell_slots(table)))
    shutil.rmtree(folder / COMPARED, ignore_errors=True)  # of another goal
    for row in others:
        ending = re.sub(r"[^a-z0-9]+", "-", row["name"])
        told = [f"{row['name']}, which a plan for {table['search']['goal']['told']} was compared with."]
        init = None if row["solved"] else "lower"
        text = as_recipe(recipe, Plan.from_json(row["plan"]), predecessor, told, ending=ending, init=init)
        write_text(folder / COMPARED / f"{ending}.toml", text)


def _read(recipe: dict, folder: Path, console: Console) -> RunConfig:
    """The recipe with a plan that fits any chain, in place of the one that is searched for."""
    plan = recipe.get("plan", {})
    if not isinstance(plan, dict):
        validate_config(recipe)  # says what is wrong
    said = [f"plan.{key}" for key in SAID_BY_SLOTS if key in plan and key != "chains"]
    rest = {key: value for key, value in plan.items() if key not in SAID_BY_SLOTS or key == "chains"}
    data = {
        **recipe,
        "run": {**recipe.get("run", {}), "folder": str(folder / "predecessor-run")},
        "plan": {**rest, "cut": "late"},
    }
    config = validate_config(data)
    if said:
        console.print(f"{', '.join(said)} of the recipe not read: a plan is searched for", soft_wrap=True)
    return config.model_copy(update={"run": config.run.model_copy(update={"effort": None, "within": None})})


def _claim(folder: Path, asked: dict) -> None:
    """Makes the folder this recipe's own.

    Raises:
        RunError: it is another's.
    """
    file = folder / ASKED
    if file.is_file() and read_json(file, "choose another --folder, or delete it") != asked:
        raise RunError(
            f"{folder} holds a search with another recipe, --tokens or --batch; choose another --folder, or delete it"
        )
    write_text(file, json.dumps(asked, indent=2))
    sweep_leftovers(folder)


class Search:
    """A search on a predecessor that is ready."""

    def __init__(self, ready: ReadyPredecessor, request: Request, context: Context, batch_size: int) -> None:
        self.ready = ready
        self.request = request
        self.goal = request.goal
        self.context = context
        self.batch_size = batch_size
        self.model = ready.load().eval()
        chains = chains_of(self.model, ready.run.config.plan.chains)
        self.library = make_library(self.model, chains, longest=request.spans, names=request.parts, tell=self.say)
        self.bench = Workbench(self.model, divide_texts(ready.run), context.seed)
        self.plans = Plans(ready.run, self.bench, context.folder / "plans", batch_size=batch_size)
        self.predecessor: dict[str, float] = {}
        self.measured: dict[Plan, Measured] = {}

    def run(self) -> dict[str, Any]:
        """table.json."""
        started = time.monotonic()
        costs = self._find_costs()
        cheaper = self._cheaper(costs)
        free = Market.open(
            dict.fromkeys([*self.library.kept, *cheaper], 0.0), costs, self.library.num_blocks, self.goal.by
        )
        check_reachable(self.goal, free)
        scores = self._find_scores(cheaper)
        effects = dict.fromkeys(self.library.kept, 0.0)
        effects |= {one: score.effect for one, score in scores.items() if score.effect is not None}
        market = Market.open(effects, costs, self.library.num_blocks, self.goal.by)
        check_reachable(self.goal, market)
        whole, choosing, other = self.plans.score_predecessor()
        self.predecessor = {
            "score": whole,
            "choosing_score": choosing,
            "other_score": other,
            "parameters": count_parameters(self.model),
        }
        budget, finalists = self._choose(market)
        rows = self._compare(market, finalists, budget)
        more = {
            "scored": len(effects) - len(self.library.kept),
            "failed": sum(score.effect is None for score in scores.values()),
            "finalists": len(finalists),
            "tokens": self.request.tokens,
            "texts": len(self.bench.texts.measuring.lengths),
            "spans": self.request.spans,
            "seconds": time.monotonic() - started,
        }
        return tabulate(self.ready.run, self.library, costs, scores, rows, self.predecessor, self.goal, more)

    def say(self, line: str) -> None:
        self.context.console.print(line, soft_wrap=True)

    def _find_costs(self) -> Costs:
        """Those that were measured, unless the library has a kind of module that was not."""
        file, kinds = self.context.folder / COSTS, {one.kind for one in self.library.candidates}
        if file.is_file():
            known = read_as(file, Costs)
            if kinds <= known.ratios.keys():
                return known
        console = self.context.console
        self.say(f"costs: {len(kinds)} kinds of module in turn, at batch size {self.batch_size}")
        with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
            task = bar.add_task("costs", total=None)
            found = measure_costs(
                self.library,
                self.plans.timed,
                batch_size=self.batch_size,
                predictions=self.ready.run.config.evaluation.latency_predictions,
                progress=lambda done, expected: bar.update(task, completed=done, total=expected),
            )
        write_text(file, json.dumps(found.to_json(), indent=2))
        if not found.steady:
            self.say(f"costs: {UNSTEADY}; predicted speeds may be off, and {file} can be deleted to measure them again")
        return found

    def _cheaper(self, costs: Costs) -> list[Candidate]:
        """The candidates that take less time, or have fewer parameters, than the blocks that they replace; no plan needs others."""

        def cost(one: Candidate) -> float:
            return costs.time(one) if self.goal.by == TIME else one.parameters

        kept = self.library.kept
        return [one for one in self.library.candidates if cost(one) < sum(cost(kept[block]) for block in one.blocks)]

    def _find_scores(self, candidates: list[Candidate]) -> dict[Candidate, Score]:
        started, new = time.monotonic(), 0

        def show(number: int, one: Candidate, score: Score) -> None:
            nonlocal new
            new += 1
            told = f"effect {score.effect:.4f}" if score.effect is not None else f"left out: {score.failure}"
            left = (time.monotonic() - started) / new * (len(candidates) - number)
            self.say(f"candidate {number} of {len(candidates)}, {one}: {told}; about {left / 60:.0f} min left")

        folder = self.context.folder / "candidates"
        return dict(zip(candidates, score_all(candidates, self.bench, self.request.tokens, folder, show), strict=True))

    def _choose(self, market: Market) -> tuple[float, list[list[Candidate]]]:
        """The budget, what is outside of the chains included, and the best plans within it, the best by measured effect first."""
        if self.goal.kind == WITHIN:
            budget = self._find_fastest(market)
        else:
            budget = 1 / self.goal.value if self.goal.by == TIME else self.goal.value
        plans = self._cover(market, budget, self.request.plans)
        for number, chosen in enumerate(plans, start=1):
            self._measure(Named(NEXT, f"plan {number}", self.library.plan(chosen)))
        if self.goal.kind == WITHIN:
            plans = [one for one in plans if self._holds(self.measured[self.library.plan(one)])]
        return budget, sorted(plans, key=lambda one: self.measured[self.library.plan(one)].effect)

    def _find_fastest(self, market: Market) -> float:
        """The time of the fastest plan that keeps the score, by halving the range of speeds.

        Raises:
            ConfigError: none of those tried does.
        """
        low, high = 1.0, 1 / market.find_least()
        best: float | None = None
        mildest: tuple[float, Measured] | None = None
        for _ in range(HALVINGS):
            if high < low * NARROW:
                break
            speed = math.sqrt(low * high)
            (chosen,) = self._cover(market, 1 / speed, 1)
            reached = 1 / market.costs.total_time(chosen)
            measured = self._measure(Named(NEXT, f"{reached:.2f}x as fast", self.library.plan(chosen)))
            if self._holds(measured):
                low, best = max(speed, reached), 1 / reached
            else:
                high, mildest = speed, (reached, measured)
        if best is None:
            raise ConfigError(
                f"--within is {self.goal.value:.3g}, but {self._tell_mildest(mildest)}; give a larger share, or a --target "
                "and train the plan"
            )
        return best

    def _tell_mildest(self, tried: tuple[float, Measured] | None) -> str:
        if tried is None:
            return "no plan of this library is faster than the predecessor by more than noise"
        reached, measured = tried
        kept = measured.choosing_score / (self.predecessor["choosing_score"] or 1.0)
        return (
            f"no plan that was tried keeps as much of the score without training: the mildest, {reached:.2f}x as fast, "
            f"keeps {kept:.1%}"
        )

    def _holds(self, measured: Measured) -> bool:
        before = self.predecessor["choosing_score"]
        return measured.choosing_score >= before - self.goal.value * abs(before)

    def _cover(self, market: Market, budget: float, count: int) -> list[list[Candidate]]:
        """The best plans that fit the model.

        Raises:
            PlanError: none of many does.
        """
        asked = count
        while True:
            found = cover(market.items, market.num_blocks, budget=budget - market.outside, count=asked)
            plans = [[market.candidates[place] for place in places] for places in found]
            fitting = [one for one in plans if self.plans.why_not(self.library.plan(one)) is None][:count]
            if len(fitting) == count or len(plans) < asked or asked >= MOST_TRIED:
                break
            asked = min(MOST_TRIED, 2 * asked)
        if not fitting:
            why = self.plans.why_not(self.library.plan(plans[0]))
            raise PlanError(f"none of the best {len(plans)} plans fits the model; the first: {why}")
        return fitting

    def _compare(self, market: Market, finalists: list[list[Candidate]], budget: float) -> list[Row]:
        """The plan that was found, the next best, simple ones, and random ones."""
        costs, effects = market.costs, dict(zip(market.candidates, (one.effect for one in market.items), strict=True))
        rows = []

        def add(named: Named, blocks: Iterable[Candidate]) -> None:
            if (why := self.plans.why_not(named.plan)) is not None:
                self.say(f"{named.name} left out: {why}")
                return
            predicted = find_predicted(self.library, effects, named.plan) if named.solved else None
            rows.append(Row(named, list(blocks), predicted, self._measure(named)))

        for place, chosen in enumerate(finalists):
            kind, name = (NEXT, f"next best {place}") if place else (FOUND, FOUND)
            add(Named(kind, name, self.library.plan(chosen)), chosen)
        by = PARAMETERS if self.goal.by == PARAMETERS else TIME
        for simple in simple_plans(self.library, costs, budget, by):
            add(simple.named, simple.blocks)
        inside, there = budget - market.outside, {row.named.plan for row in rows}
        count = (
            2 * self.request.random + len(rows) if self.request.random else 0
        )  # some are there already, or do not fit
        drawn = draw_covers(
            market.items,
            market.num_blocks,
            low=ABOUT * inside,
            high=inside,
            count=count,
            seed=self.context.seed,
        )
        others = [[market.candidates[place] for place in places] for places in drawn]
        new = [
            one for one in others if (plan := self.library.plan(one)) not in there and self.plans.why_not(plan) is None
        ]
        for place, chosen in enumerate(new[: self.request.random], start=1):
            add(Named(RANDOM, f"random {place}", self.library.plan(chosen)), chosen)
        return rows

    def _measure(self, named: Named) -> Measured:
        if named.plan not in self.measured or not named.solved:
            found = self.plans.measure(named)
            self.say(
                f"{named.name}: effect {found.effect:.4f}, {found.speedup['median']:.2f}x as fast, score {found.score:.4f}"
            )
            if not named.solved:
                return found
            self.measured[named.plan] = found
        return self.measured[named.plan]
