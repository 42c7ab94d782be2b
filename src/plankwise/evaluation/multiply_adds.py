"""Multiply-adds of a forward pass, and the speed-up that they allow."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from plankwise.models.exits import hurried


def _count_recurrent(states: Any, weights: Any, recurrent: Any, *given: Any, **more: Any) -> int:
    """Of a fused recurrent layer, by the shapes of its states (T, B, D) and of its two matrices."""
    return 2 * math.prod(states[:2]) * (math.prod(weights) + math.prod(recurrent))


UNKNOWN = {torch.ops.aten.mkldnn_rnn_layer: _count_recurrent}  # what torch's counter does not count


def count_multiply_adds(model: nn.Module, inputs: Any) -> int:
    """The multiplications, each with its addition, in all matrix products and convolutions of one forward pass.

    Attention counts in full, also where a mask hides half of it. The model is put in eval mode and left there.
    """
    model.eval()
    device = next(model.parameters()).device
    moved = {name: value.to(device) for name, value in inputs.items()}
    # The counter does not know every fused attention kernel (the CPU's for one); the plain one is made of products it knows.
    with (
        _frozen(model),
        sdpa_kernel(SDPBackend.MATH),
        FlopCounterMode(display=False, custom_mapping=UNKNOWN) as counter,
    ):
        model(**moved)
    return counter.get_total_flops() // 2


def count_fewest(model: nn.Module, inputs: Any) -> int:
    """The same of the forward pass that computes least: of a model that texts leave early, all leave as soon as any can."""
    with hurried():
        return count_multiply_adds(model, inputs)


def bound_speedup(modules: Mapping[str, nn.Module], counts: Mapping[str, int], before: str, after: str) -> float | None:
    """The ratio of two models' multiply-adds: more is not to be gained. None where they do not bound the time.

    That is where one has no module or no products, or where the numbers of one are of another type: products of halves are
    faster than as many of floats.
    """
    if not (counts.get(before) and counts.get(after)) or _types(modules[before]) != _types(modules[after]):
        return None
    return counts[before] / counts[after]


def _types(model: nn.Module) -> set[torch.dtype]:
    return {parameter.dtype for parameter in model.parameters()}


@contextmanager
def _frozen(model: nn.Module) -> Iterator[None]:
    """No parameter requires a gradient: under `no_grad` alone the counter stumbles over modules that are given one (DeBERTa)."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        for parameter in trained:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)
