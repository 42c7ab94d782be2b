"""What a method is given, how it divides its budget into stages, and what it gives back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from torch import nn

from plankwise.augmentation_options import AugmentationOptions
from plankwise.config import PlanOptions
from plankwise.core.plan import Plan
from plankwise.data.batch import without_labels
from plankwise.data.encode import Encoded, encode
from plankwise.errors import ConfigError, PlanError
from plankwise.models.plans import build_successors
from plankwise.task_kinds import Imitation
from plankwise.training.augmentation import NAME as AUGMENTATION
from plankwise.training.augmentation import Augmented, Material, augment
from plankwise.training.fitting import Fit, add_texts, fit, read_texts
from plankwise.training.solved import Solved, solve_start
from plankwise.training.solved_head import NAME as HEAD
from plankwise.training.solved_head import ScoreExamples, SolvedHead, check_head, solve_on_labels
from plankwise.training.stage import Stage, StageResult
from plankwise.training.targets import Targets


@dataclass(frozen=True)
class Outcome:
    successor: nn.Module
    plan: Plan
    stages: dict[str, StageResult]  # in their order; the method's own come last
    skipped_steps: int = 0
    notes: dict[str, Any] = field(default_factory=dict)  # more for the record

    @property
    def stage(self) -> StageResult:
        """The last one."""
        return list(self.stages.values())[-1]

    @property
    def seconds(self) -> float:
        """Of training, and of the one pass in which the predecessor's targets were computed."""
        return sum(stage.seconds for stage in self.stages.values()) + self.notes.get("targets", {}).get("seconds", 0.0)

    @property
    def steps(self) -> int:
        return sum(stage.steps for stage in self.stages.values())


def _no_score(examples: Encoded, logits: np.ndarray) -> float:
    raise ConfigError("this job has no score for training examples to choose by; set what is to be chosen yourself")


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
    score_examples: ScoreExamples = _no_score  # the task's score on any of its examples
    imitation: Imitation | None = None  # the task's loss, if it compares with the predecessor's answers
    material: Material | None = None  # what copies of training texts are made of, if there is any

    def start(
        self, *, gains: bool = False, solve: bool = False, augmentation: AugmentationOptions | None = None
    ) -> "Start":
        """The successors as the plan says they start; if they are to be solved or fitted, that is done here.

        `gains`: the method is better from solved successors, so that init = "auto" means `solved`, where they can be. `solve`: the
        method is nothing without it. `augmentation`: copies that the method's own stages learn from, too; a start is computed from
        the texts as they are.

        Raises:
            PlanError: the successors, or their head, are to be solved, but cannot be.
            ConfigError: the head is to be solved on labels, but there are none; or copies are wanted, but cannot be made.
        """
        augmented = self._augment(augmentation) if augmentation and augmentation.copies else None
        solved = self._solve() if solve or self.options.solves else None
        if solved is None and gains and self.options.init == "auto":
            solved = self._try_to_solve()
        successors = solved.successors if solved else self._build(self.options.start)
        fitted = self._fit(successors) if self.options.init == "fitted" else None
        head = self._solve_head(successors) if solved else None
        # Here, as long as the predecessor is what it was; a method that is nothing but solved successors has no loss.
        targets = None if solve or self.imitation is None else self._compute_targets(self.imitation)
        return Start(self, successors, fitted, solved, head, targets, augmented)

    def _augment(self, options: AugmentationOptions) -> Augmented:
        if self.material is None:
            raise ConfigError("this job has no texts that could be copied; set method.augmentation.copies to 0")
        return augment(self.stage(AUGMENTATION), self.material, options, self.max_length)

    def _try_to_solve(self) -> Solved | None:
        """Solved successors; None, and says why, if they cannot be solved."""
        try:
            return self._solve()
        except PlanError as error:
            if self.options.solving.head != "kept":  # asked for by name: there is nothing else to fall back to
                raise
            self.stage("solving").context.console.print(f"plan.init is 'auto': {error}", soft_wrap=True)
            return None

    def _build(self, init: str) -> list[nn.Module]:
        return build_successors(self.predecessor, self.plan, init=init, seed=self.seed)

    def _solve(self) -> Solved:
        options, stage = self.options.solving, self.stage("solving")
        if options.head == "labels":  # found before anything is computed
            check_head(stage, self.predecessor)
        texts = without_labels(stage.train)
        if options.texts is not None:
            given = pa.table({"text": read_texts(options.texts, "plan.solving.texts")})
            texts = encode(given, stage.tokenizer, self.max_length)
        return solve_start(replace(stage, train=texts), self.predecessor, self.plan, self._build, options.tokens)

    def _solve_head(self, successors: list[nn.Module]) -> SolvedHead | None:
        options = self.options.solving
        if options.head == "kept":
            return None
        return solve_on_labels(
            self.stage(HEAD), self.predecessor, self.plan, successors, self.score_examples, options.head_examples
        )

    def _compute_targets(self, imitation: Imitation) -> Targets:
        return self.stage("targets").targets(self.predecessor, imitation.read)

    def _fit(self, successors: list[nn.Module]) -> Fit:
        fitting, stage = self.options.fitting, self.stage("fitting")
        if stage.num_steps < 2:
            raise ConfigError(
                "plan.init is 'fitted', which shares the training steps with the method, and there is 1 step; "
                "give more (training.epochs or training.max_steps), or another init"
            )
        steps = max(1, min(stage.num_steps - 1, round(fitting.share * stage.num_steps)))
        stage = stage.with_steps(steps, learning_rate=fitting.learning_rate, evaluate_every=steps)
        if fitting.texts is not None:
            more = add_texts(stage.train, read_texts(fitting.texts), stage.tokenizer, self.max_length)
            stage = replace(stage, train=more)
        return fit(self.predecessor, self.plan, successors, stage, self.held_out)


