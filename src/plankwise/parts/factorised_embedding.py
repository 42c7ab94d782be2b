"""A factorised embedding: a narrow table and one linear map for all tokens, V·E + E·D weights in place of V·D.

ALBERT, Lan et al. 2020, arXiv:1909.11942, whose models are trained with it from the beginning (E = 128). Here it starts from the
truncated singular value decomposition of the trained table: no other table of that rank is nearer to it. It needs no texts and is
not solved. A row for padding gets no gradient, as before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from plankwise.core.plan import Slot
from plankwise.parts import Load, PartOptions, Span, donors
from plankwise.parts._amounts import Amount
from plankwise.parts._sublayers import as_precise, count, refuse_tied, table_in

if TYPE_CHECKING:
    from torch import nn

    from plankwise.parts._sublayers_modules import FactorisedEmbedding

REPLACES = "embedding"
SOLVED = False


class Options(PartOptions):
    width: Amount = Field(
        0.5, gt=0, description="of the narrow table: a share of the states' width up to 1, a number above"
    )


def build(spans: list[Span], options: Options) -> list[nn.Module]:
    """One narrow table with its map a span, token ids (…) to states (…, D).

    Raises:
        PlanError: the table would be wider than before, or the module does more than look up rows.
    """
    from plankwise.parts._sublayers_modules import FactorisedEmbedding

    built: list[nn.Module] = []
    for span in spans:
        like = table_in(span)
        rows, width = like.weight.shape
        narrow = count(span, "width", options.width, width)
        built.append(as_precise(span, FactorisedEmbedding(rows, narrow, width, like.padding_idx)))
    return built


def start(
    model: nn.Module, slots: list[Slot], successors: list[FactorisedEmbedding], *, init: str, seed: int, load: Load
) -> None:
    """Fills each with the truncated singular value decomposition of the table that `init` names; the model is only read.

    Raises:
        PlanError: another module shares the table.
    """
    from plankwise.parts._sublayers_modules import draw

    refuse_tied(model, slots)
    given: Any = donors(model, slots, init, load)
    for index, (successor, (table, *_)) in enumerate(zip(successors, given, strict=True)):
        if init == "random":
            draw(successor, seed + index)
        else:
            successor.fill(table.weight)
