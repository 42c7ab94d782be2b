"""Thin blocks: one block of the predecessor's own kind for each span, with fewer heads and fewer feed-forward channels.

Heads and channels are really gone: the matrices are smaller. Where no texts are at hand, what is kept is chosen by weights alone.
When successors are solved it is chosen by what units give on texts, and the maps behind them are solved for what is left (Kwon et
al. 2022, arXiv:2204.09656, and ZipLM, arXiv:2302.04089, solve them the same way).

Channels count by the norm of their row in that map times the root of their second moment on the texts: what each adds to a sum
that is solved again. Heads are few, and the others do not give what one gives: they count by how much the answers depend on them,
token by token, as in Michel et al. 2019 (arXiv:1905.10650). In place of the loss, which needs labels, stands the sum of the
predecessor's own answers, each times 1 or -1 by chance. On film reviews, half the heads chosen so left 0.011 nats of divergence
after solving; chosen by the norm of what they add, 0.013.
"""

from __future__ import annotations

import copy
import functools
from typing import TYPE_CHECKING, Any

from pydantic import Field

from plankwise.core.plan import Slot
from plankwise.errors import PlanError
from plankwise.parts import STARTS, Importance, Load, PartOptions, Runs, Span, donors, layers
from plankwise.parts._amounts import Amount, number_kept
from plankwise.parts._units import SHARED_BIAS, Found, Units, find_units, keep_units, matrix, weigh_units

if TYPE_CHECKING:
    import torch
    from torch import nn

REPLACES = "blocks"
# About two thirds, a third and a sixth of a block's multiply-adds.
CANDIDATES = [{"ffn": 0.5}, {"ffn": 0.25, "heads": 0.5}, {"ffn": 0.125, "heads": 0.25}]
# From the lowest block, which stays as it is, to the highest: half of the multiply-adds of six blocks, or of twelve.
TAPER: list[dict[str, float] | None] = [
    None,
    {"ffn": 0.5, "heads": 1.0},
    {"ffn": 0.25, "heads": 1.0},
    *[{"ffn": 0.125, "heads": 0.5}] * 3,
]
WIDTH_KEYS = ("intermediate_size", "hidden_dim", "n_inner", "d_ff", "encoder_ffn_dim", "decoder_ffn_dim", "ffn_dim")


class Options(PartOptions):
    ffn: Amount = Field(0.5, description="feed-forward channels kept: a share up to 1, a number above")
    heads: Amount = Field(1.0, description="attention heads kept: a share up to 1, a number above")


def build(spans: list[Span], options: Options) -> list[nn.Module]:
    """One block a span, of the class of the one that stands first in it, with the first of its heads and channels.

    Raises:
        PlanError: the block's heads or channels are not found, or it has fewer than are to be kept.
    """
    return [_build(span, options) for span in spans]


def _build(span: Span, options: Options) -> nn.Module:
    import torch

    block = copy.deepcopy(span.module)
    device = next(block.parameters()).device
    for units, count in _wanted(span, find_units(block), options):
        keep_units(block, units, torch.arange(count, device=device))
    return block


def _wanted(span: Span, found: Found, options: Options) -> list[tuple[Units, int]]:
    """What is thinned, and how many of each stay."""
    chosen: list[tuple[Units, int]] = []
    name = f"slot {span.slot} holds a {type(span.module).__name__}"
    for key, reason in (("heads", found.no_heads), ("ffn", found.no_ffn)):
        value = getattr(options, key)
        if value == 1:
            continue
        if reason or (key == "heads" and hasattr(span.config, SHARED_BIAS)):
            why = reason or "each head's bias for relative positions is made outside of the block, for all blocks alike"
            raise PlanError(
                f"plan.options.{key} is {value:g}, but {name}, whose {key} cannot be taken out: {why}; "
                f"give {key} = 1.0, which keeps them all"
            )
        for units in found.heads if key == "heads" else [found.ffn]:
            assert units is not None
            count = number_kept(value, units.count)
            if count > units.count:
                raise PlanError(
                    f"plan.options.{key} is {value:g}, but {name} with {units.count} of them in {units.owner or 'it'}; "
                    f"give a share up to 1, or a number up to {units.count}"
                )
            chosen.append((units, count))
    return chosen


