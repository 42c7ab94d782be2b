"""How successors of another kind start: weights drawn by the seed, then what can be taken from the predecessor's blocks."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from plankwise.core.plan import Slot
from plankwise.parts import Load, donors, is_norm
from plankwise.parts._units import find_units, matrix, weigh_units


@torch.no_grad()
def start_blocks(
    model: nn.Module,
    slots: list[Slot],
    successors: list[nn.Module],
    *,
    init: str,
    seed: int,
    load: Load,
    fill: Callable[[Any, nn.Module, nn.Module], None],
) -> None:
    """Draws each successor's weights, and unless they are to stay so has `fill(successor, donor, last)` change them.

    The donor has the weights that `init` means; `last` is the span's last block.

    Raises:
        PlanError: `init` is neither a rule nor a checkpoint that fits.
    """
    given = zip(slots, successors, donors(model, slots, init, load), strict=True)
    for index, (slot, successor, found) in enumerate(given):
        with torch.random.fork_rng():
            torch.manual_seed(seed + index)
            _draw(model, successor)
            if init != "random":
                fill(successor, _mean(found), model.get_submodule(slot.places[-1]))


def _draw(model: nn.Module, successor: nn.Module) -> None:
    """New weights, as torch draws them; those of maps and norms as the family does."""
    rule: Any = getattr(model, "_init_weights", None)
    for module in successor.modules():
        own = dict(module.named_parameters(recurse=False))
        for name, parameter in own.items():  # new tensors: transformers leaves those alone that it has loaded
            setattr(module, name, nn.Parameter(torch.ones_like(parameter)))
        reset: Any = getattr(module, "reset_parameters", None)
        if reset is not None:
            reset()
        if own and rule is not None and (reset is None or is_norm(module) or type(module) is nn.Linear):
            rule(module)


def _mean(blocks: list[nn.Module]) -> nn.Module:
    """A block, or one with the mean weights of several."""
    if len(blocks) == 1:
        return blocks[0]
    block, states = copy.deepcopy(blocks[0]), [one.state_dict() for one in blocks]
    for name, value in block.state_dict().items():
        found = [state[name] for state in states if name in state]
        if value.is_floating_point() and all(one.shape == value.shape for one in found):
            value.copy_(torch.stack(found).mean(0))
    return block


def copy_norms(successor: Any, donor: nn.Module, last: nn.Module) -> None:
    """Gives a successor the norms that its form names: the last one of the span's last block, others of the donor."""
    paths = successor.form.norms
    for name, owner, which in (("norm", last, -1), ("mixing_norm", donor, 0), ("ffn_norm", donor, -1)):
        own = getattr(successor, name, None)
        if own is not None and paths:
            state = owner.get_submodule(paths[which]).state_dict()
            if {key: one.shape for key, one in state.items()} == {
                key: one.shape for key, one in own.state_dict().items()
            }:
                own.load_state_dict(state)


def copy_channels(up: nn.Linear, down: nn.Linear, donor: nn.Module) -> None:
    """Fills two maps with the weightiest channels of a donor's feed-forward network.

    One that is gated is left alone; where the maps have more channels than the donor, the others stay as they are.
    """
    units = find_units(donor).ffn
    if units is None or len(units.feeds) != 1 or units.feeds[0].times != 1:
        return
    feed: Any = donor.get_submodule(units.feeds[0].path)
    output: Any = donor.get_submodule(units.output)
    best = weigh_units(donor, units).topk(min(units.count, up.out_features)).indices.sort().values
    up.weight[: len(best)] = matrix(donor, units.feeds[0].path)[:, best].T
    up.bias[: len(best)] = 0 if feed.bias is None else feed.bias[best]
    down.weight[:, : len(best)] = matrix(donor, units.output)[best].T
    down.bias.copy_(torch.zeros_like(down.bias) if output.bias is None else output.bias)


def find_directions(donor: nn.Module, width: int, count: int) -> torch.Tensor:
    """The orthonormal directions of a state, (count, D), that a donor's maps read the most; at full width the axes themselves.

    They are eigenvectors of the sum of W'W over the maps W that read a state; each sign is such that the largest entry is positive.
    """
    some = next(donor.parameters())
    if count >= width or some.device.type == "meta":
        return torch.eye(count, width, device=some.device, dtype=some.dtype)
    found = find_units(donor)
    paths = [feed.path for units in [*found.heads, *([found.ffn] if found.ffn else [])] for feed in units.feeds]
    reading = [weights for path in dict.fromkeys(paths) if len(weights := matrix(donor, path)) == width]
    if not reading:  # nothing is known of its maps
        reading = [
            matrix(donor, path) for path, one in donor.named_modules() if getattr(one, "in_features", 0) == width
        ]
    total = sum(
        (one.double() @ one.double().T for one in reading),
        torch.zeros(width, width, dtype=torch.double, device=some.device),
    )
    directions = torch.linalg.eigh(total).eigenvectors.flip(1)[:, :count].T
    largest = directions.gather(1, directions.abs().argmax(1, keepdim=True))
    return (directions * largest.sign()).to(some)
