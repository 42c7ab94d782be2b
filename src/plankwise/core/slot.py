"""Replaceable: a span or its successor behind one face, with a Place where each of the span's modules stood.

The chain keeps its length, so the loop that runs it hands each index the arguments meant for it (masks by layer type, rotary
embeddings, cache positions). When the slot is replaced, its first place runs the successor and the others hand the state through.
"""

from typing import Any

import torch
from torch import nn


class Replaceable:
    """What the places of one slot share: whether it is replaced, and what flows between them."""

    def __init__(self) -> None:
        self.replaced = False
        self.tapped: torch.Tensor | None = None  # the state after the slot, kept while `tapping`
        self.tapping = False
        # What a block returns beside its state, by device: replicas of one process run side by side.
        self.rest: dict[torch.device, tuple | None] = {}


class Place(nn.Module):
    """Stands where one module of a span stood; the first place of a slot owns the successor."""

    def __init__(self, block: nn.Module, slot: Replaceable, successor: nn.Module | None, *, last: bool) -> None:
        super().__init__()
        self.block = block
        self.successor = successor
        self.slot = slot
        self.last = last

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        slot = self.slot
        if not slot.replaced:
            output = self.block(*args, **kwargs)
        elif self.successor is not None:
            output = self.successor(*args, **kwargs)
            if not self.last:
                slot.rest[state_of(output).device] = output[1:] if isinstance(output, tuple) else None
        else:
            output = self._hand_through(args[0] if args else next(iter(kwargs.values())))
        if self.last and slot.tapping:
            slot.tapped = state_of(output)
        return output

    def _hand_through(self, state: torch.Tensor) -> Any:
        rest = self.slot.rest.pop(state.device) if self.last else self.slot.rest[state.device]
        return state if rest is None else (state, *rest)

    def __getattr__(self, name: str) -> Any:
        """What the loop reads off a block (its attention type, say) it finds here too."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "block":
                raise
            return getattr(self.block, name)


def state_of(output: Any) -> torch.Tensor:
    """The hidden state in what a block returns: the tensor itself, or the first item of a tuple."""
    return output[0] if isinstance(output, tuple) else output
