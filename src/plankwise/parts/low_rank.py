"""Low rank: a linear map as two narrow ones, W ≈ U·(UᵀW), with `rank` numbers between them.

U holds the leading left singular vectors of W: no other map of that rank is nearer to W (Eckart and Young 1936). When successors
are solved, U holds the directions in which what W gives varies most on texts, the leading left singular vectors of W·C^½ for inputs
of covariance C (Chen et al. 2021, DRONE; ASVD, arXiv:2312.05821, scales by activations, too); then the second map is solved by
least squares. U is orthonormal, so that both maps start with weights of about the size that W's have.

Worth it below rank in·out / (in + out) only: above, the two maps have more weights than the one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from plankwise.core.plan import Slot
from plankwise.parts import Importance, Load, PartOptions, Runs, Span, donors
from plankwise.parts._amounts import Amount
from plankwise.parts._sublayers import as_precise, count
from plankwise.parts._units import matrix

if TYPE_CHECKING:
    import torch
    from torch import nn

    from plankwise.parts._sublayers_modules import LowRank

REPLACES = "map"


class Options(PartOptions):
    rank: Amount = Field(
        0.25, gt=0, description="numbers between the maps: a share of the map's narrower side up to 1, a number above"
    )


def build(spans: list[Span], options: Options) -> list[nn.Module]:
    """One pair of maps a span, (…, in) to (…, rank) to (…, out); a bias if the map has one.

    Raises:
        PlanError: the map has not so many inputs or outputs.
    """
    from plankwise.parts._sublayers_modules import LowRank

    built: list[nn.Module] = []
    for span in spans:
        inputs, outputs = matrix(span.module, "").shape
        rank = count(span, "rank", options.rank, min(inputs, outputs))
        built.append(as_precise(span, LowRank(inputs, outputs, rank, bias=span.module.bias is not None)))
    return built


def start(model: nn.Module, slots: list[Slot], successors: list[LowRank], *, init: str, seed: int, load: Load) -> None:
    """Fills each pair with the truncated singular value decomposition of the map that `init` names; the model is only read."""
    from plankwise.parts._sublayers_modules import draw, leading

    given: Any = donors(model, slots, init, load)
    for index, (pair, (linear, *_)) in enumerate(zip(successors, given, strict=True)):
        if init == "random":
            draw(pair, seed + index)
        else:
            weight = matrix(linear, "").T
            pair.fill(weight, linear.bias, leading(weight, pair.inner.out_features))


def choose(successor: LowRank, donor: nn.Linear, runs: Runs, importance: Importance) -> dict[str, torch.Tensor]:
    """Fills a pair with what its donor gives in the directions in which that varies most on texts."""
    from plankwise.parts._sublayers_modules import Moments

    weight = matrix(donor, "").T
    moments = Moments(weight, centred=donor.bias is not None)
    handle = donor.register_forward_hook(moments.note)
    try:
        for weights in runs():
            moments.add(weights)
    finally:
        handle.remove()
    successor.fill(weight, donor.bias, moments.directions(successor.inner.out_features))
    return {}
