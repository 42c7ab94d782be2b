"""What the parts for sublayers and embeddings share before torch is needed: how much there is to keep, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plankwise.core.plan import Slot
from plankwise.errors import PlanError
from plankwise.parts import Span
from plankwise.parts._amounts import number_kept
from plankwise.parts._units import SHARED_BIAS, head_size, is_map

if TYPE_CHECKING:
    from torch import nn


def count(span: Span, key: str, amount: float, most: int) -> int:
    """How many an option means of the `most` that there are in a slot.

    Raises:
        PlanError: it means more.
    """
    found = number_kept(amount, most)
    if found > most:
        raise PlanError(
            f"plan.options.{key} is {amount:g}, but slot {span.slot} holds a {type(span.module).__name__} that allows {most} at "
            f"most; give a share up to 1, or a number up to {most}"
        )
    return found


def table_in(span: Span) -> nn.Embedding:
    """What stands in a slot, if it is an embedding that does nothing but look up rows.

    Raises:
        PlanError: it is a class of the family's own, which may scale or shift what it looks up.
    """
    from torch import nn

    if type(span.module) is not nn.Embedding:
        raise PlanError(
            f"plan.part is {span.slot.part!r}, which replaces a plain torch.nn.Embedding, but slot {span.slot} holds a "
            f"{type(span.module).__name__}, which does more than look up rows; leave it as it is"
        )
    return span.module


def refuse_tied(model: nn.Module, slots: list[Slot]) -> None:
    """Lets embeddings pass whose tables nothing else reads.

    Raises:
        PlanError: a table is also an output layer's, or another embedding's.
    """
    for slot in slots:
        table = model.get_submodule(slot.path).weight
        others = [
            name
            for name, value in model.named_parameters(remove_duplicate=False)
            if value is table and not name.startswith(f"{slot.path}.")
        ]
        if others:
            raise PlanError(
                f"plan.part is {slot.part!r}, but the table of slot {slot} is also {others[0]}, and the two could not stay one; "
                "give a model whose output does not share the table (a classifier, or tie_word_embeddings = false before it was "
                "trained), or shrink both together by plan.vocabulary"
            )


@dataclass(frozen=True)
class Attention:
    """An attention sublayer: what of it is left when its heads are gone, by paths in it."""

    output: str  # the map behind the heads
    norm: str | None  # of its sum with the state, where both are inside
    layer_idx: int | None  # its place in a cache


def find_attention(span: Span) -> Attention:
    """The parts of an attention sublayer: BERT's, with its residual connection and norm, or one that only gives what is added.

    Raises:
        PlanError: it is built otherwise.
    """
    module: Any = span.module
    inner, output = getattr(module, "self", None), getattr(module, "output", None)
    maps = [name for name, child in module.named_children() if is_map(child)]
    if not hasattr(span.config, SHARED_BIAS):
        if inner is not None and head_size(inner) and hasattr(output, "dense") and hasattr(output, "LayerNorm"):
            return Attention("output.dense", "output.LayerNorm", getattr(inner, "layer_idx", None))
        if head_size(module) and len(maps) in (
            2,
            4,
        ):  # queries, keys and values, in one map or three, and the one behind
            return Attention(maps[-1], None, getattr(module, "layer_idx", None))
    raise PlanError(
        f"plan.part is {span.slot.part!r}, but slot {span.slot} holds a {type(module).__name__}, which is not an attention "
        "sublayer that it knows: one with `self` and `output`, as BERT's attention, or one that holds its maps itself, as GPT-2's "
        "attn and Llama's self_attn, and shares no bias with other blocks; name such modules in plan.slots, or choose another part"
    )


def as_precise(span: Span, module: nn.Module) -> nn.Module:
    """A new module in the precision of the one that it is to replace."""
    return module.to(next(span.module.parameters()).dtype)
