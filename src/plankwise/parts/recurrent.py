"""A recurrent layer for a span: x + W·RNN(x), an LSTM or a GRU, in both directions unless the model reads from left to right.

Module replacing with recurrent layers is known from speech (LCMR, Interspeech 2022). Nothing of a block carries over to it: it
starts as drawn, with W small, so that states are at first handed through almost unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from plankwise.core.plan import Slot
from plankwise.parts import Load, Span
from plankwise.parts._amounts import Amount, number_kept
from plankwise.parts._blocks import MixingOptions, find_form, like

if TYPE_CHECKING:
    from torch import nn

REPLACES = "blocks"


class Options(MixingOptions):
    cell: Literal["lstm", "gru"] = Field("lstm", description="lstm or gru")
    width: Amount = Field(0.5, description="width of each direction: a share of the state's up to 1, a number above")


def build(spans: list[Span], options: Options) -> list[nn.Module]:
    """One recurrent layer a span, (B, T, D) to (B, T, D).

    Raises:
        PlanError: the block gives more than a state, reads another sequence, or cannot be run on a state.
    """
    from plankwise.parts._blocks_mixing import Recurrent

    built: list[nn.Module] = []
    for span in spans:
        form = find_form(span, options)
        width = number_kept(options.width, form.width)
        built.append(like(span.module, Recurrent(form, span.module, width, options.cell)))
    return built


def start(
    model: nn.Module, slots: list[Slot], successors: list[nn.Module], *, init: str, seed: int, load: Load
) -> None:
    """Draws the layers by the seed, W small, and copies norms; the model is only read.

    Raises:
        PlanError: `init` is neither a rule nor a checkpoint that fits.
    """
    from plankwise.parts._blocks_start import copy_norms, start_blocks

    def fill(successor: Any, donor: nn.Module, last: nn.Module) -> None:
        successor.begin_small()
        copy_norms(successor, donor, last)

    start_blocks(model, slots, successors, init=init, seed=seed, load=load, fill=fill)
