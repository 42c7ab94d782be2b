"""DeFINE: embeddings that a deep network makes of narrow ones: map, expand, reduce, with linear layers in groups.

Mehta et al. 2020, arXiv:1911.12385. Rows of width n are widened by N layers to width k, linearly; layer l has max(⌊g/2^(l-1)⌋, 1)
groups, reads what the layer before it gives with the narrow row beside it, group by group, and ends in a norm and GELU; a linear
map reduces all to the states' width. Here the last map reads the narrow row, too, so that the start is at least as near to the
trained table as its truncated singular value decomposition of rank n: the last map is solved on all tokens for what that misses.

What comes out depends on the token alone. With `cached` it is written into a plain table at collapse, as fast and as large as the
one before: then DeFINE is a way of training a table, not of shrinking one. Without, the network stays: V·n weights and those of the
layers, which are computed for each token of a text.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pydantic import Field

from plankwise.core.plan import Slot
from plankwise.parts import Load, PartOptions, Span, donors
from plankwise.parts._amounts import Amount
from plankwise.parts._sublayers import as_precise, count, refuse_tied, table_in

if TYPE_CHECKING:
    from torch import nn

    from plankwise.parts._sublayers_define import Define

REPLACES = "embedding"
SOLVED = False


class Options(PartOptions):
    width: Amount = Field(
        0.25,
        gt=0,
        description="of the narrow rows: a share of the states' width up to 1, a number above; rounded up to whole groups",
    )
    expand: float = Field(2.0, gt=0, description="width of the widest layer, in widths of the states")
    depth: int = Field(3, ge=1, description="layers that expand")
    groups: int = Field(4, ge=1, description="of the first layer; each next one has half as many, down to one")
    cached: bool = Field(
        True, description="write what comes out into a plain table at collapse; false: keep the network"
    )


def build(spans: list[Span], options: Options) -> list[nn.Module]:
    """One network a span, token ids (…) to states (…, D).

    Raises:
        PlanError: the rows would be wider than before, or the module does more than look up rows.
    """
    return [_build(span, options) for span in spans]


def _build(span: Span, options: Options) -> nn.Module:
    from plankwise.parts._sublayers_define import Define

    like = table_in(span)
    rows, states = like.weight.shape
    groups = [max(options.groups >> place, 1) for place in range(options.depth)]
    unit = math.lcm(*groups)  # each layer divides what it reads and what it gives

    def divisible(width: float) -> int:
        return math.ceil(width / unit) * unit

    narrow = divisible(count(span, "width", options.width, states))
    widest = max(narrow, round(options.expand * states))
    steps = [(widest - narrow) * (place + 1) / options.depth for place in range(options.depth)]
    widths = [divisible(narrow + step) for step in steps]
    network = Define(rows, narrow, widths, groups, states, like.padding_idx, cached=options.cached)
    return as_precise(span, network)


def start(model: nn.Module, slots: list[Slot], successors: list[Define], *, init: str, seed: int, load: Load) -> None:
    """Draws the layers by the seed; unless `init` is random, solves the last map for the table that it names.

    Raises:
        PlanError: another module shares the table.
    """
    from plankwise.parts._sublayers_modules import draw

    refuse_tied(model, slots)
    given: Any = donors(model, slots, init, load)
    for index, (successor, (table, *_)) in enumerate(zip(successors, given, strict=True)):
        draw(successor, seed + index)
        if init != "random":
            successor.fill(table.weight)


def finish(successor: Define, options: Options) -> nn.Module | None:
    """The plain table (V, D) of what the network gives; None if the network stays."""
    from torch import nn

    if not options.cached:
        return None
    table = successor.tabulate()
    return nn.Embedding.from_pretrained(table, freeze=False, padding_idx=successor.map.padding_idx)
