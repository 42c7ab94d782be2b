"""Lite Transformer's block (Wu et al. 2020, arXiv:2004.11886): long-short range attention and a flattened feed-forward network.

Half of the channels go through attention, the other half through a light convolution; their outputs stand side by side and nothing
else mixes them. Kernels grow with depth. The feed-forward network is as wide as the state, and starts as the weightiest channels
of the donor's; what the two halves give starts small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from plankwise.core.plan import Slot
from plankwise.errors import PlanError
from plankwise.parts import Load, Span
from plankwise.parts._amounts import Amount, number_kept
from plankwise.parts._blocks import MixingOptions, find_form, like

if TYPE_CHECKING:
    from torch import nn

REPLACES = "blocks"


class Options(MixingOptions):
    kernels: list[Annotated[int, Field(ge=1)]] = Field(
        [3, 7, 15, 31], min_length=1, description="kernels by slot; the last one for all slots behind"
    )
    heads: int = Field(4, ge=1, description="attention heads, and as many kernels, each in half of the channels")
    ffn: Amount = Field(1.0, description="feed-forward channels: a share of the state's width up to 1, a number above")


def build(spans: list[Span], options: Options) -> list[nn.Module]:
    """One block a span, (B, T, D) to (B, T, D).

    Raises:
        PlanError: heads do not divide half of the width; the block gives more than a state, or cannot be run on one.
    """
    from plankwise.parts._blocks_modules import TwoSublayers
    from plankwise.parts._blocks_sublayers import LongShort

    built: list[nn.Module] = []
    for span in spans:
        form = find_form(span, options)
        if form.width % (2 * options.heads):
            raise PlanError(
                f"plan.options.heads is {options.heads}, but half of a state in slot {span.slot} is {form.width / 2:g} wide; give "
                "a number that divides it"
            )
        kernel = options.kernels[min(span.index, len(options.kernels) - 1)]
        mixing = LongShort(form.width, options.heads, kernel, causal=form.causal)
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
