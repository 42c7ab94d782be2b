"""Replaceable: a span or its successor behind one face, with a Place where each of the span's modules stood.

The chain keeps its length, so the loop that runs it hands each index the arguments meant for it (masks by layer type, rotary
embeddings, cache positions). When the slot is replaced, its first place runs the successor and the others hand the state through.
When both run, the successor is given what its span is given, and the slot's output is a weighted sum of theirs.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class Pair:
    """What a span and its successor made of the same state."""

    before: torch.Tensor
    span: torch.Tensor
    successor: torch.Tensor


class Replaceable:
    """What the places of one slot share: what runs there, and what flows between them."""

    def __init__(self) -> None:
        self.replaced = False
        self.weight: float | None = None  # of the successor's state where both run; None: one of them runs
        self.pair: Pair | None = None  # of the latest forward pass, kept while `pairing`
        self.pairing = False
        # What a block returns beside its state, by device: replicas of one process run side by side.
        self.rest: dict[torch.device, tuple | None] = {}
        self.waiting: dict[
            torch.device, tuple[torch.Tensor, torch.Tensor]
        ] = {}  # the slot's input, the successor's state


class StandIn(nn.Module):
    """Stands where a block stood, and holds it; what the loop reads off a block (its attention type, say) it finds here too."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "block":
                raise
            return getattr(self.block, name)


class Place(StandIn):
    """Stands where one module of a span stood; the first place of a slot owns the successor."""

    def __init__(self, block: nn.Module, slot: Replaceable, successor: nn.Module | None, *, last: bool) -> None:
        super().__init__(block)
        self.successor = successor
        self.slot = slot
        self.last = last

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        slot = self.slot
        if slot.weight is not None:
            return self._run_both(slot.weight, *args, **kwargs)
        if not slot.replaced:
            return self.block(*args, **kwargs)
        if self.successor is None:
            return self._hand_through(state_given(args, kwargs))
        output = self.successor(*args, **kwargs)
        if not self.last:
            slot.rest[state_of(output).device] = output[1:] if isinstance(output, tuple) else None
        return output

    def _hand_through(self, state: torch.Tensor) -> Any:
        rest = self.slot.rest.pop(state.device) if self.last else self.slot.rest[state.device]
        return state if rest is None else (state, *rest)

    def _run_both(self, weight: float, *args: Any, **kwargs: Any) -> Any:
        slot, before = self.slot, state_given(args, kwargs)
        if self.successor is not None:
            # A cache of keys and values is the span's: two modules cannot write to one place of it.
            own_args = [None if _is_cache(value) else value for value in args]
            own_kwargs = {name: None if _is_cache(value) else value for name, value in kwargs.items()}
            slot.waiting[before.device] = (before, state_of(self.successor(*own_args, **own_kwargs)))
        output = self.block(*args, **kwargs)
        if not self.last:
            return output
        state = state_of(output)
        before, beside = slot.waiting.pop(before.device)
        if slot.pairing:
            slot.pair = Pair(before, state, beside)
        if weight == 0:
            return output
        mixed = torch.lerp(state, beside, weight)
        return (mixed, *output[1:]) if isinstance(output, tuple) else mixed


def state_of(output: Any) -> torch.Tensor:
    """The hidden state in what a block returns: the tensor itself, or the first item of a tuple."""
    return output[0] if isinstance(output, tuple) else output


def state_given(args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
    """The hidden state in what a block is given: the first argument."""
    return args[0] if args else next(iter(kwargs.values()))


def _is_cache(value: Any) -> bool:
    return hasattr(value, "get_seq_length")
