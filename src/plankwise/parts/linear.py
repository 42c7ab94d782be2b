"""One affine map for a span: x + Bx + c, behind it the span's last norm if the block ends in one.

After ReplaceMe (Shopkhoev et al. 2025, arXiv:2505.02819), which solves such a map on texts and folds it into the block before it;
here it stays a map of its own, because a post-LN block has a norm between. It starts as B = 0 and c = 0; `plan.init = "solved"`
finds the best B and c by least squares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plankwise.core.plan import Slot
from plankwise.parts import Load, PartOptions, Span
from plankwise.parts._blocks import find_form, like

if TYPE_CHECKING:
    from torch import nn

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
