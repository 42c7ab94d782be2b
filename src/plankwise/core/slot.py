"""Replaceable: a span or its successor behind one face, with a Place where each of the span's modules stood.

The chain keeps its length, so the loop that runs it hands each index the arguments meant for it (masks by layer type, rotary
embeddings, cache positions). When the slot is replaced, its first place runs the successor and the others hand the state through.
When both run, the successor is given what its span is given, and the slot's output is a weighted sum of theirs.
"""

import threading
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from plankwise.errors import RunError


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
        self.trainable = True  # the successor has weights
        # What flows from a slot's first place to its last, by thread: DataParallel runs a copy of the model in each of its threads.
        self.rest: dict[int, tuple | None] = {}  # what the successor returned beside its state
        self.waiting: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # the slot's input, the successor's state


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

    def runs(self) -> tuple[nn.Module, ...]:
        """Which of its modules run in the model's present state."""
        return (self.block,)


class Place(StandIn):
    """Stands where one module of a span stood; the first place of a slot owns the successor."""

    def __init__(self, block: nn.Module, slot: Replaceable, successor: nn.Module | None, *, last: bool) -> None:
        super().__init__(block)
        self.successor = successor
        self.slot = slot
        self.last = last

    def runs(self) -> tuple[nn.Module, ...]:
        successor = () if self.successor is None else (self.successor,)
        if self.slot.weight is not None:
            return (self.block, *successor)
        return successor if self.slot.replaced else (self.block,)

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
            slot.rest[threading.get_ident()] = output[1:] if isinstance(output, tuple) else None
        return output

    def _hand_through(self, state: torch.Tensor) -> Any:
        thread = threading.get_ident()
        rest = self.slot.rest.pop(thread) if self.last else self.slot.rest[thread]
        return state if rest is None else (state, *rest)

    def _run_both(self, weight: float, *args: Any, **kwargs: Any) -> Any:
        slot, thread = self.slot, threading.get_ident()
        if self.successor is not None:
            # A cache of keys and values is the span's: two modules cannot write to one place of it.
            own_args = [None if is_cache(value) else value for value in args]
            own_kwargs = {name: None if is_cache(value) else value for name, value in kwargs.items()}
            beside = state_of(self.successor(*own_args, **own_kwargs))
            slot.waiting[thread] = (state_given(args, kwargs), beside)
        output = self.block(*args, **kwargs)
        if not self.last:
            return output
        state = state_of(output)
        before, beside = slot.waiting.pop(thread)
        if slot.pairing:
            refuse_replica(self, "what spans and successors give is compared")
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


def is_replica(module: nn.Module) -> bool:
    """Whether a module is a copy that DataParallel made for one of several GPUs; it sees only its share of the batch."""
    return "_is_replica" in vars(module)


def refuse_replica(module: nn.Module, what: str) -> None:
    """Lets only the module itself pass, not a copy that DataParallel made of it.

    Raises:
        RunError: it is such a copy.
    """
    if is_replica(module):
        raise RunError(
            f"{what}, which several GPUs in one process (DataParallel) cannot do, since each sees a share of the batch; "
            "start one process for each GPU with torchrun, or show the process one GPU with CUDA_VISIBLE_DEVICES=0"
        )


def is_cache(value: Any) -> bool:
    """Whether a value is a cache of keys and values, as transformers hands it to blocks."""
    return hasattr(value, "get_seq_length")