@dataclass(frozen=True)
class Start:
    """Successors ready for a method, and what computing them has left of the budget."""

    job: Job
    successors: list[nn.Module]
    fit: Fit | None = None
    solved: Solved | None = None
    head: SolvedHead | None = None  # of the successors' own, instead of the predecessor's
    targets: Targets | None = None  # the predecessor's answers, if the task's loss compares with them
    augmented: Augmented | None = None  # the training examples with changed copies of them

    def stage(self, name: str) -> Stage:
        """One stage with all that is left of the budget."""
        return self.stages({name: 1.0})[0]

    def stages(self, shares: Mapping[str, float]) -> list[Stage]:
        """Stages by name, each with its share of what is left of the budget, and one step at least.

        Raises:
            ConfigError: there are fewer steps than stages.
        """
        whole = [self._with_loss(self._on_copies(self.job.stage(name))) for name in shares]
        if self.fit is None and len(whole) == 1:
            return whole
        left = whole[0].num_steps - (self.fit.stage.max_steps if self.fit else 0)
        if left < len(whole):
            raise ConfigError(
                f"the method has {len(whole)} stages ({', '.join(shares)}), but {left} "
                f"{'step is' if left == 1 else 'steps are'} left for them; give more (training.epochs or training.max_steps)"
            )
        return [
            stage.with_steps(steps) for stage, steps in zip(whole, divide(left, list(shares.values())), strict=True)
        ]

    def _on_copies(self, stage: Stage) -> Stage:
        return stage if self.augmented is None else stage.on_more(self.augmented.examples)

    def _with_loss(self, stage: Stage) -> Stage:
        if self.targets is None or self.job.imitation is None:
            return stage
        return replace(stage, loss=self.job.imitation.loss(self.targets))

    def outcome(
        self, successor: nn.Module, *results: StageResult, skipped_steps: int = 0, init: str | None = None, **notes: Any
    ) -> Outcome:
        """What the method gives back; `init`: where the successors really started, if not as the plan says."""
        stages = {result.name: result for result in results}
        computed = "fitted" if self.fit else "solved" if self.solved else None
        notes["init"] = init or computed or self.job.options.start
        if self.targets is not None:
            notes["targets"] = self.targets.to_json(self.job.stage("targets").passes)
        if self.head is not None:
            stages = {HEAD: self.head.stage, **stages}
        if self.fit is not None:
            stages = {"fitting": self.fit.stage, **stages}
            notes["fitting"] = self.fit.to_json()
        if self.solved is not None:
            stages = {"solving": self.solved.stage, **stages}
            notes["solving"] = self.solved.notes | ({"head": self.head.notes} if self.head else {})
        if self.augmented is not None:
            stages = {AUGMENTATION: self.augmented.stage, **stages}
            notes[AUGMENTATION] = self.augmented.notes
        return Outcome(successor, self.job.plan, stages, skipped_steps, notes)


def divide(total: int, shares: list[float]) -> list[int]:
    """`total` in whole parts by their shares, each at least 1; the last takes what rounding leaves."""
    parts: list[int] = []
    for index, share in enumerate(shares[:-1]):
        after = len(shares) - index - 1
        room = total - sum(parts) - after
        parts.append(max(1, min(room, round(total * share / sum(shares)))))
    return [*parts, total - sum(parts)]
