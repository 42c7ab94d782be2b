"""A few steps of a stage, run by its own trainer: how long all of them will take, and how much memory."""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from transformers import TrainerCallback

from plankwise.estimate.timing import Budget, Timing
from plankwise.estimate.work import Weights, spread
from plankwise.training.batches import StepBatches
from plankwise.training.trainer import StageTrainer

MOST_STEPS = 1000  # of a stage that are looked at; of more, so many that lie evenly


class FewSteps(TrainerCallback):
    """Has a trainer time a few batches, each with the mask of a step from anywhere in the stage.

    The first batch is the largest, where memory is looked at. Then come those of medium size: a part of each step takes as long
    however large the batch is, and this way that part has its share.
    """

    def __init__(self, trainer: StageTrainer, num_steps: int, budget: Budget) -> None:
        self.trainer = trainer
        self.num_steps = num_steps
        self.timing = Timing(budget, 0.0)
        self.steps = np.linspace(0, num_steps - 1, min(num_steps, MOST_STEPS)).astype(int).tolist()
        self.weights = np.zeros(len(self.steps))  # by step; known when training begins
        self.left: list[tuple[int, int]] = []  # places of batches and steps that are still to be run together
        self.saved: dict[int, int] = {}  # bytes that autograd keeps for a backward pass, by address
        self.hooks = ExitStack()  # open while those are noted, in the first step
        batches = list(itertools.islice(batches_by_step(trainer.batches), len(self.steps)))
        self.tokens = np.array([count_tokens(parts, trainer.batches.order.lengths) for parts in batches])
        medium = np.argsort(abs(self.tokens - self.tokens.mean()), kind="stable")
        self.order = [int(self.tokens.argmax()), *medium.tolist()]
        trainer.batches = Batches(itertools.chain(*(batches[place] for place in self.order)))  # type: ignore[assignment]
        trainer.add_callback(self)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        weights = Weights(self.trainer.model.train())
        for place, step in enumerate(self.steps):
            state.global_step = step
            self.trainer.callback_handler.on_step_begin(args, state, control)  # tells the model at which step it is
            self.weights[place] = weights.training(step)
        self.left = list(zip(self.order, spread(self.weights), strict=False))
        state.global_step = self.steps[self.left[0][1]]
        own = storages(self.trainer.model)

        def note(tensor: torch.Tensor) -> torch.Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in own:
                self.saved[storage.data_ptr()] = storage.nbytes()
            return tensor

        self.hooks.enter_context(saved_tensors_hooks(note, lambda tensor: tensor))
        self.timing = Timing(self.timing.budget, (self.tokens * self.weights).mean() * self.num_steps)

    def on_substep_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.hooks.close()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.hooks.close()
        if args.device.type == "cuda":
            torch.cuda.synchronize(args.device)
        batch, place = self.left.pop(0)
        self.timing.add(self.tokens[batch] * self.weights[place])
        enough = self.trainer.context.on_main(lambda: self.timing.enough)  # clocks differ
        control.should_training_stop = enough or not self.left
        control.should_log = control.should_evaluate = control.should_save = False
        if self.left:
            state.global_step = self.steps[self.left[0][1]]

    def memory(self, *others: nn.Module) -> dict[str, int]:
        """Bytes at the peak, by what they are for; `others`: what is in memory beside the model that is trained."""
        model, modules = self.trainer.model, self.trainer.modules
        own = sum(parameter.nbytes for parameter in modules.parameters())
        trained = own + sum(one.nbytes for name, one in model.named_parameters() if name in self.trainer.trained)
        wanted = own + sum(one.nbytes for one in model.parameters() if one.requires_grad)
        return {
            "weights": sum(storages(model, modules, *others).values()),
            "gradients": max(trained, wanted),
            "optimiser": 2 * trained,
            "activations": sum(self.saved.values()),
        }


class Batches(list[list[int]]):
    """Rows of batches, the same in every epoch."""

    def set_epoch(self, epoch: int) -> None:
        """What a loader asks of its batches."""


def batches_by_step(batches: StepBatches) -> Iterator[tuple[list[int], ...]]:
    """The rows of each step's micro-batches, from the first step on."""
    for epoch in itertools.count():
        batches.set_epoch(epoch)
        yield from zip(*[iter(batches)] * batches.accumulation, strict=True)


def count_tokens(parts: Sequence[list[int]], lengths: torch.Tensor) -> int:
    """Padding included, to the longest text of each part."""
    return sum(len(rows) * int(lengths[rows].max()) for rows in parts if rows)


def storages(*models: nn.Module) -> dict[int, int]:
    """The bytes of each storage that the models hold, by its address."""
    held = [one.untyped_storage() for model in models for one in (*model.parameters(), *model.buffers())]
    return {storage.data_ptr(): storage.nbytes() for storage in held}
