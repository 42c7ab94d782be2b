"""Blocks that several slots share: one block of the predecessor's own kind for each group of slots, run once for each of them.

ALBERT (Lan et al. 2020, arXiv:1909.11942): of L slots and G groups, slot l is in group floor(l·G/L). Sharing makes a model smaller,
not faster. A group's block starts as one block would that replaced all blocks of the group: `lower` is the lowest of them, `mean`
their mean. One group for each slot is the part `layers`.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from pydantic import Field

from plankwise.core.plan import Slot
from plankwise.errors import PlanError
from plankwise.parts import Load, PartOptions, Span, layers
from plankwise.parts._blocks import is_causal

if TYPE_CHECKING:
    from torch import nn

REPLACES = "blocks"


class Options(PartOptions):
    groups: int = Field(
        1, ge=1, description="blocks that are shared out among the slots of each chain; 1: all share one"
    )


def build(spans: list[Span], options: Options) -> list[nn.Module]:
    """For each span the block of its group, the same object for all spans of one group.

    Raises:
        PlanError: there are more groups than slots, blocks of one group differ in shape, or they keep a cache.
    """
    built: dict[tuple[str, int], tuple[Span, nn.Module]] = {}
    found: list[nn.Module] = []
    for span, group in zip(spans, _groups([span.slot for span in spans], options.groups), strict=True):
        first, block = built.setdefault(group, (span, copy.deepcopy(span.module)))
        if first is not span:
            _check_pair(first, span)
        found.append(block)
    return found


def _groups(slots: list[Slot], num_groups: int) -> list[tuple[str, int]]:
    """The group of each slot: its chain, and a number there."""
    chains: dict[str, list[Slot]] = {}
    for slot in slots:
        chains.setdefault(slot.path, []).append(slot)
    for path, own in chains.items():
        if num_groups > len(own):
            raise PlanError(
                f"plan.options.groups is {num_groups}, but {path} has {len(own)} slots of part 'shared'; "
                f"give a number up to {len(own)}"
            )
    return [(slot.path, chains[slot.path].index(slot) * num_groups // len(chains[slot.path])) for slot in slots]


def _check_pair(first: Span, other: Span) -> None:
    if is_causal(first):
        raise PlanError(
            f"slots {first.slot} and {other.slot} are to share a block, but those of a decoder keep keys and values in a cache, "
            "each in a place of its own; give plan.options.groups as many groups as there are slots, or choose the part layers"
        )
    one, two = (
        {name: tuple(value.shape) for name, value in span.module.state_dict().items()} for span in (first, other)
    )
    names = [name for name in one.keys() & two.keys() if one[name] != two[name]]
    if names:
        raise PlanError(
            f"slots {first.slot} and {other.slot} are to share a block, but {names[0]} is {one[names[0]]} in one and "
            f"{two[names[0]]} in the other; give more plan.options.groups, or choose the part layers"
        )


def start(
    model: nn.Module, slots: list[Slot], successors: list[nn.Module], *, init: str, seed: int, load: Load
) -> None:
    """Fills each group's block as `init` says of one slot that has all the group's spans; the model is only read.

    Raises:
        PlanError: `init` is neither a rule nor a checkpoint that fits.
    """
    groups: dict[int, tuple[nn.Module, list[Slot]]] = {}
    for slot, block in zip(slots, successors, strict=True):
        groups.setdefault(id(block), (block, []))[1].append(slot)
    whole = [
        Slot(own[0].path, tuple(index for slot in own for index in slot.span), own[0].part, own[0].options)
        for _, own in groups.values()
    ]
    layers.start(model, whole, [block for block, _ in groups.values()], init=init, seed=seed, load=load)
