"""The simplest successors: a state handed through, and one affine map."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from plankwise.parts._blocks_modules import Ending, Successor

if TYPE_CHECKING:
    from plankwise.parts._blocks import Form


class Identity(Successor):
    """x."""

    mixes = False

    def compute(self, state: torch.Tensor, real: torch.Tensor | None) -> torch.Tensor:
        return state


class Affine(Ending):
    """norm(x + Bx + c), or x + Bx + c."""

    mixes = False

    def __init__(self, form: Form, block: nn.Module) -> None:
        super().__init__(form, block, form.width)

    def compute(self, state: torch.Tensor, real: torch.Tensor | None) -> torch.Tensor:
        return self.end(state, state)

    @torch.no_grad()
    def follow(self, other: Affine) -> None:
        """Takes in a map that comes behind this one, where neither has a norm: x + (B + B' + B'B)x + c + c' + B'c."""
        own, its = ((one.output.weight.double(), one.output.bias.double()) for one in (self, other))
        self.output.weight.copy_(own[0] + its[0] + its[0] @ own[0])
        self.output.bias.copy_(own[1] + its[1] + its[0] @ own[1])
