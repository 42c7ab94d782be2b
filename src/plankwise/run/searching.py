"""The search that `run.effort = "hours"` makes: plan, method and learning rate, then several seeds.

Plans are compared solved and untrained, by their end effect, for which no label is needed. Methods and learning rates are compared
by successive halving (Jamieson and Talwalkar 2016): all are trained for a few steps, the best third for three times as many, and so
on; what chooses is the task's choosing set, never dev. Every trial is a run of its own below the run's folder, so that a search
that was stopped goes on where it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from plankwise.config import RunConfig, validate_config
from plankwise.core.plan import late_sizes, spans_of
from plankwise.efforts import TAPERED, THIN
from plankwise.errors import ConfigError, PlanError
from plankwise.families import chains_of
from plankwise.models.plans import make_plan, try_plan
from plankwise.models.saving import save
from plankwise.run.inputs import Run
from plankwise.run.training import train
from plankwise.toml import without_none
from plankwise.training.job import Outcome

METHODS: dict[str, dict[str, Any]] = {
    "replacing": {"name": "replacing"},
    "replacing with logits": {"name": "replacing", "alpha": 0.5},
    "kd": {"name": "kd"},
}
RATES = (5e-5, 1.5e-4, 4e-4)
KEEP = 3  # one in so many goes on to the next round, which has so many times the steps
SEEDS = 3
TRAININGS = 5  # full trainings that a search takes as long as, seeds included
FOLDER = Path("checkpoints") / "search"

Load = Callable[[], nn.Module]


@dataclass(frozen=True)
class Trial:
    method: str
    rate: float
    steps: int
    seed: int
    score: float


@dataclass(frozen=True)
class Found:
    """The best successor of a search, and how it was found."""

    outcome: Outcome
    notes: dict[str, Any]
    seconds: float  # that all trials took


class Search:
    """Trials of one run, all from one predecessor."""

    def __init__(self, run: Run, load: Load) -> None:
        self.run = run
        self.load = load
        self.seconds = 0.0
        self.asked = set[float]()  # seconds of the passes of the predecessor that are counted
        self.trials: list[Trial] = []
        self.methods = [name for name in METHODS if self._is_offered(name)]

    def _is_offered(self, method: str) -> bool:
        try:
            self.run.task.check_config(self._config({}, method=METHODS[method], init="lower"))
        except ConfigError as error:
            self._say(f"{method} is not compared: {error}")
            return False
        return True

    def find(self) -> Found:
        """Searches, trains the best settings on several seeds, and gives the best of them."""
        plan, plans = self._find_plan()
        start = str(self.run.folder / FOLDER / _name(plan) / "solved")
        full = self._stage_steps()
        left = [(method, rate) for method in self.methods for rate in RATES]
        num_settings = len(left)
        rounds = max(1, math.ceil(math.log(num_settings, KEEP)))
        scores: dict[tuple[str, float], float] = {}
        for number in range(rounds + 1):
            steps = max(1, round(full / KEEP ** (rounds - number)))
            scores = {one: self._try(plan, start, *one, steps, self.run.context.seed)[0] for one in left}
            left = sorted(left, key=lambda one: -scores[one])[: max(1, len(left) // KEEP)]
        method, rate = left[0]
        first = self.run.context.seed
        seeds = {seed: self._try(plan, start, method, rate, full, seed) for seed in range(first, first + SEEDS)}
        seed = max(seeds, key=lambda one: seeds[one][0])
        why = (
            f"{method} at a learning rate of {rate:g} was the best of {num_settings} settings by successive halving, "
            f"seed {seed} the best of {SEEDS}, both on examples kept out of training; the plan had the least end effect of "
            f"{len(plans)}, solved and untrained"
        )
        notes = {
            "plans": plans,
            "trials": [vars(trial) for trial in self.trials],
            "chosen": {**_told(plan), "method": method, "learning_rate": rate, "seed": seed, "steps": full},
            "why": why,
        }
        return Found(seeds[seed][1], notes, self.seconds)

    def _find_plan(self) -> tuple[dict[str, Any], list[dict]]:
        """What changes the plan into the one whose solved successors are nearest to the predecessor, and all that were compared."""
        effects: list[float] = []
        candidates = self._candidates()
        for plan in candidates:
            config = self._config(plan, method={"name": "solve"}, init="solved")
            outcome = self._train(config, _name(plan), self.run.context.seed)
            save(outcome.successor, self.run.folder / FOLDER / _name(plan) / "solved", self.run.tokenizer)
            effects.append(outcome.notes["solving"]["effect"])
            self._say(f"plan {_name(plan)}: end effect {effects[-1]:.4f}")
        told = [{**_told(plan), "effect": effect} for plan, effect in zip(candidates, effects, strict=True)]
        return candidates[effects.index(min(effects))], told

    def _candidates(self) -> list[dict[str, Any]]:
        """Changes of the plan to compare: none; if it is spans of one chain by number, also even ones, late ones, and late ones
        reversed; if nothing is said of it, also thin layers."""
        options = self.run.config.plan
        model = self.load()
        if options.slots or options.spans or len(chains := chains_of(model, options.chains)) != 1:
            return [{}]
        own = [len(slot.span) for slot in make_plan(model, options).slots]
        late = late_sizes(chains[0].length, len(own))
        even = [chains[0].length // len(own)] * len(own)
        others = {tuple(sizes) for sizes in (even, late, late[::-1]) if sizes != own and sum(sizes) == sum(own)}
        cuts = [{"spans": spans_of(list(sizes)), "successors": None, "cut": "even"} for sizes in sorted(others)]
        return [{}, *cuts, *self._thin(model)]

    def _thin(self, model: nn.Module) -> list[dict[str, Any]]:
        """Thin layers, alike and tapered, unless the plan asks for something else or this family's cannot be thinned."""
        options = self.run.config.plan
        if options.successors is not None or options.part != "layers":
            return []
        found = []
        for plan in (THIN, TAPERED):
            try:
                try_plan(model, make_plan(model, options.model_copy(update=plan)), init="lower", seed=0)
            except PlanError as error:
                self._say(f"the plan {_name(plan)} is not compared: {error}")
            else:
                found.append(dict(plan))
        return found

    def _try(
        self, plan: dict[str, Any], start: str, method: str, rate: float, steps: int, seed: int
    ) -> tuple[float, Outcome]:
        config = self._config(plan, method=METHODS[method], init=start, rate=rate, steps=steps)
        outcome = self._train(config, f"{_name(plan)}-{method}-{rate:g}-{steps}".replace(" ", "-"), seed)
        trial = Trial(method, rate, steps, seed, outcome.stage.best_score)
        if trial not in self.trials:  # the last round's is the first seed's
            self.trials.append(trial)
            self._say(f"{method}, learning rate {rate:g}, {steps} steps, seed {seed}: {trial.score:.4f}")
        return trial.score, outcome

    def _train(self, config: RunConfig, name: str, seed: int) -> Outcome:
        folder = self.run.folder / FOLDER / f"{name}-{seed}"
        run = replace(self.run, config=config, context=self.run.context.at(folder, seed))
        model = self.load()
        outcome = train(run, make_plan(model, config.plan), model)
        shared = outcome.notes.get("targets", {}).get("seconds", 0.0)  # each outcome counts them, made once for all
        self.seconds += outcome.seconds - (shared if shared in self.asked else 0.0)
        self.asked.add(shared)
        return outcome

    def _config(
        self, plan: dict[str, Any], *, method: dict, init: str, rate: float | None = None, steps: int | None = None
    ) -> RunConfig:
        data = self.run.config.model_dump(mode="json")
        data["run"].update(effort=None, within=None)
        data["method"] = method
        data["plan"].update({"init": init, **plan})
        if steps is None or steps < 2:  # none to share with training for int8
            data["training"]["quantising"]["share"] = 0.0
        if rate is not None:
            data["training"].update(learning_rate=rate, max_steps=steps, evaluate_every=max(1, (steps or 1) // 3))
        return validate_config(without_none(data))

    def _stage_steps(self) -> int:
        return self.run.stage("search", self.run.config.training).num_steps

    def _say(self, line: str) -> None:
        self.run.context.console.print(f"search: {line}", soft_wrap=True)


def _name(plan: dict[str, Any]) -> str:
    if plan.get("cut") == TAPERED["cut"]:
        return str(plan["cut"])
    return plan.get("part") or "-".join(str(len(span)) for span in plan.get("spans", ())) or "own"


def _told(plan: dict[str, Any]) -> dict[str, Any]:
    """A plan as the record has it."""
    return {"spans": plan.get("spans"), **{key: plan[key] for key in ("part", "cut") if "part" in plan}}
