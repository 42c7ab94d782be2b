"""What a method is given, and what it gives back."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from plankwise.config import PlanOptions
from plankwise.core.plan import Plan
from plankwise.data.encode import Encoded
from plankwise.errors import ConfigError
from plankwise.training.fitting import Fit, add_texts, fit, read_texts
from plankwise.training.ship import build_successors
from plankwise.training.stage import Stage, StageResult

WIDE = 3  # blocks a successor, from which on fitting first has paid; see EXPERIMENTS.md


@dataclass(frozen=True)
class Outcome:
    successor: nn.Module
    plan: Plan
    stage: StageResult  # the method's own
    stages: dict[str, StageResult]  # all of them, in their order
    skipped_steps: int = 0
    notes: dict[str, Any] = field(default_factory=dict)  # more for the record

    @property
    def seconds(self) -> float:
        """Of training, and of the one pass in which the predecessor's targets were computed."""
        return sum(stage.seconds for stage in self.stages.values()) + self.notes.get("targets", {}).get("seconds", 0.0)

    @property
    def steps(self) -> int:
        return sum(stage.steps for stage in self.stages.values())


@dataclass(frozen=True)
class Job:
    """A predecessor to compress by a plan; `stage` makes, by its name, a training stage with the whole budget."""

    predecessor: nn.Module  # given away: a method may change it
    plan: Plan
    options: PlanOptions
    seed: int
    max_length: int
    held_out: Encoded
    stage: Callable[[str], Stage]

    def start(self, *, fit_wide: bool = False) -> "Start":
        """The successors as the plan says they start; if they are to be fitted, that is done here.

        `fit_wide`: the method gains by it where spans are wide, so that init = "auto" means `fitted` there.
        """
        successors = build_successors(self.predecessor, self.plan, init=self.options.start, seed=self.seed)
        chosen = fit_wide and self.options.init == "auto" and self._is_wide and self.stage("fitting").num_steps > 1
        if self.options.init != "fitted" and not chosen:
            return Start(self, successors)
        return Start(self, successors, self._fit(successors))

    @property
    def _is_wide(self) -> bool:
        """Whether a successor stands for WIDE blocks or more, on average."""
        spans = [len(slot.span) for slot in self.plan.slots]
        return sum(spans) >= WIDE * len(spans)

    def _fit(self, successors: list[nn.Module]) -> Fit:
        fitting, stage = self.options.fitting, self.stage("fitting")
        if stage.num_steps < 2:
            raise ConfigError(
                "plan.init is 'fitted', which shares the training steps with the method, and there is 1 step; "
                "give more (training.epochs or training.max_steps), or another init"
            )
        steps = max(1, min(stage.num_steps - 1, round(fitting.share * stage.num_steps)))
        options = stage.options.model_copy(
            update={"max_steps": steps, "learning_rate": fitting.learning_rate, "evaluate_every": steps}
        )
        train = stage.train
        if fitting.texts is not None:
            train = add_texts(train, read_texts(fitting.texts), stage.tokenizer, self.max_length)
        return fit(self.predecessor, self.plan, successors, replace(stage, options=options, train=train), self.held_out)


@dataclass(frozen=True)
class Start:
    """Successors ready for a method, and what fitting them has left of the budget."""

    job: Job
    successors: list[nn.Module]
    fit: Fit | None = None

    def stage(self, name: str) -> Stage:
        stage = self.job.stage(name)
        if self.fit is None:
            return stage
        left = stage.num_steps - self.fit.stage.max_steps
        return replace(stage, options=stage.options.model_copy(update={"max_steps": left}))

    def outcome(self, successor: nn.Module, result: StageResult, *, skipped_steps: int = 0, **notes: Any) -> Outcome:
        stages = {result.name: result}
        notes["init"] = self.job.options.start if self.fit is None else "fitted"
        if self.fit is not None:
            stages = {"fitting": self.fit.stage, **stages}
            notes["fitting"] = self.fit.to_json()
        return Outcome(successor, self.job.plan, result, stages, skipped_steps, notes)
