"""The hybrid: a model with slots installed, whose training follows a schedule.

`install` changes the model in place and gives it the methods below by swapping its class for a subclass of the same name, so
everything that knows the model's class (a Trainer, `save_pretrained`, `generate`) goes on knowing it.
"""

import functools
import random
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from plankwise.core.collapse import collapse
from plankwise.core.plan import Plan
from plankwise.core.schedule import Schedule, draw_mask
from plankwise.core.slot import Place, Replaceable
from plankwise.errors import PlanError, RunError


@dataclass(frozen=True)
class Rules:
    """How training treats what is frozen; DESIGN's two modes are two settings of these."""

    unfrozen: frozenset[str] = frozenset()  # parameters outside the slots that are trained once the rate is 1
    frozen_dropout: bool = False  # dropout stays active in frozen modules
    frozen_gradients: bool = False  # gradients are computed for frozen parameters too, and so count when clipping
    idle_momentum: bool = False  # Adam's momentum moves successors in steps in which they were not drawn
    skip: bool = True  # a step that trains nothing runs no forward pass
    blend: bool = False  # no coin: span and successor both run, and the rate is the successor's weight in their sum


@dataclass(frozen=True)
class Sample:
    """How a hybrid runs outside training at a rate of its own."""

    rate: float
    coins: random.Random | None  # None: blended by the rate


@dataclass
class Voyage:
    """A hybrid's state: what is installed, and where its training stands."""

    plan: Plan
    schedule: Schedule
    seed: int
    rules: Rules
    original_class: type[nn.Module]
    slots: list[Replaceable] = field(default_factory=list)
    num_steps: int = 0
    full_step: int = 0
    step: int | None = None
    rate: float = 0.0
    mask: tuple[bool, ...] = ()
    forced: tuple[bool, ...] | None = None  # a mask that overrides the coin
    sample: Sample | None = None  # what draws `forced` anew for each forward pass
    resting: list[nn.Module] = field(default_factory=list)  # modules kept in eval mode while the rest is trained
    modes: list[tuple[nn.Module, bool]] = field(default_factory=list)  # what `train` last left each module in
    last_loss: Any = None  # (how to wrap a loss, its latest value): what a skipped step reports


