"""Nothing at all: a span's state is handed through. What depth pruning does to blocks that change their state the least.

ShortGPT (Men et al. 2024, arXiv:2403.03853) finds such blocks of decoders by the cosine between what they take and what they give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plankwise.core.plan import Slot
from plankwise.parts import Load, PartOptions, Span, donors
from plankwise.parts._blocks import find_form

if TYPE_CHECKING:
    from torch import nn

REPLACES = "blocks"
CANDIDATES: list[dict[str, Any]] = [{}]


class Options(PartOptions):
    pass


def build(spans: list[Span], options: Options) -> list[nn.Module]:
    """One module a span that gives the state (B, T, D) that it is given.

    Raises:
        PlanError: the block gives more than a state, or cannot be run on one.
    """
    from plankwise.parts._blocks_linear import Identity

    return [Identity(find_form(span, options)) for span in spans]


def start(
    model: nn.Module, slots: list[Slot], successors: list[nn.Module], *, init: str, seed: int, load: Load
) -> None:
    """Has no weights to start from; a start that nobody knows is refused all the same.

    Raises:
        PlanError: `init` is neither a rule nor a checkpoint that fits.
    """
    list(donors(model, slots, init, load))