def start(
    model: nn.Module, slots: list[Slot], successors: list[nn.Module], *, init: str, seed: int, load: Load
) -> None:
    """Fills the blocks with the weightiest heads and channels of blocks that start as `init` says; the model is only read.

    Blocks of a checkpoint that are as thin already are taken as they are.

    Raises:
        PlanError: `init` is neither a rule nor a checkpoint that fits.
    """
    load = functools.cache(load)
    if init not in STARTS:
        given = donors(model, slots, init, load)
        if all(_shapes(own) == _shapes(donor) for own, (donor,) in zip(successors, given, strict=True)):
            layers.start(model, slots, successors, init=init, seed=seed, load=load)
            return
    whole: list[nn.Module] = [copy.deepcopy(model.get_submodule(slot.places[0])) for slot in slots]
    layers.start(model, slots, whole, init=init, seed=seed, load=load)
    for successor, block in zip(successors, whole, strict=True):
        _fill(successor, block, {units.output: weigh_units(block, units) for units, _ in _thinned(block, successor)})


def _shapes(block: nn.Module) -> dict[str, torch.Size]:
    return {name: value.shape for name, value in block.state_dict().items()}


def _units(block: nn.Module) -> list[Units]:
    found = find_units(block)
    return [*found.heads, *([found.ffn] if found.ffn is not None else [])]


def _fill(successor: nn.Module, block: nn.Module, scores: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Gives a successor the best units of a block, which loses the others; gives the rows that maps keep, by path."""
    rows: dict[str, torch.Tensor] = {}
    for units, count in _thinned(block, successor):
        best = scores[units.output].topk(count).indices.sort().values
        rows |= keep_units(block, units, best.to(next(block.parameters()).device))
    given = block.state_dict()
    for name, value in successor.state_dict().items():
        if name in given:  # what only the first block of a chain has stays that block's
            value.copy_(given[name])
    return rows


def _thinned(block: nn.Module, successor: nn.Module) -> list[tuple[Units, int]]:
    """The units of a block of which its successor has fewer, and how many."""
    pairs = [(units, len(matrix(successor, units.output)) // units.size) for units in _units(block)]
    return [(units, count) for units, count in pairs if count < units.count]


def choose(successor: nn.Module, donor: nn.Module, runs: Runs, importance: Importance) -> dict[str, torch.Tensor]:
    """Fills a successor with the channels of its donor that give the most on texts, and the heads that answers depend on most."""
    thinned = [units for units, _ in _thinned(donor, successor)]
    heads = {units.output: units.count for units in thinned if units in find_units(donor).heads}
    scores = importance(heads) if heads else {}
    sums = {units.output: _Contribution(donor, units) for units in thinned if units.output not in heads}
    handles = [donor.get_submodule(path).register_forward_pre_hook(one.note) for path, one in sums.items()]
    try:
        for weights in runs() if sums else ():
            for one in sums.values():
                one.add(weights)
    finally:
        for handle in handles:
            handle.remove()
    scores |= {path: one.scores() for path, one in sums.items()}
    return _fill(successor, copy.deepcopy(donor), scores)


class _Contribution:
    """What channels add to the sum that the map behind them gives: the norms of its rows, and the features' second moments."""

    def __init__(self, block: nn.Module, units: Units) -> None:
        self.weight = matrix(block, units.output)
        self.moments = self.weight.new_zeros(units.count)
        self.features: Any = None

    def note(self, _: nn.Module, args: Any) -> None:
        self.features = args[0].detach()

    def add(self, weights: torch.Tensor | None) -> None:
        """Takes in the latest run; weights (B, T) say how often a token counts."""
        squares = self.features.square()
        if weights is not None and weights.shape == squares.shape[:-1]:
            squares = squares * weights[..., None]
        self.moments += squares.flatten(0, -2).sum(0)

    def scores(self) -> torch.Tensor:
        return self.weight.norm(dim=1) * self.moments.sqrt()


def configure(config: Any, block: nn.Module, options: Options) -> bool:
    """Writes into a family's config how wide thinner feed-forward networks are; False if the config has no entry for it."""
    units = find_units(block).ffn
    if units is None or options.heads != 1:
        return False
    wide = units.count
    # None is GPT-2's way to say four times the states' width.
    keys = [key for key in WIDTH_KEYS if getattr(config, key, 0) in (wide, None)]
    for key in keys:
        setattr(config, key, number_kept(options.ffn, wide))
    return bool(keys)
