"""Fixed attention: heads that look at set places of a text instead of learned ones, beside some that stay learned.

Raganato et al. 2020, arXiv:2002.10260: translation encoders with seven fixed heads and a learned one there, trained encoders here.
Token i of n looks at: itself; the one before; the one behind; the larger left context, j ≤ i−2 with weights (j+1)³; the larger
right context, mirrored; the text's end, all j with weights (j+1)³; its start, mirrored; weights are divided by their sum. Fixed
heads have no queries and keys, and keep their values. A block with more than seven fixed heads has patterns twice.

Where the paper leaves it open: a token that a pattern gives nothing to look at (the first has none before it) gets zeros, and
padding is left out before weights are divided. Sums that run along the text take the place of matrices of weights, so that a fixed
head takes T steps for T tokens, not T².

When successors are solved, texts say which head takes which pattern and which stay learned: those pairs are taken that change least
of what the sublayer adds. Then its maps are solved. Without texts, the last heads stay learned.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from pydantic import Field

from plankwise.core.plan import Slot
from plankwise.errors import PlanError
from plankwise.parts import Importance, Load, PartOptions, Runs, Span, donors
from plankwise.parts._sublayers import as_precise

if TYPE_CHECKING:
    import torch
    from torch import nn

REPLACES = "module"
MAPS = {"query", "key", "value"}


class Options(PartOptions):
    learned_heads: int = Field(1, ge=0, description="heads per block that keep learned attention")


def build(spans: list[Span], options: Options) -> list[nn.Module]:
    """One sublayer a span, of the class of the one that stands there, (B, T, D) to (B, T, D), with other heads in it.

    Raises:
        PlanError: the module is not an encoder's attention of BERT's form, or has no more heads than stay learned.
    """
    return [_build(span, options) for span in spans]


def _build(span: Span, options: Options) -> nn.Module:
    from plankwise.parts._sublayers_attention import FixedHeads

    _check(span)
    sublayer: Any = copy.deepcopy(span.module)
    heads = sublayer.self.num_attention_heads
    if options.learned_heads >= heads:
        raise PlanError(
            f"plan.options.learned_heads is {options.learned_heads}, but slot {span.slot} has {heads} heads, and one at least is "
            f"to be fixed; choose 0 to {heads - 1}"
        )
    sublayer.self = FixedHeads(sublayer.self, options.learned_heads)
    return as_precise(span, sublayer)


def _check(span: Span) -> None:
    """Lets an encoder's attention of BERT's form pass: what else a family has there, fixed heads would leave out."""
    module: Any = span.module
    inner, output = getattr(module, "self", None), getattr(module, "output", None)
    own = {name.partition(".")[0] for name, _ in inner.named_parameters()} if inner is not None else set()
    causal = any(getattr(one, name, False) for one in (module, inner) for name in ("is_causal", "is_decoder"))
    if own != MAPS or not hasattr(output, "dense") or causal or getattr(module, "is_cross_attention", False):
        why = "whose tokens may not see later ones" if causal else "which is built otherwise"
        raise PlanError(
            f"plan.part is {span.slot.part!r}, which replaces an encoder's attention of BERT's form (`self` with query, key and "
            f"value alone, and `output`), but slot {span.slot} holds a {type(module).__name__}, {why}; name the attention of a "
            "BERT, RoBERTa or ELECTRA encoder in plan.slots, for example bert.encoder.layer.*.attention, or choose another part"
        )


def start(model: nn.Module, slots: list[Slot], successors: list[Any], *, init: str, seed: int, load: Load) -> None:
    """Fills each with the weights of the sublayer that `init` names, head by head; the model is only read."""
    from plankwise.parts._sublayers_modules import draw

    for index, (successor, (sublayer, *_)) in enumerate(zip(successors, donors(model, slots, init, load), strict=True)):
        if init == "random":
            draw(successor, seed + index)
        else:
            _fill(successor, sublayer, list(range(successor.self.num_attention_heads)))


def _fill(successor: Any, sublayer: Any, heads: list[int]) -> dict[str, torch.Tensor]:
    """Gives each head of a successor the weights of a sublayer's head; gives, by the path of a map, which outputs it has."""
    import torch

    from plankwise.parts._units import Feed, rows_of

    device = sublayer.self.value.weight.device
    whole = Feed("", sublayer.self.attention_head_size)
    places = rows_of(whole, len(heads), torch.tensor(heads, device=device))
    learned = places[len(places) - successor.self.learned * whole.size :]
    rows = {"value": places, "query": learned, "key": learned}
    names = {name: some for name, some in rows.items() if len(some)}
    given = {key: value for key, value in sublayer.state_dict().items() if not key.startswith("self.")}
    given["output.dense.weight"] = given["output.dense.weight"][:, places]
    for name, some in names.items():
        for key, value in getattr(sublayer.self, name).state_dict().items():
            given[f"self.{name}.{key}"] = value[some]
    successor.load_state_dict(given)
    return {f"self.{name}": some for name, some in names.items()}


def choose(successor: Any, donor: Any, runs: Runs, importance: Importance) -> dict[str, torch.Tensor]:
    """Gives each place of a successor the head of its donor that fits there best on texts."""
    from plankwise.parts._sublayers_attention import Misfit

    misfit = Misfit(successor, donor)
    handle = donor.self.register_forward_hook(misfit.note, with_kwargs=True)
    try:
        for weights in runs():
            misfit.add(weights)
    finally:
        handle.remove()
    return _fill(successor, donor, misfit.assign())
