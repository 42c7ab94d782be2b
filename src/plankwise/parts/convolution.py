"""A convolution over tokens for a span: x + W·act(conv(Vx)), each channel with a kernel of its own.

After the depthwise convolutions of Wu et al. 2019 (arXiv:1901.10430), without their softmax. It starts as the weightiest channels
of the donor's feed-forward network, with kernels that look at each token alone; where that network is gated, W starts small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from plankwise.core.plan import Slot
from plankwise.parts import Load, Span
from plankwise.parts._amounts import Amount, number_kept
from plankwise.parts._blocks import MixingOptions, find_form, like

if TYPE_CHECKING:
    from torch import nn

REPLACES = "blocks"


class Options(MixingOptions):
    kernel: int = Field(7, ge=1, description="tokens that a kernel sees, itself included")
    channels: Amount = Field(1.0, description="channels between V and W: a share of the width up to 1, a number above")


def build(spans: list[Span], options: Options) -> list[nn.Module]:
    """One convolution a span, (B, T, D) to (B, T, D).

    Raises:
        PlanError: the block gives more than a state, reads another sequence, or cannot be run on a state.
    """
    from plankwise.parts._blocks_mixing import Convolution

    built: list[nn.Module] = []
    for span in spans:
        form = find_form(span, options)
        channels = number_kept(options.channels, form.width)
        built.append(like(span.module, Convolution(form, span.module, channels, options.kernel)))
    return built


def start(
    model: nn.Module, slots: list[Slot], successors: list[nn.Module], *, init: str, seed: int, load: Load
) -> None:
    """Fills V and W from the donor's feed-forward network, and has kernels look at each token alone; the model is only read.

    Raises:
        PlanError: `init` is neither a rule nor a checkpoint that fits.
    """
    from plankwise.parts._blocks_start import copy_channels, copy_norms, start_blocks

    def fill(successor: Any, donor: nn.Module, last: nn.Module) -> None:
        successor.begin_small()
        copy_norms(successor, donor, last)
        copy_channels(successor.up, successor.output, donor)

    start_blocks(model, slots, successors, init=init, seed=seed, load=load, fill=fill)
