"""A linear map through a narrow middle: two maps in place of one, started from its singular value decomposition.

W ≈ U_r S_r V_rᵀ with the `rank` largest singular values, each side with the root of S; the bias is kept. No config of a family
describes it.
"""

import torch
from pydantic import Field
from torch import nn

from plankwise.core.plan import Slot
from plankwise.errors import PlanError
from plankwise.parts import Load, PartOptions, Span, donors

REPLACES = "linear"


class Options(PartOptions):
    rank: int = Field(4, ge=1, description="width of the middle")


class ThinLinear(nn.Module):
    """(…, in) to (…, rank) to (…, out)."""

    def __init__(self, like: nn.Linear, rank: int) -> None:
        super().__init__()
        self.inner = nn.Linear(like.in_features, rank, bias=False)
        self.outer = nn.Linear(rank, like.out_features, bias=like.bias is not None)

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        return self.outer(self.inner(state))


def build(spans: list[Span], options: Options) -> list[nn.Module]:
    """One pair of maps a span.

    Raises:
        PlanError: the middle would be wider than the map.
    """
    for span in spans:
        most = min(span.module.in_features, span.module.out_features)
        if options.rank > most:
            raise PlanError(f"plan.options.rank is {options.rank}, but {span.slot} has rank {most}; choose 1 to {most}")
    return [ThinLinear(span.module, options.rank) for span in spans]


@torch.no_grad()
def start(
    model: nn.Module, slots: list[Slot], successors: list[nn.Module], *, init: str, seed: int, load: Load
) -> None:
    for index, (successor, (linear, *_)) in enumerate(zip(successors, donors(model, slots, init, load), strict=True)):
        if init == "random":
            with torch.random.fork_rng():
                torch.manual_seed(seed + index)
                successor.inner.reset_parameters()
                successor.outer.reset_parameters()
            continue
        left, values, right = torch.linalg.svd(linear.weight, full_matrices=False)
        rank = successor.inner.out_features
        successor.inner.weight.copy_(values[:rank].sqrt()[:, None] * right[:rank])
        successor.outer.weight.copy_(left[:, :rank] * values[:rank].sqrt())
        if linear.bias is not None:
            successor.outer.bias.copy_(linear.bias)
