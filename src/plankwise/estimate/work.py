"""How much work a step is: its tokens, padding included, times the weights that they pass through.

A weight counts once in the forward pass; in the backward pass once more if it is trained, and once more if anything before it is,
so that a gradient flows through it. Attention's own products are left out: all that counts is how the steps of a stage differ.
"""

from collections.abc import Iterator

import numpy as np
from torch import nn

from plankwise.core.hybrid import Hybrid
from plankwise.core.slot import StandIn

GOLDEN = (5**0.5 - 1) / 2


class Weights:
    """The weights of a model that a token passes through in the model's present state."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.layers = list(_layers(model, ()))

    def forward(self) -> float:
        """In a pass that trains nothing."""
        return float(sum(size for _, size in self._running()))

    def training(self, step: int) -> float:
        """In a step of training, forward and backward; 0 in one that a hybrid skips."""
        if isinstance(self.model, Hybrid) and not any(self.model.mask) and not self.model.unfrozen_at(step):
            return 0.0
        total, flows = 0, False
        for weight, size in self._running():
            total += size * (1 + weight.requires_grad + flows)
            flows = flows or weight.requires_grad
        return float(total)

    def _running(self) -> Iterator[tuple[nn.Parameter, int]]:
        for weight, size, gates in self.layers:
            if all(any(child is one for one in gate.runs()) for gate, child in gates):
                yield weight, size


def _layers(module: nn.Module, gates: tuple) -> Iterator[tuple[nn.Parameter, int, tuple]]:
    """Each weight, how often a token uses it, and the stand-ins around it with the child it is in, which they may not run."""
    for weight in module.parameters(recurse=False):
        if weight.dim() > 1:
            yield weight, 0 if isinstance(module, nn.Embedding) else weight.numel(), gates
    for child in module.children():
        yield from _layers(child, (*gates, (module, child)) if isinstance(module, StandIn) else gates)


def padded_tokens(lengths: np.ndarray, batch_size: int) -> np.ndarray:
    """The tokens of each batch when all texts are read once, the longest first."""
    longest = np.sort(lengths)[::-1][::batch_size]
    return longest * np.diff([*range(0, len(lengths), batch_size), len(lengths)])


def spread(work: np.ndarray) -> list[int]:
    """Which items to time, in this order: the largest, then all that are any work, the first few of them evenly over all."""
    busy = np.flatnonzero(work)
    order = np.argsort((np.arange(len(busy)) * GOLDEN + 0.5) % 1)
    return [int(np.argmax(work)), *busy[order].tolist()]
