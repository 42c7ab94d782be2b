"""Dropout masks drawn faster on the CPU, in the modules of one model.

Where torch has no vector library for it (on all but Intel's processors) it draws each entry of a mask by itself, on one thread,
which was up to a seventh of a training step. Here 64 random bits make four entries. Only `nn.Dropout` modules are concerned:
dropout inside attention is torch's own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import nn

from plankwise.training.processor import is_intel

BITS = 16  # of chance an entry: its odds are right to 1 in 65,536


class FastDropout(nn.Dropout):
    """What an `nn.Dropout` is while a stage trains; other devices and in-place dropout are torch's."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if not self.training or not 0 < self.p < 1 or self.inplace or input.device.type != "cpu":
            return super().forward(input)
        return input * draw_kept(input.shape, 1 - self.p).to(input.dtype).mul_(1 / (1 - self.p))


def draw_kept(shape: torch.Size, odds: float) -> torch.Tensor:
    """Which entries are kept, each at these odds, from torch's own random state."""
    count = shape.numel()
    words = torch.empty(-(-count * BITS // 64), dtype=torch.int64)
    words.random_(-(2**63), None)
    return (words.view(torch.int16)[:count] < round(odds * 2**BITS) - 2 ** (BITS - 1)).view(shape)


@contextmanager
def fast_dropout(model: nn.Module, switch: Literal["auto"] | bool) -> Iterator[None]:
    """While open, the model's dropout modules draw their masks this way; "auto": where torch draws entries one by one."""
    on = not is_intel() if switch == "auto" else switch
    changed = [module for module in model.modules() if type(module) is nn.Dropout] if on else []
    for module in changed:
        module.__class__ = FastDropout
    try:
        yield
    finally:
        for module in changed:
            module.__class__ = nn.Dropout
