"""Taps: the states that flow out of any modules of a model, whatever family it is and whatever ran there."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from plankwise.core.slot import refuse_replica, state_given, state_of


@contextmanager
def tapped(model: nn.Module, paths: Iterable[str], *, before: bool = False) -> Iterator[dict[str, torch.Tensor]]:
    """While open, each forward pass puts the states after the modules at `paths`, or before them, into the mapping."""
    states: dict[str, torch.Tensor] = {}

    def keep(path: str) -> Any:
        def hook(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            refuse_replica(module, "states are read out of the model")
            states[path] = state_given(args, kwargs) if before else state_of(output)

        return hook

    handles = [model.get_submodule(path).register_forward_hook(keep(path), with_kwargs=True) for path in paths]
    try:
        yield states
    finally:
        for handle in handles:
            handle.remove()
        states.clear()
