"""Successors whose tokens read others by a convolution, a recurrent layer or an attention in a bottleneck."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from plankwise.parts._blocks_modules import Attention, Ending, copy_norm, find_activation, slide, without_padding

if TYPE_CHECKING:
    from plankwise.parts._blocks import Form

CELLS = {"lstm": nn.LSTM, "gru": nn.GRU}


class _Reading(Ending):
    """What ends in W and reads a state, normed where the block is pre-LN."""

    def __init__(self, form: Form, block: nn.Module, features: int) -> None:
        super().__init__(form, block, features)
        self.mixing_norm = None if form.post else copy_norm(form, block, 0)

    def read(self, state: torch.Tensor) -> torch.Tensor:
        return state if self.mixing_norm is None else self.mixing_norm(state)


class Kernels(nn.Module):
    """A convolution over tokens, each channel with a kernel and a bias of its own; at first each token sees itself alone."""

    def __init__(self, channels: int, size: int, *, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.weight = nn.Parameter(torch.empty(channels, 1, size))
        self.bias = nn.Parameter(torch.empty(channels))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        size = self.weight.shape[-1]
        self.weight.zero_()
        self.weight[..., size - 1 if self.causal else (size - 1) // 2] = 1
        self.bias.zero_()

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        return slide(state, self.weight, self.bias, causal=self.causal)


class Convolution(_Reading):
    """norm(x + W·act(conv(Vx))), or x + W·act(conv(V·norm(x)))."""

    def __init__(self, form: Form, block: nn.Module, channels: int, kernel: int) -> None:
        super().__init__(form, block, channels)
        self.up = nn.Linear(form.width, channels)
        self.kernels = Kernels(channels, kernel, causal=form.causal)
        self.act = find_activation(block)

    def compute(self, state: torch.Tensor, real: torch.Tensor | None) -> torch.Tensor:
        return self.end(state, self.act(self.kernels(without_padding(self.up(self.read(state)), real))))


class Recurrent(_Reading):
    """norm(x + W·RNN(x)), or x + W·RNN(norm(x)); the second direction, if there is one, is a layer of its own."""

    def __init__(self, form: Form, block: nn.Module, width: int, cell: str) -> None:
        super().__init__(form, block, width if form.causal else 2 * width)
        self.right = CELLS[cell](form.width, width, batch_first=True)
        self.left = None if form.causal else CELLS[cell](form.width, width, batch_first=True)

    def compute(self, state: torch.Tensor, real: torch.Tensor | None) -> torch.Tensor:
        read = self.read(state)
        found = [_run(self.right, read, real)]
        if self.left is not None:
            found.append(_run(self.left, read.flip(1), None if real is None else real.flip(1)).flip(1))
        return self.end(state, torch.cat(found, -1))


def _run(layer: nn.Module, state: torch.Tensor, real: torch.Tensor | None) -> torch.Tensor:
    """A recurrent layer over real tokens first and padding behind them, so that it does not matter where there is padding."""
    if real is None:
        return layer(state)[0]
    ranks = torch.where(real, real.long().cumsum(1), real.sum(1, keepdim=True) + (~real).long().cumsum(1)) - 1
    ordered = torch.zeros_like(state).scatter(1, ranks[..., None].expand_as(state), state)
    found = layer(ordered)[0]
    return found.gather(1, ranks[..., None].expand(-1, -1, found.shape[-1]))


class Bottleneck(_Reading):
    """norm(x + W·b(x)), or x + W·b(norm(x)), where b is attention and stacked feed-forward networks of a smaller width.

    Queries and keys share a map into the smaller width, values are read off the whole state, and another map gives what the
    attention is added to.
    """

    def __init__(self, form: Form, block: nn.Module, width: int, heads: int, ffns: int) -> None:
        super().__init__(form, block, width)
        self.enter, self.enter_norm = nn.Linear(form.width, width), nn.LayerNorm(width)
        self.share, self.share_norm = nn.Linear(form.width, width), nn.LayerNorm(width)
        self.attend = Attention(width, width, heads, causal=form.causal, values=form.width)
        self.attended, self.attended_norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.ups = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(ffns))
        self.downs = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(ffns))
        self.ffn_norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(ffns))
        self.act = find_activation(block)

    def compute(self, state: torch.Tensor, real: torch.Tensor | None) -> torch.Tensor:
        read = self.read(state)
        mixed = self.attend(self.share_norm(self.share(read)), real, read)
        inner = self.attended_norm(self.enter_norm(self.enter(read)) + self.attended(mixed))
        for up, down, norm in zip(self.ups, self.downs, self.ffn_norms, strict=True):
            inner = norm(inner + down(self.act(up(inner))))
        return self.end(state, inner)
