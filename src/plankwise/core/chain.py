"""Finds the chain(s) of blocks in a model: lists whose items are all of one class, outermost first.

Where a list's items are stages, each a chain itself and of another shape than its neighbours (Swin, ResNet), the chains are inside
them. Which blocks change the state's shape is read off their weights, without running the model: see `_shapes`.
"""

import itertools
from dataclasses import dataclass

from torch import nn

from plankwise.core._shapes import are_alike, changing_blocks, num_weight_layers
from plankwise.errors import PlanError
from plankwise.kinds import no_such


@dataclass(frozen=True)
class Chain:
    """A `ModuleList` or `Sequential` of blocks, by its path in the model."""

    path: str
    length: int
    block: str  # the blocks' class name, for messages
    changing: tuple[int, ...] = ()  # blocks after the first that give a state of another shape than they are given
    inside: tuple[str, ...] = ()  # the paths of the chains in its blocks


def find_chains(model: nn.Module, paths: list[str] | None = None) -> list[Chain]:
    """All outermost chains of the model, or those at `paths`, which may lie inside others.

    Raises:
        PlanError: there is none, or a path is not one.
    """
    found = {chain.path: chain for chain in _search(model, "")}
    if paths is None:
        if not found:
            raise PlanError(
                f"{type(model).__name__} has no chain: no list of two or more blocks of one class was found in it; "
                "name the modules to replace in plan.slots"
            )
        return list(found.values())
    modules = dict(model.named_modules())
    for path in paths:
        if path not in found and path in modules and _is_chain(modules[path]):
            found[path] = _describe(modules[path], path)
        if path not in found:
            raise PlanError(f"plan.chains names {path!r}; {no_such(path, found, 'chain in this model')}")
    return [found[path] for path in paths]


def _search(module: nn.Module, path: str) -> list[Chain]:
    if not _is_chain(module) or _are_stages(module):
        return _search_children(module, path)
    return [_describe(module, path)]


def _search_children(module: nn.Module, path: str) -> list[Chain]:
    prefix = f"{path}." if path else ""
    return [chain for name, child in module.named_children() for chain in _search(child, f"{prefix}{name}")]


def _describe(chain: nn.Module, path: str) -> Chain:
    blocks = list(chain.children())
    inside = tuple(inner.path for inner in _search_children(chain, path))
    return Chain(path, len(blocks), type(blocks[0]).__name__, changing_blocks(blocks), inside)


def _is_chain(module: nn.Module) -> bool:
    if not isinstance(module, nn.ModuleList | nn.Sequential):
        return False
    return len(module) >= 2 and len({type(item) for item in module}) == 1 and _is_block(module[0])


def _is_block(module: nn.Module) -> bool:
    """A module made of modules, or a recurrent layer; a list of linear maps or norms is not a chain of blocks."""
    made_of_modules = next(module.children(), None) is not None and not isinstance(module, nn.ModuleList)
    return made_of_modules or isinstance(module, nn.RNNBase)


def _are_stages(items: nn.Module) -> bool:
    """Whether a list's items are stages rather than blocks.

    Each holds a chain, and either a later one changes the state's shape, or all differ from their neighbours and their chains are
    made of more than a convolution with its norm and activation: that is what a ResNet's block is made of.
    """
    stages = list(items.children())
    inner = [_search(stage, "") for stage in stages]
    if not all(inner):
        return False
    if changing_blocks(stages):
        return True
    differ = not any(are_alike(one, other) for one, other in itertools.pairwise(stages))
    firsts = [next(stage.get_submodule(chains[0].path).children()) for stage, chains in zip(stages, inner, strict=True)]
    return differ and all(num_weight_layers(block) > 1 for block in firsts)
