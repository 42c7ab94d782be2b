"""Layers of the predecessor's own kind: one block for each span, started from the predecessor's weights.

Where a start names several blocks, their weights are averaged. The structure is always that of the span's first block (its
attention type, its place in a cache), whatever its weights come from.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from plankwise.core.plan import Slot
from plankwise.errors import PlanError
from plankwise.parts import Load, PartOptions, Span, donors

if TYPE_CHECKING:
    from torch import nn

REPLACES = "any"
CANDIDATES: list[dict[str, Any]] = [{}]


class Options(PartOptions):
    pass


def build(spans: list[Span], options: Options) -> list[nn.Module]:
    """One block a span, of the class and shape of the block that stands first in it."""
    return [copy.deepcopy(span.module) for span in spans]


def start(
    model: nn.Module, slots: list[Slot], successors: list[nn.Module], *, init: str, seed: int, load: Load
) -> None:
    """Fills the blocks as `init` says; the model is only read.

    Raises:
        PlanError: `init` is neither a rule nor a checkpoint that fits.
    """
    for index, (slot, block, found) in enumerate(zip(slots, successors, donors(model, slots, init, load), strict=True)):
        if init == "random":
            _initialise(model, block, seed + index)
        else:
            _copy(slot, block, found, init)


def _copy(slot: Slot, block: nn.Module, given: list[nn.Module], init: str) -> None:
    import torch

    states = [donor.state_dict() for donor in given]
    for name, value in block.state_dict().items():
        found = [state[name] for state in states if name in state]
        if not found:
            continue  # what only the first block of a chain has (T5's relative positions) stays that block's
        if any(item.shape != value.shape for item in found):
            raise PlanError(
                f"plan.init is {init!r}, but {name} is {tuple(found[0].shape)} there and {tuple(value.shape)} in slot {slot}; "
                "choose lower, random, or a checkpoint of the same width"
            )
        mean = torch.stack(found).mean(0) if len(found) > 1 and value.is_floating_point() else found[0]
        value.copy_(mean)


def _initialise(model: nn.Module, block: nn.Module, seed: int) -> None:
    import torch
    from torch import nn

    # New tensors: transformers marks loaded ones and would leave them as they are.
    for module in block.modules():
        for name, parameter in module.named_parameters(recurse=False):
            setattr(module, name, nn.Parameter(torch.empty_like(parameter)))
    rule: Any = getattr(model, "_init_weights", None)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for module in block.modules():
            if rule is not None:
                rule(module)
            elif callable(reset := getattr(module, "reset_parameters", None)):
                reset()
