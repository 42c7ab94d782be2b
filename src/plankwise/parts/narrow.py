"""A narrower block of the predecessor's own kind, between a map into its width and a map back: x + W(b(Vx) - Vx).

Heads and feed-forward channels are fewer by the same share. V starts as the principal directions of what the donor's maps read, W
as V transposed, and the block's maps as the donor's in these directions; at full width that is the donor itself.

In neighbouring slots the map W out of the first and the map V' into the second cannot be merged into one at collapse. What stands
between them is y = x + Wg, with g = b(Vx) - Vx, at its full width: the second slot reads V'y = V'x + (V'W)g, in which V'W stands
beside V' and not in its place, and W is still needed for y, which goes on beside the second slot. Both would have to be kept, and
V'W added. In a post-LN model y goes through a norm of its full width, too, which no linear map commutes with. Without the sum
the maps would merge, but then no more than g's width would go from slot to slot of a state of which blocks change a little each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from plankwise.core.plan import Slot
from plankwise.errors import PlanError
from plankwise.parts import Load, PartOptions, Span
from plankwise.parts._amounts import Amount, number_kept
from plankwise.parts._blocks import find_form, like, runs
from plankwise.parts._units import SHARED_BIAS, find_units

if TYPE_CHECKING:
    from torch import nn

    from plankwise.parts._blocks import Form

REPLACES = "blocks"
CANDIDATES: list[dict[str, Any]] = [
    {"width": 0.5},
    {"width": 0.25},
]  # about a third and a tenth of a block's multiply-adds


class Options(PartOptions):
    width: Amount = Field(0.5, description="width of the block: a share of the state's up to 1, a number above")


def build(spans: list[Span], options: Options) -> list[nn.Module]:
    """One narrower block a span, (B, T, D) to (B, T, D).

    Raises:
        PlanError: a block's heads or channels are not found, it is less wide, or it cannot be made narrower.
    """
    return [_build(span, find_form(span, options), options) for span in spans]


def _build(span: Span, form: Form, options: Options) -> nn.Module:
    from plankwise.parts._blocks_narrow import Narrow

    width, name = number_kept(options.width, form.width), f"slot {span.slot} holds a {type(span.module).__name__}"
    if width > form.width:
        raise PlanError(
            f"plan.options.width is {width}, but states in slot {span.slot} are {form.width} wide; give less"
        )
    found = find_units(span.module)
    reason = found.no_heads or found.no_ffn
    if hasattr(span.config, SHARED_BIAS):
        reason = "each head's bias for relative positions is made outside of the block, for all blocks alike"
    if not reason:
        built = like(span.module, Narrow(form, span.module, width))
        if runs(span, built):
            return built
        reason = "it reads other things of a state's width, or says elsewhere how wide it is"
    raise PlanError(f"{name}, which cannot be made narrower: {reason}; choose the part bottleneck, or layers")


def start(
    model: nn.Module, slots: list[Slot], successors: list[nn.Module], *, init: str, seed: int, load: Load
) -> None:
    """Fills maps and blocks with the donors' in their principal directions; the model is only read.

    Raises:
        PlanError: `init` is neither a rule nor a checkpoint that fits.
    """
    from plankwise.parts._blocks_narrow import narrowed
    from plankwise.parts._blocks_start import copy_norms, find_directions, start_blocks

    def fill(successor: Any, donor: nn.Module, last: nn.Module) -> None:
        directions = find_directions(donor, successor.form.width, successor.enter.out_features)
        successor.enter.weight.copy_(directions)
        successor.output.weight.copy_(directions.T)
        successor.output.bias.zero_()
        inner = narrowed(successor.form, donor, directions).state_dict()
        for name, value in successor.inner.state_dict().items():
            if name in inner:  # what only the first block of a chain has stays that block's
                value.copy_(inner[name])
        copy_norms(successor, donor, last)

    start_blocks(model, slots, successors, init=init, seed=seed, load=load, fill=fill)
