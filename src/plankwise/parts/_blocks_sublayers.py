"""How tokens are mixed in blocks of two sublayers: long-short range attention, and DeLighT's attention behind a DExTra unit."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

from plankwise.parts._blocks_modules import Attention, slide, without_padding


class LongShort(nn.Module):
    """Attention on the first half of the channels of (B, T, D), a light convolution on the second; nothing mixes the halves."""

    def __init__(self, width: int, heads: int, kernel: int, *, causal: bool) -> None:
        super().__init__()
        self.split = width // 2
        self.attend = Attention(self.split, self.split, heads, causal=causal)
        self.attended = nn.Linear(self.split, self.split)
        rest = width - self.split
        self.enter = nn.Linear(rest, rest)
        self.light = LightConvolution(rest, heads, kernel, causal=causal)
        self.leave = nn.Linear(rest, rest)

    def forward(self, state: torch.Tensor, real: torch.Tensor | None) -> torch.Tensor:
        far, near = state[..., : self.split], state[..., self.split :]
        near = self.leave(self.light(without_padding(self.enter(near), real)))
        return torch.cat([self.attended(self.attend(far, real)), near], -1)

    def endings(self) -> list[nn.Linear]:
        return [self.attended, self.leave]


class LightConvolution(nn.Module):
    """A convolution over tokens whose kernels add up to 1 and are shared by the channels of a head (Wu et al. 2019)."""

    def __init__(self, width: int, heads: int, kernel: int, *, causal: bool) -> None:
        super().__init__()
        self.causal, self.channels = causal, width // heads
        self.weight = nn.Parameter(torch.empty(heads, kernel))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight)

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        kernels = self.weight.softmax(-1).repeat_interleave(self.channels, 0)[:, None]
        return slide(state, kernels, None, causal=self.causal)


class Light(nn.Module):
    """DeLighT's first sublayer: a DExTra unit from D to D/2, single-head attention there, and a map back to D."""

    def __init__(self, width: int, depth: int, multiplier: float, groups: int, *, causal: bool) -> None:
        super().__init__()
        self.dextra = DExTra(width, depth, multiplier, groups)
        self.attend = Attention(width // 2, width // 2, 1, causal=causal)
        self.leave = nn.Linear(width // 2, width)

    def forward(self, state: torch.Tensor, real: torch.Tensor | None) -> torch.Tensor:
        return self.leave(self.attend(self.dextra(state), real))

    def endings(self) -> list[nn.Linear]:
        return [self.leave]


class DExTra(nn.Module):
    """A deep unit of group linear transforms, (B, T, D) to (B, T, D/2), which widens and narrows again.

    Each layer but the first reads what the one before gives beside what all began with; so does the last map.
    """

    def __init__(self, width: int, depth: int, multiplier: float, groups: int) -> None:
        super().__init__()
        start = width // 2
        sizes, numbers = layer_sizes(width, depth, multiplier, groups)
        self.enter = nn.Linear(width, start)
        read = [start, *(size + start for size in sizes[:-1])]
        shapes = zip(read, sizes, numbers, strict=True)
        self.layers = nn.ModuleList(GroupLinear(given, size, number) for given, size, number in shapes)
        self.leave = nn.Linear(sizes[-1] + start, start)

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        began = self.enter(state)
        found = torch.zeros_like(began[..., :0])
        for layer in self.layers:
            found = layer(found, began)
        return self.leave(torch.cat([found, began], -1))


def layer_sizes(width: int, depth: int, multiplier: float, groups: int) -> tuple[list[int], list[int]]:
    """The outputs of each layer of a DExTra unit, and its groups: 2, 4, 8 and so on up to `groups`; both mirrored in the middle."""
    half = math.ceil(depth / 2)
    least, most = width / 2, multiplier * width
    rising = [least + (most - least) * index / (half - 1) for index in range(half)] if half > 1 else [most]
    sizes = [groups * max(1, math.floor(one / groups + 0.5)) for one in rising]
    numbers = [min(2 ** (index + 1), groups) for index in range(half)]
    mirrored = [min(index, depth - 1 - index) for index in range(depth)]
    return [sizes[index] for index in mirrored], [numbers[index] for index in mirrored]


def shuffle(features: torch.Tensor, groups: int) -> torch.Tensor:
    """Features (B, T, C) in an order in which those of each group are spread over all groups."""
    return features.unflatten(-1, (groups, -1)).transpose(-1, -2).flatten(-2)


class GroupLinear(nn.Module):
    """A linear map of each group of features by itself, a norm over each group, and swish; what it gives is shuffled."""

    def __init__(self, inputs: int, outputs: int, groups: int) -> None:
        super().__init__()
        self.groups = groups
        self.weight = nn.Parameter(torch.empty(groups, inputs // groups, outputs // groups))
        self.bias = nn.Parameter(torch.empty(groups, outputs // groups))
        self.gain = nn.Parameter(torch.empty(groups, outputs // groups))
        self.shift = nn.Parameter(torch.empty(groups, outputs // groups))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.weight.shape[1])
        for one in (self.weight, self.bias):
            one.uniform_(-bound, bound)
        self.gain.fill_(1)
        self.shift.zero_()

    def forward(self, features: torch.Tensor, began: torch.Tensor) -> torch.Tensor:
        """Reads (B, T, C) and (B, T, E) side by side in each group, gives (B, T, outputs)."""
        own, beside = (one.unflatten(-1, (self.groups, one.shape[-1] // self.groups)) for one in (features, began))
        given = torch.cat([own, beside], -1)
        found = (given.flatten(0, 1).transpose(0, 1) @ self.weight).transpose(0, 1).reshape(
            *given.shape[:-1], -1
        ) + self.bias
        found = functional.layer_norm(found, found.shape[-1:]) * self.gain + self.shift
        return shuffle(functional.silu(found).flatten(-2), self.groups)
