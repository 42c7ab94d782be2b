"""The last linear map of a model's head, which gives its answers: found by running the model, so that no family need be listed."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from plankwise.errors import PlanError


def find_last_map(model: nn.Module, inputs: Mapping[str, Any]) -> str:
    """The path of the linear map that makes a model's logits (B, C) of one vector a text, (B, D); the model is in eval mode.

    Raises:
        PlanError: no module does.
    """
    linear = {path: module for path, module in model.named_modules() if isinstance(module, nn.Linear)}
    given: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}

    def note(path: str) -> Any:
        return lambda module, args, output: given.update({path: (args[0], output)})

    handles = [module.register_forward_hook(note(path)) for path, module in linear.items()]
    try:
        with torch.no_grad():
            logits = model(**inputs).logits
    finally:
        for handle in handles:
            handle.remove()
    found = [
        path
        for path, (vectors, output) in given.items()
        if vectors.dim() == 2 and output.shape == logits.shape and torch.equal(output.float(), logits.float())
    ]
    if not found:
        raise PlanError(
            f"plan.solving.head is 'labels', but in {type(model).__name__} no linear map makes the answers of one vector a text, "
            "so that there is no head to solve; leave it at 'kept'"
        )
    return found[-1]


@contextmanager
def vectors_given_to(module: nn.Module) -> Iterator[list[torch.Tensor]]:
    """While open, holds what the module was given in the model's latest forward pass."""
    given: list[torch.Tensor] = []
    handle = module.register_forward_pre_hook(lambda _, args: given.__setitem__(slice(None), [args[0]]))
    try:
        yield given
    finally:
        handle.remove()