class Hybrid(nn.Module):
    """What `install` adds to a model."""

    _voyage: Voyage

    @property
    def plan(self) -> Plan:
        return self._voyage.plan

    @property
    def schedule(self) -> Schedule:
        return self._voyage.schedule

    @property
    def rate(self) -> float:
        """The replacing rate of the current step."""
        return self._voyage.rate

    @property
    def mask(self) -> tuple[bool, ...]:
        """Which slots are replaced in the current step of training."""
        return self._voyage.mask

    @property
    def settled(self) -> bool:
        """Whether the rate is 1 from now on: successor fine-tuning, the second phase."""
        voyage = self._voyage
        return voyage.step is not None and voyage.step >= voyage.full_step

    @property
    def rules(self) -> Rules:
        return self._voyage.rules

    def begin(self, num_steps: int) -> None:
        """Starts training: fixes the number of optimiser steps and freezes what is not trained in the first phase.

        Call it after the optimiser has been made: until then everything that is ever trained requires gradients.
        """
        voyage = self._voyage
        voyage.num_steps = num_steps
        voyage.full_step = voyage.schedule.full_step(num_steps)
        voyage.step = None
        self.set_step(0)

    def set_step(self, step: int) -> None:
        """Goes to an optimiser step: its rate, its mask, its phase. Depends on the seed and the step alone."""
        voyage = self._voyage
        if not voyage.num_steps:
            raise RunError("set_step was called before begin; call begin(num_steps) first")
        phase = None if voyage.step is None else voyage.step >= voyage.full_step
        voyage.step = step
        voyage.rate = voyage.schedule(step, voyage.num_steps)
        voyage.mask = self._draw(step, voyage.rate)
        if phase != (step >= voyage.full_step):
            self._freeze(self.unfrozen_at(step))
        self._throw_switches()

    def follow(self, schedule: Schedule) -> None:
        """Exchanges the schedule, in the middle of training too: the current step's rate, mask and phase are taken anew."""
        voyage = self._voyage
        voyage.schedule = schedule
        if voyage.step is not None:
            step = voyage.step
            self.begin(voyage.num_steps)
            self.set_step(step)

    def unfrozen_at(self, step: int) -> frozenset[str]:
        """The parameters outside the slots that are trained at a step."""
        voyage = self._voyage
        return voyage.rules.unfrozen if step >= voyage.full_step else frozenset()

    def count_skipped(self, steps: int) -> int:
        """How many of the first `steps` optimiser steps train nothing."""
        voyage = self._voyage
        drawn = (
            self._draw(step, voyage.schedule(step, voyage.num_steps))
            for step in range(steps)
            if not self.unfrozen_at(step)
        )
        return sum(not any(mask) for mask in drawn)

    def count_replaced(self, steps: range) -> list[int]:
        """In how many of the steps each slot is replaced."""
        voyage = self._voyage
        masks = [self._draw(step, voyage.schedule(step, voyage.num_steps)) for step in steps]
        return [sum(column) for column in zip(*masks, strict=True)]

    def _draw(self, step: int, rate: float) -> tuple[bool, ...]:
        voyage = self._voyage
        if voyage.rules.blend:
            return (rate > 0,) * len(voyage.slots)
        return draw_mask(voyage.seed, step, rate, len(voyage.slots))

    @contextmanager
    def masked(self, mask: Collection[bool] | bool) -> Iterator[None]:
        """Runs the hybrid with a fixed mask, in training or not: False is the predecessor, True the successor.

        Raises:
            PlanError: the mask has another length than the plan.
        """
        voyage = self._voyage
        forced = (mask,) * len(voyage.slots) if isinstance(mask, bool) else tuple(mask)
        if len(forced) != len(voyage.slots):
            raise PlanError(f"the mask has {len(forced)} entries, but the plan has {len(voyage.slots)} slots")
        with self._forcing(forced):
            yield

    @contextmanager
    def sampled(self, rate: float, seed: int) -> Iterator[None]:
        """Runs the hybrid itself in eval mode too: each forward pass with a mask drawn at the rate, or blended by it.

        The coins depend on the seed and the number of the pass alone, so that what one rate replaces, a higher one does too.
        """
        voyage = self._voyage
        coins = None if voyage.rules.blend else random.Random(f"{seed}/sampled")
        with self._forcing((rate > 0,) * len(voyage.slots), Sample(rate, coins)):
            yield

    @contextmanager
    def _forcing(self, forced: tuple[bool, ...], sample: Sample | None = None) -> Iterator[None]:
        voyage = self._voyage
        before = voyage.forced, voyage.sample
        voyage.forced, voyage.sample = forced, sample
        self._throw_switches()
        try:
            yield
        finally:
            voyage.forced, voyage.sample = before
            self._throw_switches()

    def _toss(self) -> None:
        """Draws the mask of the next forward pass, if the hybrid is being sampled."""
        voyage = self._voyage
        sample = voyage.sample
        if sample is not None and sample.coins is not None:
            voyage.forced = tuple([sample.coins.random() < sample.rate for _ in voyage.slots])
            self._throw_switches()

    @contextmanager
    def paired(self) -> Iterator[list[Replaceable]]:
        """While open, the predecessor runs, and each successor beside its span on the same input: see each slot's `pair`."""
        slots = self._voyage.slots
        with self.masked(False):
            for slot in slots:
                slot.pairing, slot.weight = True, 0.0
            try:
                yield slots
            finally:
                for slot in slots:
                    slot.pairing, slot.pair, slot.weight = False, None, None

    def collapse(self) -> nn.Module:
        """The successor alone, as a new model of the predecessor's class; the hybrid stays as it is."""
        voyage = self._voyage
        voyage.modes = []  # what it refers to would be copied
        model = collapse(self, voyage.plan)
        model.__class__ = voyage.original_class
        # What a Trainer may have put on the instance refers to the hybrid's forward.
        for name in ("_voyage", "forward", "_original_forward"):
            vars(model).pop(name, None)
        for parameter in model.parameters():
            parameter.requires_grad_(True)
            parameter.grad = None
        return model.eval()

    def successor_parameters(self) -> dict[str, nn.Parameter]:
        """The successors' parameters, by their names in the hybrid."""
        firsts = tuple(f"{slot.places[0]}.successor." for slot in self.plan.slots)
        return {name: parameter for name, parameter in self.named_parameters() if name.startswith(firsts)}

    def train(self, mode: bool = True) -> "Hybrid":
        voyage = self._voyage
        # A Trainer calls this at every step: looking is cheaper than setting.
        if not (mode and voyage.modes and all(module.training == trained for module, trained in voyage.modes)):
            super().train(mode)
            if mode:
                for module in voyage.resting:
                    module.eval()
            voyage.modes = [(module, module.training) for module in self.modules()] if mode else []
        self._throw_switches()
        return self

    def _throw_switches(self) -> None:
        voyage = self._voyage
        mask = voyage.forced or (voyage.mask if self.training else (True,) * len(voyage.slots))
        if voyage.sample is not None:
            rate, blending = voyage.sample.rate, voyage.rules.blend
        else:
            rate, blending = voyage.rate, voyage.rules.blend and self.training and voyage.forced is None
        for slot, replaced in zip(voyage.slots, mask or (False,) * len(voyage.slots), strict=True):
            slot.replaced = replaced
            if not slot.pairing:
                slot.weight = rate if blending and 0 < rate < 1 else None

    def _freeze(self, unfrozen: Collection[str]) -> None:
        rules = self._voyage.rules
        trained = {id(parameter) for parameter in self.successor_parameters().values()}
        trained |= {id(parameter) for name, parameter in self.named_parameters() if name in unfrozen}
        for parameter in self.parameters():
            parameter.requires_grad_(rules.frozen_gradients or id(parameter) in trained)
        self._voyage.resting, self._voyage.modes = [] if rules.frozen_dropout else list(_resting(self, trained)), []
        if self.training:
            self.train()

    def _train_forward(self, *args: Any, **kwargs: Any) -> Any:
        """The forward pass of a training step."""
        voyage = self._voyage
        forward = functools.partial(voyage.original_class.forward, self, *args, **kwargs)
        if voyage.forced is not None:
            return forward()
        if voyage.step is None:
            raise RunError(
                "the hybrid is being trained, but it does not know the step: give the Trainer callbacks=[ship.callback()], "
                "or in a loop of your own call ship.begin(num_steps) once and ship.set_step(step) before each step"
            )
        if any(voyage.mask) or self.unfrozen_at(voyage.step):
            output = forward()
            voyage.last_loss = _remember_loss(output)
            return output
        if voyage.rules.skip and voyage.last_loss is not None:
            wrap, value = voyage.last_loss
            return wrap(value.clone().requires_grad_() * 1)
        # The random state is left as it was, so that a resumed run, which has no loss to report yet, draws the same dropout.
        device = next(self.parameters()).device
        with torch.no_grad(), torch.random.fork_rng([device] if device.type == "cuda" else []):
            output = forward()
        voyage.last_loss = _remember_loss(output)
        return _attach(output)


