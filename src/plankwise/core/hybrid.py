"""The hybrid: a model with slots installed, whose training follows a schedule.

`install` changes the model in place and gives it the methods below by changing its class to a subclass of the same name, so
everything that knows the model's class (a Trainer, `save_pretrained`, `generate`) goes on knowing it.
"""

import functools
import random
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from plankwise.core._skipping import LastLoss, LossAlone, untrained
from plankwise.core._state import HybridState, Rules, Running, Sample, what_runs
from plankwise.core.collapse import collapse
from plankwise.core.plan import Plan
from plankwise.core.schedule import Schedule
from plankwise.core.slot import Place, Replaceable, is_replica, refuse_replica
from plankwise.errors import PlanError, RunError

__all__ = ["Hybrid", "Rules", "install"]


class Hybrid(nn.Module):
    """What `install` adds to a model."""

    _hybrid_state: HybridState

    @property
    def plan(self) -> Plan:
        return self._hybrid_state.plan

    @property
    def slots(self) -> list[Replaceable]:
        """What runs in each slot of the plan; see its `pair` where pairs are kept."""
        return self._hybrid_state.slots

    @property
    def schedule(self) -> Schedule:
        return self._hybrid_state.schedule

    @property
    def rules(self) -> Rules:
        return self._hybrid_state.rules

    @property
    def rate(self) -> float:
        """The replacing rate of the current step."""
        return self._hybrid_state.rate

    @property
    def mask(self) -> tuple[bool, ...]:
        """Which slots are replaced in the current step of training."""
        return self._hybrid_state.mask

    @property
    def settled(self) -> bool:
        """Whether the rate is 1 from now on: successor fine-tuning, the second phase."""
        state = self._hybrid_state
        return state.step is not None and state.step >= state.full_step

    @property
    def trains_nothing(self) -> bool:
        """Whether the current step trains nothing: no slot is replaced by anything that has weights, and nothing else is trained.

        A loop of one's own may leave such a step out, and has to under a gradient scaler, which refuses a step without gradients.
        """
        state = self._hybrid_state
        return state.step is not None and not state.trains(state.mask) and not state.unfrozen_at(state.step)

    def begin(self, num_steps: int) -> None:
        """Starts training: fixes the number of optimiser steps and freezes what is not trained in the first phase.

        Call it after the optimiser has been made: until then everything that is ever trained requires gradients.
        """
        state = self._hybrid_state
        state.num_steps = num_steps
        state.full_step = state.schedule.full_step(num_steps)
        state.step = None
        self.set_step(0)

    def set_step(self, step: int) -> None:
        """Goes to an optimiser step: its rate, its mask, its phase. Depends on the seed and the step alone."""
        state = self._hybrid_state
        if not state.num_steps:
            raise RunError("set_step was called before begin; call begin(num_steps) first")
        is_new_phase = state.step is None or (state.step >= state.full_step) != (step >= state.full_step)
        state.step = step
        state.rate = state.schedule(step, state.num_steps)
        state.mask = state.draw(step)
        if is_new_phase:
            self._freeze(state.unfrozen_at(step))
        self._set_slots()

    def follow(self, schedule: Schedule) -> None:
        """Exchanges the schedule, in the middle of training too: the current step's rate, mask and phase are computed again."""
        state = self._hybrid_state
        state.schedule = schedule
        if state.step is not None:
            step = state.step
            self.begin(state.num_steps)
            self.set_step(step)

    def unfrozen_at(self, step: int) -> frozenset[str]:
        """The parameters outside the slots that are trained at a step."""
        return self._hybrid_state.unfrozen_at(step)

    def count_skipped(self, steps: int) -> int:
        """How many of the first `steps` optimiser steps train nothing."""
        state = self._hybrid_state
        return sum(not state.trains(state.draw(step)) for step in range(steps) if not state.unfrozen_at(step))

    def count_replaced(self, steps: range) -> list[int]:
        """In how many of the steps each slot is replaced."""
        return [sum(column) for column in zip(*map(self._hybrid_state.draw, steps), strict=True)]

    @contextmanager
    def masked(self, mask: Collection[bool] | bool) -> Iterator[None]:
        """Runs the hybrid with a fixed mask, in training or not: False is the predecessor, True the successor.

        Raises:
            PlanError: the mask has another length than the plan.
        """
        num_slots = len(self._hybrid_state.slots)
        replaced = (mask,) * num_slots if isinstance(mask, bool) else tuple(mask)
        if len(replaced) != num_slots:
            raise PlanError(f"the mask has {len(replaced)} entries, but the plan has {num_slots} slots")
        with self._overridden(Running(replaced)):
            yield

    @contextmanager
    def sampled(self, rate: float, seed: int) -> Iterator[None]:
        """Runs the hybrid itself in eval mode too: each forward pass with a mask drawn at the rate, or blended by it.

        The coins depend on the seed and the number of the pass alone, so that what one rate replaces, a higher one does too.
        """
        num_slots = len(self._hybrid_state.slots)
        if self.rules.blend:
            running, sample = Running.blended(rate, num_slots), Sample(rate, None)
        else:
            running, sample = Running((rate > 0,) * num_slots), Sample(rate, random.Random(f"{seed}/sampled"))
        with self._overridden(running, sample):
            yield

    @contextmanager
    def paired(self) -> Iterator[list[Replaceable]]:
        """While open, the predecessor runs, and each successor beside its span on the same input: see each slot's `pair`."""
        slots = self._hybrid_state.slots
        with self._overridden(Running((False,) * len(slots), weight=0.0, pairing=True)):
            yield slots

    @contextmanager
    def _overridden(self, running: Running, sample: Sample | None = None) -> Iterator[None]:
        state = self._hybrid_state
        before = state.override, state.sample
        state.override, state.sample = running, sample
        self._set_slots()
        try:
            yield
        finally:
            state.override, state.sample = before
            self._set_slots()

    def _set_slots(self) -> None:
        """Tells each slot what it runs."""
        state = self._hybrid_state
        running = what_runs(state, training=self.training)
        for slot, replaced in zip(state.slots, running.replaced, strict=True):
            slot.replaced, slot.weight, slot.pairing = replaced, running.weight, running.pairing
            if not running.pairing:
                slot.pair = None

    def collapse(self) -> nn.Module:
        """The successor alone, as a new model of the predecessor's class; the hybrid stays as it is."""
        state = self._hybrid_state
        model = collapse(self, state.plan)
        model.__class__ = state.original_class
        # What a Trainer may have put on the instance refers to the hybrid's forward.
        for name in ("_hybrid_state", "forward", "_original_forward"):
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
        state = self._hybrid_state
        # A Trainer calls this at every step: comparing is cheaper than setting.
        if not (mode and state.module_modes and all(module.training == was for module, was in state.module_modes)):
            super().train(mode)
            if mode:
                for module in state.frozen_modules:
                    module.eval()
            state.module_modes = [(module, module.training) for module in self.modules()] if mode else []
        self._set_slots()
        return self

    def _freeze(self, unfrozen: Collection[str]) -> None:
        state = self._hybrid_state
        trained = {id(parameter) for parameter in self.successor_parameters().values()}
        trained |= {id(parameter) for name, parameter in self.named_parameters() if name in unfrozen}
        for parameter in self.parameters():
            parameter.requires_grad_(state.rules.frozen_gradients or id(parameter) in trained)
        # Of what is in the model, not the model itself: its mode says whether it is trained, even if nothing in it is.
        found = (one for child in self.children() for one in _frozen_modules(child, trained))
        state.frozen_modules = [] if state.rules.frozen_dropout else list(found)
        state.module_modes = []
        if self.training:
            self.train()

    def _draw_sample(self) -> None:
        """Draws what runs in the next forward pass, if the hybrid is being sampled by coins."""
        state = self._hybrid_state
        sample = state.sample
        if sample is not None and sample.coins is not None:
            refuse_replica(self, "a mask is drawn for each forward pass")
            state.override = Running(tuple([sample.coins.random() < sample.rate for _ in state.slots]))
            self._set_slots()

    def _train_forward(self, *args: Any, **kwargs: Any) -> Any:
        """The forward pass of a training step; of one that trains nothing, only what stands for it."""
        state = self._hybrid_state
        forward = functools.partial(state.original_class.forward, self, *args, **kwargs)
        if state.override is not None:
            return forward()
        if state.step is None:
            raise RunError(
                "the hybrid is being trained, but it does not know the step: give the Trainer callbacks=[ship.callback()], "
                "or in a loop of your own call ship.begin(num_steps) once and ship.set_step(step) before each step"
            )
        # A copy that DataParallel made has no parameters: its inputs say where it runs.
        replica = _device(*args, *kwargs.values()) if is_replica(self) else None
        if not self.trains_nothing:
            output = forward()
            state.last_losses[replica] = LastLoss.of(output)
            return output
        last = state.last_losses.get(replica)
        if state.rules.skip and last is not None:
            return last.as_output(self._reached())
        # The random state is left as it was, so that a resumed run, which has no loss to report yet, draws the same dropout.
        device = replica or _device(*self.parameters())
        with torch.no_grad(), torch.random.fork_rng([device] if device.type == "cuda" else []):
            output = forward()
        state.last_losses[replica] = LastLoss.of(output)
        return untrained(output, self._reached())

    @property
    def last_loss(self) -> float | None:
        """What a skipped step would report: the latest loss that was computed; None if there is none."""
        last = self._hybrid_state.last_losses.get(None)
        return None if last is None else last.value.item()

    @last_loss.setter
    def last_loss(self, value: float) -> None:
        """Of a training that is resumed: the loss that it had computed last."""
        loss = torch.tensor(value, device=_device(*self.parameters()))
        self._hybrid_state.last_losses[None] = LastLoss(loss, LossAlone)

    def _reached(self) -> nn.Parameter | None:
        """The parameter that the output of a skipped step has to reach in several processes: see `_skipping`."""
        several = torch.distributed.is_available() and torch.distributed.is_initialized()
        return next(iter(self.successor_parameters().values()), None) if several else None


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
    state = HybridState(plan, schedule, seed, rules or Rules(), type(model), [Replaceable() for _ in plan.slots])
    state.mask = (False,) * len(plan.slots)
    for slot, replaceable, successor in zip(plan.slots, state.slots, successors, strict=True):
        replaceable.trainable = next(successor.parameters(), None) is not None
        for path in slot.places:
            owned = successor if path == slot.places[0] else None
            block = model.get_submodule(path)
            model.set_submodule(path, Place(block, replaceable, owned, last=path == slot.places[-1]))
    model._hybrid_state = state  # type: ignore[assignment]
    model.__class__ = _hybrid_class(type(model), kind)
    assert isinstance(model, Hybrid)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in state.rules.unfrozen)
    for parameter in model.successor_parameters().values():
        parameter.requires_grad_(True)
    model.train(model.training)
    return model


def _hybrid_class(original: type[nn.Module], kind: type[Hybrid]) -> type:
    """A subclass of the same name; a new one for each hybrid, since nothing compares these classes."""

    @functools.wraps(original.forward)
    def forward(self: Hybrid, *args: Any, **kwargs: Any) -> Any:
        self._draw_sample()
        if self.training and torch.is_grad_enabled():
            return self._train_forward(*args, **kwargs)
        return original.forward(self, *args, **kwargs)

    members = {"forward": forward, "__module__": original.__module__, "__doc__": original.__doc__}
    return type(original.__name__, (kind, original), members)


def _device(*values: Any) -> torch.device:
    """The device of the first tensor."""
    return next((value.device for value in values if isinstance(value, torch.Tensor)), torch.device("cpu"))


def _frozen_modules(module: nn.Module, trained: set[int]) -> Iterator[nn.Module]:
    """The outermost modules all of whose parameters are frozen."""
    parameters = {id(parameter) for parameter in module.parameters()}
    if not parameters:
        return
    if not parameters & trained:
        yield module
        return
    for child in module.children():
        yield from _frozen_modules(child, trained)
