"""No attention: a sublayer whose heads give nothing; what is left is the residual connection, a constant and the norm.

He et al. 2024, arXiv:2406.15786, leave whole attention layers out of decoders. The constant is what the sublayer's output map adds
when it is given zeros, its bias; when successors are solved, it is the mean of what that map gives on texts. It is one vector for
all tokens: nothing moves from token to token any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plankwise.core.plan import Slot
from plankwise.parts import Importance, Load, PartOptions, Runs, Span, donors
from plankwise.parts._sublayers import as_precise, find_attention
from plankwise.parts._units import matrix

if TYPE_CHECKING:
    import torch
    from torch import nn

    from plankwise.parts._sublayers_attention import NoAttention

REPLACES = "module"
SOLVED = False


class Options(PartOptions):
    pass


def build(spans: list[Span], options: Options) -> list[nn.Module]:
    """One sublayer a span, (B, T, D) to (B, T, D).

    Raises:
        PlanError: the module is not an attention sublayer whose output map is found.
    """
    from plankwise.parts._sublayers_attention import NoAttention

    built: list[nn.Module] = []
    for span in spans:
        found = find_attention(span)
        width = matrix(span.module, found.output).shape[1]
        built.append(as_precise(span, NoAttention(span.module, found, width)))
    return built


def start(
    model: nn.Module, slots: list[Slot], successors: list[NoAttention], *, init: str, seed: int, load: Load
) -> None:
    """Gives each the constant and the norm of the sublayer that `init` names; the model is only read."""
    from plankwise.parts._sublayers_modules import draw

    for index, (successor, (sublayer, *_)) in enumerate(zip(successors, donors(model, slots, init, load), strict=True)):
        draw(successor, seed + index)
        if init != "random":
            successor.fill(sublayer)


def choose(successor: NoAttention, donor: nn.Module, runs: Runs, importance: Importance) -> dict[str, torch.Tensor]:
    """Sets the constant to the mean of what the donor's output map gives on texts."""
    successor.fill(donor)
    total: Any = 0.0
    count: Any = 0.0
    given: list[torch.Tensor] = []
    handle = donor.get_submodule(successor.found.output).register_forward_hook(
        lambda _, args, output: given.append(output)
    )
    try:
        for weights in runs():
            state = given.pop().float()
            often = (
                state.new_ones(state.shape[:-1]) if weights is None or weights.shape != state.shape[:-1] else weights
            )
            total = total + (state * often[..., None]).flatten(0, -2).sum(0)
            count = count + often.sum()
    finally:
        handle.remove()
    successor.bias.copy_(total / count)
    return {}