def install(
    model: nn.Module,
    plan: Plan,
    successors: list[nn.Module],
    schedule: Schedule,
    *,
    seed: int = 0,
    rules: Rules | None = None,
    kind: type[Hybrid] = Hybrid,
) -> Hybrid:
    """Puts a slot with its successor at each place of the plan; the model itself becomes the hybrid.

    Raises:
        PlanError: the model is a hybrid already.
    """
    if isinstance(model, Hybrid):
        raise PlanError("the model is a hybrid already; collapse it first, or start from the predecessor")
    assert len(successors) == len(plan.slots)
    voyage = Voyage(plan, schedule, seed, rules or Rules(), type(model))
    for slot, successor in zip(plan.slots, successors, strict=True):
        replaceable = Replaceable()
        voyage.slots.append(replaceable)
        for path in slot.places:
            owned = successor if path == slot.places[0] else None
            block = model.get_submodule(path)
            model.set_submodule(path, Place(block, replaceable, owned, last=path == slot.places[-1]))
    voyage.mask = (False,) * len(voyage.slots)
    model._voyage = voyage  # type: ignore[assignment]
    model.__class__ = _hybrid_class(type(model), kind)
    assert isinstance(model, Hybrid)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in voyage.rules.unfrozen)
    for parameter in model.successor_parameters().values():
        parameter.requires_grad_(True)
    model.train(model.training)
    return model


def _hybrid_class(original: type[nn.Module], kind: type[Hybrid]) -> type:
    """A subclass of the same name; made anew for each hybrid, since nothing compares these classes."""

    @functools.wraps(original.forward)
    def forward(self: Hybrid, *args: Any, **kwargs: Any) -> Any:
        self._toss()
        if self.training and torch.is_grad_enabled():
            return self._train_forward(*args, **kwargs)
        return original.forward(self, *args, **kwargs)

    members = {"forward": forward, "__module__": original.__module__, "__doc__": original.__doc__}
    return type(original.__name__, (kind, original), members)


def _resting(module: nn.Module, trained: set[int]) -> Iterator[nn.Module]:
    """The outermost modules all of whose parameters are frozen."""
    parameters = {id(parameter) for parameter in module.parameters()}
    if not parameters:
        return
    if not parameters & trained:
        yield module
        return
    for child in module.children():
        yield from _resting(child, trained)


def _remember_loss(output: Any) -> Any:
    """How to wrap a loss as this output does, and its value; None if the output has no loss in it."""
    if isinstance(output, dict):
        loss = output.get("loss")
        return None if loss is None else (functools.partial(_as_mapping, type(output)), loss.detach())
    if isinstance(output, tuple) and isinstance(output[0], torch.Tensor) and output[0].dim() == 0:
        return (_as_tuple, output[0].detach())
    return None


def _as_mapping(cls: type, loss: torch.Tensor) -> Any:
    return cls(loss=loss)


def _as_tuple(loss: torch.Tensor) -> tuple[torch.Tensor]:
    return (loss,)


def _attach(output: Any) -> Any:
    """The same output with a graph that holds no parameter, so that `backward` runs and trains nothing."""
    if isinstance(output, torch.Tensor):
        return output.detach().requires_grad_() * 1 if output.is_floating_point() else output
    if isinstance(output, dict):
        return type(output)(**{key: _attach(value) for key, value in output.items()})
    if isinstance(output, tuple | list):
        return type(output)(_attach(item) for item in output)
    return output
