"""MobileBERT's block (Sun et al. 2020, arXiv:2004.02984): attention and stacked feed-forward networks in a narrow bottleneck.

Queries and keys share a map into the bottleneck, values are read off the whole state. Where the paper has NoNorm on devices, this
has LayerNorm; its embeddings and teacher are not part of a block, and its layer-wise transfer is the method `mobilebert`. Both
maps into the bottleneck start as the principal directions of what the donor's maps read, W starts small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    width: Amount = Field(0.25, description="width of the bottleneck: a share of the state's up to 1, a number above")
    heads: int = Field(4, ge=1, description="attention heads in the bottleneck")
    ffns: int = Field(
        4, ge=1, description="feed-forward networks, one behind the other, each four times as wide inside"
    )


def build(spans: list[Span], options: Options) -> list[nn.Module]:
    """One block with a bottleneck a span, (B, T, D) to (B, T, D).

    Raises:
        PlanError: heads do not divide the bottleneck's width; the block gives more than a state, or cannot be run on one.
    """
    from plankwise.parts._blocks_mixing import Bottleneck

    built: list[nn.Module] = []
    for span in spans:
        form = find_form(span, options)
        width = number_kept(options.width, form.width)
        if width % options.heads:
            raise PlanError(
                f"plan.options.heads is {options.heads}, but the bottleneck is {width} wide ({options.width:g} of {form.width}); "
                "give a number of heads that divides it, or another width"
            )
        built.append(like(span.module, Bottleneck(form, span.module, width, options.heads, options.ffns)))
    return built


def start(
    model: nn.Module, slots: list[Slot], successors: list[nn.Module], *, init: str, seed: int, load: Load
) -> None:
    """Enters the bottleneck by the donor's principal directions, and leaves it by a small W; the model is only read.

    Raises:
        PlanError: `init` is neither a rule nor a checkpoint that fits.
    """
    from plankwise.parts._blocks_start import copy_norms, find_directions, start_blocks

    def fill(successor: Any, donor: nn.Module, last: nn.Module) -> None:
        successor.begin_small()
        copy_norms(successor, donor, last)
        directions = find_directions(donor, successor.form.width, successor.enter.out_features)
        for linear in (successor.enter, successor.share):
            linear.weight.copy_(directions)
            linear.bias.zero_()

    start_blocks(model, slots, successors, init=init, seed=seed, load=load, fill=fill)
