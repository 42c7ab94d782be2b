"""Layers of the predecessor's own kind: one block for each span, started from the predecessor's weights.

Initialisations: `first` copies block k into slot k (Xu et al. 2020); `lower` and `upper` copy the lowest and the highest block
of the span (the thesis); `spread` takes evenly spaced blocks (DistilBERT); `mean` averages the span; `random` starts anew;
anything else is the folder or hub name of a checkpoint. The structure is always that of the span's first block (its attention
type, its place in a cache), whatever its weights come from.
"""

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from plankwise.core.plan import Slot
from plankwise.errors import PlanError
from plankwise.kinds import no_such

RULES = ("first", "lower", "upper", "spread", "mean", "random")


def build(model: nn.Module, slots: list[Slot], *, init: str, seed: int) -> list[nn.Module]:
    """One block per slot, shaped like the first block of its span; the model is only read.

    Raises:
        PlanError: `init` is neither a rule nor a checkpoint that fits.
    """
    donors = _donors(model, slots, init)
    return [_block(model, slot, init, seed + index, next(donors)) for index, slot in enumerate(slots)]


def _block(model: nn.Module, slot: Slot, init: str, seed: int, donors: list[nn.Module]) -> nn.Module:
    block = copy.deepcopy(model.get_submodule(slot.places[0]))
    if init == "random":
        _initialise(model, block, seed)
        return block
    own = block.state_dict()
    for name, value in own.items():
        found = [state[name] for state in (donor.state_dict() for donor in donors) if name in state]
        if not found:
            continue  # what only the first block of a chain has (T5's relative positions) stays that block's
        if any(item.shape != value.shape for item in found):
            raise PlanError(
                f"plan.init is {init!r}, but {name} is {tuple(found[0].shape)} there and {tuple(value.shape)} in slot {slot}; "
                "choose lower, random, or a checkpoint of the same width"
            )
        mean = torch.stack(found).mean(0) if len(found) > 1 and value.is_floating_point() else found[0]
        value.copy_(mean)
    return block


def _donors(model: nn.Module, slots: list[Slot], init: str) -> Iterator[list[nn.Module]]:
    """For each slot, the blocks whose weights its successor starts from."""
    chains: dict[str, list[Slot]] = {}
    for slot in slots:
        chains.setdefault(slot.path, []).append(slot)
    other = None if init in RULES else _load_checkpoint(model, init)
    for slot in slots:
        if not slot.span:
            yield [(other or model).get_submodule(slot.path)]
            continue
        index = chains[slot.path].index(slot)
        blocks = list(model.get_submodule(slot.path))  # type: ignore[call-overload]
        if other is not None:
            yield [_checkpoint_block(other, slot, index, len(chains[slot.path]), len(blocks), init)]
        elif init == "mean":
            yield [blocks[i] for i in slot.span]
        else:
            last = max(1, len(chains[slot.path]) - 1)
            chosen = {
                "first": index,
                "lower": slot.span[0],
                "upper": slot.span[-1],
                "spread": round(index * (len(blocks) - 1) / last),
                "random": slot.span[0],
            }
            yield [blocks[chosen[init]]]


def _load_checkpoint(model: nn.Module, init: str) -> nn.Module:
    try:
        return type(model).from_pretrained(init, use_safetensors=True)  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError) as error:
        raise PlanError(
            f"plan.init is {init!r}; {no_such(init, RULES, 'initialisation')}, or the folder or hub name of a checkpoint, "
            "and none could be loaded from there"
        ) from error


def _checkpoint_block(other: nn.Module, slot: Slot, index: int, count: int, length: int, init: str) -> nn.Module:
    blocks = list(other.get_submodule(slot.path))  # type: ignore[call-overload]
    if len(blocks) not in (count, length):
        raise PlanError(
            f"plan.init is {init!r}, whose {slot.path} has {len(blocks)} blocks; it needs {count}, one for each "
            f"successor, or {length}, as many as the predecessor"
        )
    return blocks[index if len(blocks) == count else slot.span[0]]


def _initialise(model: nn.Module, block: nn.Module, seed: int) -> None:
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
