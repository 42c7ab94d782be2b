"""One affine map for a span: x + Bx + c, behind it the span's last norm if the block ends in one.

After ReplaceMe (Shopkhoev et al. 2025, arXiv:2505.02819). It starts as B = 0 and c = 0; `plan.init = "solved"` finds the best B and
c by least squares.

At collapse two such maps in neighbouring slots of a pre-LN model become one, and nothing is left of the second: x + Bx + c, then
x + B'x + c', is x + (B + B' + B'B)x + c + c' + B'c, equal within float error. No other neighbour takes the map in exactly: a block
before it ends in a sum with its own input, which (I + B) multiplies too, while the block's last map makes only the other half of
that sum (ReplaceMe, which folds there, moves the map in front of that sum); a block behind it begins with a norm; and
post-LN blocks, like these maps in their place, end in a norm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plankwise.core.plan import Slot
from plankwise.parts import Load, PartOptions, Span
from plankwise.parts._blocks import find_form, like

if TYPE_CHECKING:
    from torch import nn

    from plankwise.parts._blocks_linear import Affine

REPLACES = "blocks"
CANDIDATES: list[dict[str, Any]] = [{}]


class Options(PartOptions):
    pass


def build(spans: list[Span], options: Options) -> list[nn.Module]:
    """One map a span, (B, T, D) to (B, T, D).

    Raises:
        PlanError: the block gives more than a state, or cannot be run on one.
    """
    from plankwise.parts._blocks_linear import Affine

    return [like(span.module, Affine(find_form(span, options), span.module)) for span in spans]


def start(
    model: nn.Module, slots: list[Slot], successors: list[nn.Module], *, init: str, seed: int, load: Load
) -> None:
    """Sets B and c to 0 and copies the norm of each span's last block; the model is only read.

    Raises:
        PlanError: `init` is neither a rule nor a checkpoint that fits.
    """
    from plankwise.parts._blocks_start import copy_norms, start_blocks

    def fill(successor: nn.Module, donor: nn.Module, last: nn.Module) -> None:
        for parameter in successor.get_submodule("output").parameters():
            parameter.zero_()
        copy_norms(successor, donor, last)

    start_blocks(model, slots, successors, init=init, seed=seed, load=load, fill=fill)


def join(first: Affine, second: Affine) -> nn.Module | None:
    """Makes the first map that of both, without a norm between them; what then hands the state through, or None."""
    from plankwise.parts._blocks_linear import Identity

    if first.norm is not None or second.norm is not None:
        return None
    first.follow(second)
    return Identity(second.form)
