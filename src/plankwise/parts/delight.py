"""DeLighT's block (Mehta et al. 2021, arXiv:2008.00623): a DExTra unit, single-head attention, a light feed-forward network.

DExTra goes from D to D/2 through N group linear transforms; attention runs in D/2. N and the widest layer grow with depth: of B
blocks, b (from 0) has N = N_min + (N_max - N_min)·b/(B - 1) and m = m_w + (N_max/N_min - 1)·b/(B - 1). As in the authors' code each
layer reads what the unit began with, too. The feed-forward network starts as the weightiest channels of the donor's; what the
attention gives starts small.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pydantic import Field, model_validator

from plankwise.core.plan import Slot
from plankwise.errors import ConfigError, PlanError
from plankwise.parts import Load, Span
from plankwise.parts._amounts import Amount, number_kept
from plankwise.parts._blocks import MixingOptions, find_form, like

if TYPE_CHECKING:
    from torch import nn

REPLACES = "blocks"


class Options(MixingOptions):
    least_layers: int = Field(4, ge=1, description="group linear transforms of the first block (N_min)")
    most_layers: int = Field(8, ge=1, description="group linear transforms of the last block (N_max)")
    multiplier: float = Field(2.0, ge=0.5, description="widest layer of the first block, in widths of the state (m_w)")
    groups: int | None = Field(None, ge=1, description="most groups, a power of 2; by default 2^ceil(log2(width/32))")
    ffn: Amount = Field(0.25, description="feed-forward channels: a share of the state's width up to 1, a number above")

    @model_validator(mode="after")
    def _ordered(self) -> Options:
        if self.most_layers < self.least_layers:
            raise ConfigError(
                f"most_layers is {self.most_layers}, and least_layers {self.least_layers}; give a number that is at least that"
            )
        if self.groups is not None and self.groups & (self.groups - 1):
            raise ConfigError(f"groups is {self.groups}; give a power of 2")
        return self


def scaled(options: Options, index: int, count: int) -> tuple[int, float]:
    """How many layers the DExTra unit of a block has, and how wide the widest is, in widths of the state."""
    place = index / (count - 1) if count > 1 else 0.0
    layers = options.least_layers + (options.most_layers - options.least_layers) * place
    return math.floor(layers + 0.5), options.multiplier + (options.most_layers / options.least_layers - 1) * place


def build(spans: list[Span], options: Options) -> list[nn.Module]:
    """One block a span, (B, T, D) to (B, T, D), deeper and wider from the first slot to the last.

    Raises:
        PlanError: groups do not divide half of the width; the block gives more than a state, or cannot be run on one.
    """
    from plankwise.parts._blocks_modules import TwoSublayers
    from plankwise.parts._blocks_sublayers import Light

    built: list[nn.Module] = []
    for span in spans:
        form = find_form(span, options)
        groups = options.groups or 2 ** max(0, math.ceil(math.log2(form.width / 32)))
        if form.width % (2 * groups):
            raise PlanError(
                f"plan.options.groups is {groups}, but half of a state in slot {span.slot} is {form.width / 2:g} wide; give "
                "a power of 2 that divides it"
            )
        depth, multiplier = scaled(options, span.index, span.count)
        mixing = Light(form.width, depth, multiplier, groups, causal=form.causal)
        block = TwoSublayers(form, span.module, mixing, number_kept(options.ffn, form.width))
        built.append(like(span.module, block))
    return built


def start(
    model: nn.Module, slots: list[Slot], successors: list[nn.Module], *, init: str, seed: int, load: Load
) -> None:
    """Fills the feed-forward networks from the donors', and begins with little mixing; the model is only read.

    Raises:
        PlanError: `init` is neither a rule nor a checkpoint that fits.
    """
    from plankwise.parts._blocks_start import copy_channels, copy_norms, start_blocks

    def fill(successor: Any, donor: nn.Module, last: nn.Module) -> None:
        successor.begin_small()
        copy_norms(successor, donor, last)
        copy_channels(successor.up, successor.output, donor)

    start_blocks(model, slots, successors, init=init, seed=seed, load=load, fill=fill)
