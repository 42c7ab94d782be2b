"""Takes the predecessor out: the successor remains, as a model of the predecessor's own class."""

import copy

from torch import nn

from plankwise.core.plan import Plan
from plankwise.core.slot import Place


def collapse(model: nn.Module, plan: Plan) -> nn.Module:
    """A copy of `model` in which each slot's successor stands alone; spans of blocks become one block each.

    Nothing of the replaced modules is copied, and nothing is shared with `model`.
    """
    places = {path: model.get_submodule(path) for slot in plan.slots for path in slot.places}
    memo: dict[int, object] = {id(place.block): None for place in places.values()}
    memo[id(vars(model).get("_hybrid_state"))] = None
    successor = copy.deepcopy(model, memo)
    for slot in plan.slots:
        first, *others = slot.places
        place = successor.get_submodule(first)
        assert isinstance(place, Place)
        assert place.successor is not None
        successor.set_submodule(first, place.successor)
        for path in others:
            parent, _, name = path.rpartition(".")
            del successor.get_submodule(parent)._modules[name]
    for path in {slot.path for slot in plan.slots if slot.span}:
        _renumber(successor.get_submodule(path))
    return successor


def _renumber(chain: nn.Module) -> None:
    blocks = list(chain._modules.values())
    chain._modules.clear()
    for index, block in enumerate(blocks):
        chain._modules[str(index)] = block
