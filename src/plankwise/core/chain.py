"""Finds the chain(s) of blocks in a model: lists whose items are all of one class, outermost first."""

from dataclasses import dataclass

from torch import nn

from plankwise.errors import PlanError
from plankwise.kinds import no_such


@dataclass(frozen=True)
class Chain:
    """A `ModuleList` or `Sequential` of blocks, by its path in the model."""

    path: str
    length: int
    block: str  # the blocks' class name, for messages


def find_chains(model: nn.Module, paths: list[str] | None = None) -> list[Chain]:
    """All chains of the model, or those at `paths`.

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
    for path in paths:
        if path not in found:
            raise PlanError(f"plan.chains names {path!r}; {no_such(path, found, 'chain in this model')}")
    return [found[path] for path in paths]


def _search(module: nn.Module, path: str) -> list[Chain]:
    if isinstance(module, nn.ModuleList | nn.Sequential) and _is_chain(module):
        return [Chain(path, len(module), type(module[0]).__name__)]
    return [
        chain for name, child in module.named_children() for chain in _search(child, f"{path}.{name}" if path else name)
    ]


def _is_chain(items: nn.ModuleList | nn.Sequential) -> bool:
    return len(items) >= 2 and len({type(item) for item in items}) == 1 and _is_block(items[0])


def _is_block(module: nn.Module) -> bool:
    """A module made of modules, or a recurrent layer; a list of linear maps or norms is no chain of blocks."""
    made_of_modules = next(module.children(), None) is not None and not isinstance(module, nn.ModuleList)
    return made_of_modules or isinstance(module, nn.RNNBase)
