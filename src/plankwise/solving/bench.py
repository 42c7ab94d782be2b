"""Runs a hybrid piece by piece, batch by batch: what predecessor and successors give at a slot, and nothing that is not needed.

A slot is looked at in several passes over all batches. States at the slot's input are kept in files, so that no pass runs what an
earlier one ran, and memory does not grow with the number of texts. That is done where the blocks of a chain give nothing but a
state; where they hand on more (T5's relative positions), and outside of chains, each pass begins at the model's input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from plankwise.core.hybrid import Hybrid
from plankwise.core.plan import Slot
from plankwise.core.slot import Place, is_cache, state_given
from plankwise.solving.maps import Stop

Inputs = Mapping[str, torch.Tensor]
Batches = Callable[[], Iterator[Inputs]]  # the same ones in the same order whenever it is called


@dataclass(frozen=True)
class Given:
    """What a module is given."""

    args: tuple
    kwargs: dict[str, Any]

    @property
    def state(self) -> torch.Tensor:
        return state_given(self.args, self.kwargs)

    def run(self, module: nn.Module) -> Any:
        """What the module makes of it; None if the run was stopped."""
        try:
            return module(*self.args, **self.kwargs)
        except Stop:
            return None


class Bench:
    """A hybrid whose slots are looked at one after the other; `folder` holds the states."""

    def __init__(self, hybrid: Hybrid, sample: Inputs, folder: Path) -> None:
        self.hybrid = hybrid
        self.slots = hybrid.plan.slots
        self.folder = folder
        self.keeps = self._find_keeping(sample)  # the chains whose states can be kept

    def place(self, number: int) -> Place:
        """Where a slot begins; it owns the successor."""
        return self._module(self.slots[number].places[0])

    def last(self, number: int) -> nn.Module:
        """The last module of a slot's span."""
        return self._module(self.slots[number].places[-1]).block

    def mask(self, count: int) -> list[bool]:
        """The first slots replaced, so many of them."""
        return [index < count for index in range(len(self.slots))]

    def find_given(self, module: nn.Module, inputs: Inputs) -> Given:
        """What a module is given when the predecessor runs."""
        with self.hybrid.masked(False), _stopping_at(module) as found:
            self._run(inputs)
        return found[0]

    def run_last(self, number: int, inputs: Inputs, batch: int, *, leave: bool) -> None:
        """Runs the predecessor's last block of a slot, as deep as it is let; with `leave` on to where the next slot begins."""
        slot, following = self.slots[number], self._following(number)
        with ExitStack() as opened:
            opened.enter_context(self.hybrid.masked(False))
            if slot.path in self.keeps:
                if not self._has("last", number, batch):
                    self._keep("last", number, batch, self._find_last(number, inputs, batch))
                self._begin(opened, slot, slot.span[-1], self._load("last", number, batch))
            entered = (
                opened.enter_context(_stopping_at(self.place(following))) if leave and following is not None else None
            )
            if leave and following is None:
                opened.enter_context(stopping_after(self._module(slot.places[-1])))
            self._run(inputs)
        if entered:
            assert following is not None
            self._keep("span", following, batch, entered[0].state)

    def find_slot_given(self, number: int, inputs: Inputs, batch: int) -> Given:
        """What a slot is given when the slots before it are replaced."""
        slot, before = self.slots[number], self._before(number)
        with ExitStack() as opened:
            opened.enter_context(self.hybrid.masked(self.mask(number)))
            if slot.path in self.keeps:
                if self._has("slot", number, batch):
                    self._begin(opened, slot, slot.span[0], self._load("slot", number, batch))
                elif before is not None and self._has("slot", before, batch):
                    self._begin(opened, slot, self.slots[before].span[0], self._load("slot", before, batch))
            found = opened.enter_context(_stopping_at(self.place(number)))
            self._run(inputs)
        if slot.path in self.keeps and not self._has("slot", number, batch):
            self._keep("slot", number, batch, found[0].state)
        return found[0]

    def forget(self, number: int) -> None:
        """Deletes the states that only the slot before this one needed."""
        before = self._before(number)
        for file in self.folder.glob(f"*-{before}-*.npy"):
            file.unlink()

    def _find_last(self, number: int, inputs: Inputs, batch: int) -> torch.Tensor:
        """The predecessor's state at the last block of a slot."""
        slot = self.slots[number]
        with ExitStack() as opened:
            if self._has("span", number, batch):
                self._begin(opened, slot, slot.span[0], self._load("span", number, batch))
            found = opened.enter_context(_stopping_at(self._module(slot.places[-1])))
            self._run(inputs)
        return found[0].state

    def _run(self, inputs: Inputs) -> None:
        try:
            self.hybrid(**inputs)
        except Stop:
            return

    def _begin(self, opened: ExitStack, slot: Slot, index: int, state: torch.Tensor) -> None:
        """Lets the next forward pass begin at a block of the slot's chain, with this state."""
        for passed in range(index):
            opened.enter_context(_acting(self._module(f"{slot.path}.{passed}"), _hand_through))
        # It is put in where the block is called: some models do something between blocks.
        opened.enter_context(_giving(self._module(f"{slot.path}.{index}"), state))

    def _before(self, number: int) -> int | None:
        """The slot before this one in the same chain."""
        same = [index for index in range(number) if self.slots[index].path == self.slots[number].path]
        return same[-1] if same else None

    def _following(self, number: int) -> int | None:
        """The slot behind this one in the same chain, if states are kept there."""
        path = self.slots[number].path
        same = [index for index in range(number + 1, len(self.slots)) if self.slots[index].path == path]
        return same[0] if same and path in self.keeps else None

    def _module(self, path: str) -> Any:
        return self.hybrid.get_submodule(path)

    def _file(self, what: str, number: int, batch: int) -> Path:
        return self.folder / f"{what}-{number}-{batch}.npy"

    def _has(self, what: str, number: int, batch: int) -> bool:
        return self._file(what, number, batch).exists()

    def _keep(self, what: str, number: int, batch: int, state: torch.Tensor) -> None:
        np.save(self._file(what, number, batch), state.cpu().numpy())

    def _load(self, what: str, number: int, batch: int) -> torch.Tensor:
        device = next(self.hybrid.parameters()).device
        return torch.from_numpy(np.load(self._file(what, number, batch))).to(device)

    def _find_keeping(self, sample: Inputs) -> set[str]:
        """The chains whose blocks give nothing but a state."""
        found: set[str] = set()

        def note(path: str) -> Any:
            return lambda one, args, output: found.add(path) if isinstance(output, torch.Tensor) else None

        chains = {slot.path for slot in self.slots if slot.span}
        handles = [self._module(f"{path}.0").register_forward_hook(note(path)) for path in chains]
        with self.hybrid.masked(False):
            self._run(sample)
        for handle in handles:
            handle.remove()
        return found


