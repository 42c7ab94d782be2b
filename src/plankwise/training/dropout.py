"""Dropout's coins, drawn faster on the CPU.

Where torch has no vector library for it (on all but Intel's processors) it draws each coin of a dropout mask by itself, on one
thread, which was up to a seventh of a training step. Here 64 random bits make four coins.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch

BITS = 16  # of chance a coin: its odds are right to 1 in 65,536
OPERATOR = "bernoulli_.float"

_library: torch.library.Library | None = None  # what holds torch's kernel replaced


@contextmanager
def fast_dropout(on: bool = True) -> Iterator[None]:
    """While open, every dropout mask on the CPU is drawn by `draw_coins`; with `on` False, by torch again."""
    before = _library is not None
    _switch(on)
    try:
        yield
    finally:
        _switch(before)


def _switch(on: bool) -> None:
    global _library
    if on and _library is None:
        _library = torch.library.Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch says that a kernel of its own is replaced, which is meant
            _library.impl(OPERATOR, draw_coins, "CPU")
    elif not on and _library is not None:
        _library._destroy()
        _library = None


def draw_coins(out: torch.Tensor, p: float = 0.5, *, generator: torch.Generator | None = None) -> torch.Tensor:
    """Fills `out` with ones at odds p and with zeros, from torch's own random state.

    Raises:
        RuntimeError: p is not between 0 and 1.
    """
    if not 0 <= p <= 1:
        raise RuntimeError(f"the odds of a coin are between 0 and 1, but {p} was given")
    ones = round(p * 2**BITS)
    if ones in (0, 2**BITS):
        return out.fill_(ones > 0)
    words = torch.empty(-(-out.numel() * BITS // 64), dtype=torch.int64)
    words.random_(-(2**63), None, generator=generator)
    coins = words.view(torch.int16)[: out.numel()].view(out.shape)
    return out.copy_(coins < ones - 2 ** (BITS - 1))
