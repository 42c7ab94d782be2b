"""The state of a hybrid, and what runs in its slots because of it."""

import random
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from plankwise.core._skipping import LastLoss
from plankwise.core.plan import Plan
from plankwise.core.schedule import Schedule, draw_mask
from plankwise.core.slot import Replaceable


@dataclass(frozen=True)
class Rules:
    """How training treats what is frozen; the modes `clean` and `reference` are two settings of these."""

    unfrozen: frozenset[str] = frozenset()  # parameters outside the slots that are trained once the rate is 1
    frozen_dropout: bool = False  # dropout stays active in frozen modules
    frozen_gradients: bool = False  # gradients are computed for frozen parameters too, and so count when clipping
    idle_momentum: bool = False  # Adam's momentum moves successors in steps in which they were not drawn
    skip: bool = True  # a step that trains nothing runs no forward pass
    blend: bool = False  # no coin: span and successor both run, and the rate is the successor's weight in their sum
    pair: bool = False  # where both run in training, each slot keeps what its span and its successor gave


@dataclass(frozen=True)
class Running:
    """What runs in the slots during a forward pass."""

    replaced: tuple[bool, ...]  # slot by slot, whether the successor runs
    weight: float | None = None  # of the successors' states where spans and successors both run; None: one of them runs
    pairing: bool = False  # each slot keeps what its span and its successor gave

    @classmethod
    def blended(cls, rate: float, num_slots: int, *, pairing: bool = False) -> "Running":
        """Spans and successors both run; at a rate of 0 or 1, one of them, and there is no pair."""
        both = 0 < rate < 1
        return cls((rate > 0,) * num_slots, rate if both else None, pairing and both)


@dataclass(frozen=True)
class Sample:
    """A rate of its own at which the hybrid runs outside training."""

    rate: float
    coins: random.Random | None  # draws a mask for each forward pass; None: blended by the rate


@dataclass
class HybridState:
    """What was installed in a model, where its training stands, and what overrides the mask of the current step."""

    plan: Plan
    schedule: Schedule
    seed: int
    rules: Rules
    original_class: type[nn.Module]
    slots: list[Replaceable]

    num_steps: int = 0  # 0: training has not begun
    full_step: int = 0  # the first step from which on the rate is 1
    step: int | None = None
    rate: float = 0.0
    mask: tuple[bool, ...] = ()

    override: Running | None = None  # runs whatever the step and the mode
    sample: Sample | None = None  # what draws another override for each forward pass

    frozen_modules: list[nn.Module] = field(default_factory=list)  # kept in eval mode while the rest is trained
    module_modes: list[tuple[nn.Module, bool]] = field(default_factory=list)  # in which `train` last left each module
    processing_class: Any = (
        None  # the training's tokenizer or processor: saved beside the successor, but not part of it
    )
    # What a skipped step reports, for each device where a replica runs; None: the model itself.
    last_losses: dict[torch.device | None, LastLoss | None] = field(default_factory=dict)

    def draw(self, step: int) -> tuple[bool, ...]:
        """Which slots are replaced at a step. Depends on the seed and the step alone."""
        rate = self.schedule(step, self.num_steps)
        if self.rules.blend:
            return (rate > 0,) * len(self.slots)
        return draw_mask(self.seed, step, rate, len(self.slots))

    def trains(self, mask: tuple[bool, ...]) -> bool:
        """Whether a successor that has weights runs with this mask."""
        return any(replaced and slot.trainable for replaced, slot in zip(mask, self.slots, strict=True))

    def unfrozen_at(self, step: int) -> frozenset[str]:
        """The parameters outside the slots that are trained at a step."""
        return self.rules.unfrozen if step >= self.full_step else frozenset()


def what_runs(state: HybridState, *, training: bool) -> Running:
    """The override if there is one; else in training what the step says, and in eval mode the successors."""
    if state.override is not None:
        return state.override
    if not training:
        return Running((True,) * len(state.slots))
    if state.rules.blend:
        return Running.blended(state.rate, len(state.slots), pairing=state.rules.pair)
    return Running(state.mask)