def mask_name(model: nn.Module, path: str) -> str:
    """The input that says which of the states at a path are padding: a decoder's are not the encoder's."""
    two_sides = getattr(getattr(model, "config", None), "is_encoder_decoder", False)
    return "decoder_attention_mask" if two_sides and "decoder" in path.split(".") else "attention_mask"


def _hand_through(*args: Any, **kwargs: Any) -> torch.Tensor:
    return state_given(args, kwargs)


@contextmanager
def _acting(module: nn.Module, function: Callable[..., Any]) -> Iterator[None]:
    """While open, a module does something else."""
    before = vars(module).get("forward")
    module.forward = function  # type: ignore[method-assign]
    try:
        yield
    finally:
        del module.forward
        if before is not None:
            module.forward = before


@contextmanager
def _giving(module: nn.Module, state: torch.Tensor) -> Iterator[None]:
    """While open, a module is given this state."""

    def exchange(_: nn.Module, args: Any, kwargs: Any) -> Any:
        if args:
            return (state, *args[1:]), kwargs
        return args, {**kwargs, next(iter(kwargs)): state}

    handle = module.register_forward_pre_hook(exchange, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def _stopping_at(module: nn.Module) -> Iterator[list[Given]]:
    """While open, a forward pass is left where it comes to the module; gives what the module is given."""
    found: list[Given] = []

    def stop(_: nn.Module, args: Any, kwargs: Any) -> None:
        # A cache of keys and values is the model's: what runs beside the model leaves it alone.
        plain = [None if is_cache(value) else value for value in args]
        found[:] = [Given(tuple(plain), {key: None if is_cache(value) else value for key, value in kwargs.items()})]
        raise Stop

    handle = module.register_forward_pre_hook(stop, with_kwargs=True)
    try:
        yield found
    finally:
        handle.remove()


@contextmanager
def stopping_after(module: nn.Module) -> Iterator[None]:
    """While open, a forward pass is left, by `Stop`, once the module and the hooks that it has now have run."""

    def stop(*given: Any) -> None:
        raise Stop

    handle = module.register_forward_hook(stop)
    try:
        yield
    finally:
        handle.remove()
