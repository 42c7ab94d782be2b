"""The multiply-adds of a training step, module by module, without running it.

What runs is counted once, in one pass in which spans and successors both run, for each of three lengths: a module's count is then a
constant, a line and a square of the length. A step's count is put together from what runs in it: forward 1; backward 1
more for the gradient of the weights where they are trained, and 1 more for the gradient of the input of everything above the
lowest thing that is trained. Products without weights, those of attention, are 1 forward and 2 backward.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from plankwise.core.hybrid import Hybrid
from plankwise.core.slot import Place, Replaceable, StandIn
from plankwise.training.stage import trained_alone

Call = Callable[[Any], Any]  # runs the model on inputs


@dataclass(frozen=True)
class Count:
    """Multiply-adds of one text of L tokens: constant + line · L + square · L²."""

    constant: float = 0.0
    line: float = 0.0
    square: float = 0.0

    def __add__(self, other: "Count") -> "Count":
        return Count(self.constant + other.constant, self.line + other.line, self.square + other.square)

    def times(self, factor: int) -> "Count":
        return Count(factor * self.constant, factor * self.line, factor * self.square)

    def of(self, sizes: Any, lengths: Any) -> Any:
        """Of `sizes` texts, each padded to `lengths` tokens: numbers, or arrays of them."""
        return sizes * (self.constant + self.line * lengths + self.square * lengths**2)

    @classmethod
    def through(cls, points: dict[int, float]) -> "Count":
        """The count that has these values at these lengths: one, two or three."""
        if len(points) == 1:
            return cls(line=next(value / length for length, value in points.items()))
        if len(set(points.values())) == 1:
            return cls(constant=next(iter(points.values())))
        powers = (0, 1, 2) if len(points) == 3 else (1, 2)
        found = np.linalg.solve(
            [[float(length**power) for power in powers] for length in points], list(points.values())
        )
        return cls(**dict(zip(("constant", "line", "square")[-len(powers) :], map(float, found), strict=True)))


@dataclass
class Unit:
    """What one module computes itself, its children left out."""

    module: nn.Module
    place: int  # in the order in which modules run; those that are given the very same input share one
    gates: tuple[tuple[StandIn, nn.Module], ...]  # what it stands in: it runs if each of them runs that child
    count: Count = Count()
    weights: list[nn.Parameter] = field(init=False)  # its own

    def __post_init__(self) -> None:
        self.weights = list(self.module.parameters(recurse=False))

    @property
    def is_trained(self) -> bool:
        return any(weight.requires_grad for weight in self.weights)


@dataclass
class _Running:
    """A module in the middle of its forward pass."""

    before: float  # counted when it began
    children: float = 0.0  # counted in its children
    is_leaf: bool = True


class Ledger:
    """The units of a model in the order in which they run."""

    def __init__(self, model: nn.Module, call: Call, samples: list[tuple[int, Any]]) -> None:
        """Runs the model on one text of each of `samples`, three lengths at most: tokens, and what `call` takes."""
        self.model = model
        self.stand_ins = [module for module in model.modules() if isinstance(module, StandIn)]
        self.parameters = list(model.parameters())
        self.units: list[Unit] = []
        self.known: dict[tuple, tuple[Count, Count]] = {}
        passes = {tokens: self._count(call, inputs) for tokens, inputs in samples}
        for unit in self.units:
            own = {tokens: counts.get(id(unit.module), 0.0) for tokens, counts in passes.items()}
            unit.count = Count.through(own)

    def _count(self, call: Call, inputs: Any) -> dict[int, float]:
        """Each module's own multiply-adds in one pass, by its id; lists the units."""
        gates = dict(_gates(self.model, ()))
        counts: dict[int, float] = {}
        running: list[_Running] = []
        listed: dict[int, Unit] = {}
        place, given = 0, None

        def begin(module: nn.Module, args: Any, kwargs: Any) -> None:
            nonlocal place, given
            if running:
                running[-1].is_leaf = False
            running.append(_Running(counter.get_total_flops() // 2))
            now = args[0] if args else next(iter(kwargs.values()), None)
            if not isinstance(now, torch.Tensor) or now is not given:
                place, given = place + 1, now
            if id(module) not in listed:
                listed[id(module)] = Unit(module, place, gates.get(id(module), ()))

        def end(module: nn.Module, args: Any, output: Any) -> None:
            nonlocal place, given
            own = running.pop()
            spent = counter.get_total_flops() // 2 - own.before
            counts[id(module)] = counts.get(id(module), 0.0) + spent - own.children
            if running:
                running[-1].children += spent
            if not own.is_leaf:  # what it computes itself, it computes from what its children gave
                place, given = place + 1, None
                listed[id(module)].place = place

        self.model.train()
        # The counter does not know every fused attention kernel; the plain one is made of products that it knows.
        with (
            trained_alone(self.model, set()),
            _all_running(self.model),
            sdpa_kernel(SDPBackend.MATH),
            FlopCounterMode(display=False) as counter,
        ):
            handles = [module.register_forward_pre_hook(begin, with_kwargs=True) for module in self.model.modules()]
            handles += [module.register_forward_hook(end) for module in self.model.modules()]
            try:
                call(inputs)
            finally:
                for handle in handles:
                    handle.remove()
        self.units = list(listed.values())
        return counts

    def now(self) -> tuple[Count, Count]:
        """What a text costs in the model's present state: forward, and forward and backward."""
        running = {id(one): tuple(map(id, runs(one))) for one in self.stand_ins}
        trained = tuple(parameter.requires_grad for parameter in self.parameters)
        state = (tuple(running.values()), trained)
        if state not in self.known:
            self.known[state] = self._compose(running)
        return self.known[state]

    def _compose(self, running: dict[int, tuple[int, ...]]) -> tuple[Count, Count]:
        there = [unit for unit in self.units if all(id(child) in running[id(gate)] for gate, child in unit.gates)]
        lowest: dict[int, int] = {}
        entries: dict[int, int] = {}
        for unit in sorted(there, key=lambda unit: unit.place):
            if unit.is_trained:
                lowest.setdefault(_scope(unit), unit.place)
            if (slot := _slot_beside(unit)) is not None:
                entries.setdefault(id(slot), unit.place)
        forward, backward = Count(), Count()
        for unit in there:
            forward += unit.count
            slot = None if unit.is_trained or _in_successor(unit) else _slot_beside(unit)
            given = unit.place if slot is None else entries[id(slot)]  # a span is given what its successor is given
            flows = given > lowest.get(_scope(unit), given)
            backward += unit.count.times(flows + unit.is_trained if unit.weights else 2 * flows)
        return forward, forward + backward


def runs(one: StandIn) -> tuple[nn.Module, ...]:
    """Which of its modules a stand-in runs in the model's present state."""
    if isinstance(one, Place):
        own = (one.successor,) if one.successor is not None else ()
        if one.slot.weight is not None:
            return (one.block, *own)
        return own if one.slot.replaced else (one.block,)
    running: Any = getattr(type(one), "runs", None)
    return tuple(running(one)) if running is not None else tuple(one.children())


def trains_nothing(model: nn.Module, step: int) -> bool:
    """Whether a step of training leaves a hybrid as it was: no slot is replaced, and nothing else is trained."""
    return isinstance(model, Hybrid) and not any(model.mask) and not model.unfrozen_at(step)


def _scope(unit: Unit) -> int:
    """Units among which gradients flow: while successors learn beside their spans, each is alone; else all are together."""
    for gate, child in unit.gates:
        if isinstance(gate, Place) and gate.slot.pairing:
            return id(child)
    return 0


def _slot_beside(unit: Unit) -> Replaceable | None:
    """The slot that a unit is in, if span and successor both run there."""
    return next((gate.slot for gate, _ in unit.gates if isinstance(gate, Place) and gate.slot.weight is not None), None)


def _in_successor(unit: Unit) -> bool:
    return any(isinstance(gate, Place) and child is gate.successor for gate, child in unit.gates)


def _gates(module: nn.Module, above: tuple) -> Iterator[tuple[int, tuple]]:
    yield id(module), above
    for child in module.children():
        yield from _gates(child, (*above, (module, child)) if isinstance(module, StandIn) else above)


@contextmanager
def _all_running(model: nn.Module) -> Iterator[None]:
    """Inside, spans and successors of a hybrid both run."""
    places = [module for module in model.modules() if isinstance(module, Place)]
    pairing = any(place.slot.pairing for place in places)
    both: AbstractContextManager = model.paired() if isinstance(model, Hybrid) and not pairing else nullcontext()
    with both:
        yield
