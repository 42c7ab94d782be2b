"""Gates over blocks, heads and channels that are learnt while a model is trained; see `methods/cofi.py`.

A gate is hard concrete (Louizos et al. 2018, arXiv:1712.01312): s = sigmoid((log u − log(1 − u) + a) / BETA), u drawn from (0, 1),
z = s · (HIGH − LOW) + LOW, held between 0 and 1; it is open, z > 0, with the probability sigmoid(a − BETA · log(−LOW / HIGH)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import TrainerCallback

from plankwise.core.slot import state_given, state_of

LOW, HIGH, BETA = -0.1, 1.1, 2 / 3
OPEN_AT_START = 0.95


@dataclass(frozen=True)
class Row:
    """Units of one place in a block: the map that reads them, their number and width, and multiply-adds of each per token."""

    output: str
    count: int
    size: int
    cost: int


@dataclass(frozen=True)
class Choice:
    """Of one block, whether it stays, and which of its units do, row by row."""

    stays: bool
    units: tuple[torch.Tensor, ...]  # numbers


class Gates(nn.Module):
    """One gate for each block and each unit, and the two prices of missing the share of multiply-adds that is to be left.

    In training gates are drawn; in eval mode they are 0 or 1, the most closed shut until the final share is reached, so that dev
    chooses among successors as they will be. All numbers learn at `speed` times the learning rate of the model.
    """

    def __init__(self, rows: list[list[Row]], final: float, speed: float) -> None:
        super().__init__()
        self.rows, self.final, self.speed = rows, final, speed
        self.left = 1.0  # the share that training aims at now
        self.blocks = nn.Parameter(torch.zeros(len(rows)))
        self.units = nn.ParameterList(nn.Parameter(torch.zeros(row.count)) for block in rows for row in block)
        self.prices = nn.Parameter(torch.zeros(2))
        self.drawn: list[torch.Tensor] = []
        self.known: tuple[list[int], list[torch.Tensor]] | None = None

    def logits(self) -> list[torch.Tensor]:
        """a of all gates: of the blocks, then of each row of units."""
        start = math.log(OPEN_AT_START / (1 - OPEN_AT_START)) + BETA * math.log(-LOW / HIGH)
        return [start + _Scaled.apply(one, self.speed) for one in (self.blocks, *self.units)]

    def draw(self) -> None:
        """Draws all gates anew."""
        self.drawn = [stretch(torch.rand_like(a).clamp(1e-6, 1 - 1e-6), a) for a in self.logits()]

    def values(self) -> list[torch.Tensor]:
        """Gates as they are now, of the blocks, then of each row of units."""
        if self.training:
            return self.drawn
        versions = [one._version for one in (self.blocks, *self.units)]
        if self.known is None or self.known[0] != versions:
            chosen = self.choose()
            found = [torch.tensor([float(one.stays) for one in chosen], device=self.blocks.device)]
            for block, one in zip(self.rows, chosen, strict=True):
                for row, numbers in zip(block, one.units, strict=True):
                    gate = torch.zeros(row.count, device=self.blocks.device)
                    gate[numbers] = 1
                    found.append(gate)
            self.known = (versions, found)
        return self.known[1]

    def share(self, values: list[torch.Tensor]) -> torch.Tensor:
        """The share of the blocks' multiply-adds that is left where gates have these values: a unit counts if its block does."""
        units = iter(values[1:])
        costs = [sum(row.cost * next(units).sum() for row in block) for block in self.rows]
        total = sum(row.cost * row.count for block in self.rows for row in block)
        return sum(gate * cost for gate, cost in zip(values[0], costs, strict=True)) / total  # type: ignore[return-value]

    def penalty(self) -> torch.Tensor:
        """λ₁ · d + λ₂ · d², d the expected share less the one aimed at; λ learn the other way, up where d is above 0."""
        distance = self.share([open_probability(a) for a in self.logits()]) - self.left
        prices = _Scaled.apply(self.prices, -self.speed)
        return prices[0] * distance + prices[1] * distance**2

    def choose(self) -> list[Choice]:
        """What stays: the most closed gates of all are shut until the final share is left; one unit of a row and one block stay."""
        blocks, *units = [a.detach().tolist() for a in self.logits()]
        rows = [(number, row) for number, block in enumerate(self.rows) for row in block]
        order = sorted(
            [(a, 0, at, unit) for at, row in enumerate(units) for unit, a in enumerate(row)]
            + [(a, 1, number, 0) for number, a in enumerate(blocks)]
        )
        kept = [set(range(row.count)) for _, row in rows]
        stays = [True] * len(blocks)
        left = total = sum(row.cost * row.count for _, row in rows)
        for _, is_block, at, unit in order:
            if left <= self.final * total:
                break
            if is_block and sum(stays) > 1:
                stays[at] = False
                left -= sum(row.cost * len(kept[one]) for one, (number, row) in enumerate(rows) if number == at)
            elif not is_block and len(kept[at]) > 1:
                kept[at].discard(unit)
                left -= rows[at][1].cost if stays[rows[at][0]] else 0
        numbers = iter([torch.tensor(sorted(some)) for some in kept])
        return [Choice(stay, tuple(next(numbers) for _ in block)) for stay, block in zip(stays, self.rows, strict=True)]


class _Scaled(torch.autograd.Function):
    """A number times a factor whose gradient is not: Adam then moves the product by that many times its learning rate."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, factor: float) -> torch.Tensor:
        return value * factor

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:  # type: ignore[override]
        return gradient, None


def stretch(u: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
    """Hard concrete gates for u drawn from (0, 1)."""
    s = torch.sigmoid((u.log() - (1 - u).log() + a) / BETA)
    return (s * (HIGH - LOW) + LOW).clamp(0, 1)


def open_probability(a: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(a - BETA * math.log(-LOW / HIGH))


class GatesCallback(TrainerCallback):
    """Sets the share that training aims at: from 1 it falls in a line to the final one, over a share of the steps."""

    def __init__(self, gates: Gates, warmup: float) -> None:
        self.gates, self.warmup = gates, warmup

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        done = min(1.0, state.global_step / (self.warmup * state.max_steps)) if self.warmup else 1.0
        self.gates.left = 1 + (self.gates.final - 1) * done


def attach(gates: Gates, blocks: list[nn.Module]) -> list[Any]:
    """Puts the gates into blocks: a block gives x + z · (block(x) − x), and what reads units is given z times each; handles."""
    handles = []
    place = 1
    for number, (block, rows) in enumerate(zip(blocks, gates.rows, strict=True)):
        handles.append(block.register_forward_hook(_leading_past(gates, number), with_kwargs=True))
        for row in rows:
            handles.append(block.get_submodule(row.output).register_forward_pre_hook(_scaling(gates, place, row)))
            place += 1
    return handles


def _leading_past(gates: Gates, number: int) -> Any:
    def hook(_: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        gate, before, after = gates.values()[0][number], state_given(args, kwargs), state_of(output)
        if gates.training:
            after = before + gate.to(before.dtype) * (after - before)
        elif not gate:
            after = before
        return (after, *output[1:]) if isinstance(output, tuple) else after

    return hook


def _scaling(gates: Gates, place: int, row: Row) -> Any:
    def hook(_: nn.Module, args: Any) -> Any:
        gate = gates.values()[place].to(args[0].dtype)[:, None]
        return ((args[0].unflatten(-1, (row.count, row.size)) * gate).flatten(-2), *args[1:])

    return hook
