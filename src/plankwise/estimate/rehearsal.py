"""A rehearsal: a run's own stages, each of which tries out a few of its steps instead of training.

A method computes nothing but through its stages (`run`, `targets`). So `compress` itself, given stages that rehearse, says what it
will do, and no method describes its cost a second time. A step that is tried out is a real one, run by the stage's own trainer
with its own mask and a learning rate of 0.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from torch import nn
from transformers import TrainingArguments

from plankwise.estimate.phases import TARGETS, Estimate, Phase
from plankwise.estimate.steps import FewSteps
from plankwise.estimate.timing import Timing
from plankwise.estimate.work import Weights, padded_tokens, spread
from plankwise.task_kinds import Read
from plankwise.training.callbacks import BestKeeper, ProgressShower
from plankwise.training.stage import Computed, Stage, StageResult
from plankwise.training.targets import BATCH_SIZE, Targets, compute_targets
from plankwise.training.trainer import StageTrainer

TRIED_TOKENS = 500


@dataclass(frozen=True, kw_only=True)
class RehearsedStage(Stage):
    """A stage that trains nothing: what it would take goes into the estimate; with no estimate it runs no step at all."""

    estimate: Estimate | None
    predecessor: nn.Module  # in memory beside the model that is trained

    def arguments(self) -> TrainingArguments:
        arguments = super().arguments()
        arguments.learning_rate, arguments.max_steps, arguments.report_to = 0.0, self.num_steps, []
        return arguments

    def execute(self, trainer: StageTrainer, keeper: BestKeeper, shower: ProgressShower) -> StageResult:
        steps, seconds = self.num_steps, 0.0
        if self.estimate is not None:
            trainer.remove_callback(keeper)
            trainer.remove_callback(shower)
            few = FewSteps(trainer, steps, self.estimate.budget)
            with few.hooks:
                trainer.train()
            seconds = few.timing.seconds
            self.estimate.phases[self.name] = Phase(seconds, steps)
            self.estimate.memory[self.name] = few.memory(self.predecessor)
            self.estimate.evaluated += self.num_evaluations * Weights(trainer.model.eval()).forward()
        return StageResult(self.name, steps, steps, seconds, seconds, best_step=steps, best_score=0.0)

    def compute(self, work: Callable[[int], Computed], amount: int) -> Computed | None:
        """A little of it, twice: what does not grow with the amount is told from what does."""
        if self.estimate is None:
            return None
        amounts, seconds, found = [min(amount, TRIED_TOKENS * times) for times in (1, 2)], [], None
        for some in amounts:
            started = time.monotonic()
            with self.products():
                found = work(some)
            seconds.append(time.monotonic() - started)
        grown = max(0.0, seconds[1] - seconds[0]) / max(1, amounts[1] - amounts[0])
        self.estimate.phases[self.name] = Phase(seconds[1] + grown * (amount - amounts[1]))
        if found is not None:
            self.estimate.memory[self.name] = found.memory
        return found

    def targets(self, predecessor: nn.Module, read: Read) -> Targets:
        """Those of this rehearsal alone: a run that follows is not to find them."""
        return self.outputs(predecessor, read)

    def outputs(self, model: nn.Module, read: Read) -> Targets:
        """Targets of the right shapes, all of them those of the longest text."""
        lengths = self.train.lengths
        order = np.argsort(lengths, kind="stable")[::-1]

        def compute(rows: np.ndarray) -> Targets:
            texts = replace(self.train, dataset=self.train.dataset.select(rows), lengths=lengths[rows])
            with self.products():
                return compute_targets(model, texts, self.tokenizer, read, self.folder, self.context)

        found, seconds = compute(order[:1]), 0.0
        if self.estimate is not None:
            work = padded_tokens(lengths, BATCH_SIZE) * Weights(model.eval()).forward()
            timing = Timing(self.estimate.budget, work.sum())
            for place in spread(work):
                compute(order[place * BATCH_SIZE : (place + 1) * BATCH_SIZE])
                timing.add(work[place])
                if self.context.on_main(lambda: timing.enough):
                    break
            seconds = timing.seconds
            self.estimate.phases[TARGETS] = Phase(seconds)
        arrays = {name: np.broadcast_to(one, (len(lengths), *one.shape[1:])) for name, one in found.arrays.items()}
        return Targets(arrays, seconds, on_disk=False)
