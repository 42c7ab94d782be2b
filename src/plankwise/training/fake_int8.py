"""Int8 as an export has it, in a model that is trained: values are rounded, and gradients pass as if they were not.

Zafrir et al. 2019 (Q8BERT, arXiv:1910.06188), where activations have a range that is averaged over batches. Here it is what ONNX
Runtime does with a graph of `export/onnx.py` in dynamic int8:

    weights of linear layers    integers from -127 to 127, in the safe range -64 to 64, a scale for each output
    what those layers are given integers from 0 to 255 over the range of the tensor at hand, in which 0 always lies
    rows of embedding tables    integers from -127 to 127, a scale for each row

Biases, softmax, LayerNorm and activation functions stay as they are.
"""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers.pytorch_utils import Conv1D

WHOLE_RANGE, SAFE_RANGE = 127, 64  # the largest integer that a weight becomes
LARGEST_INPUT = 255


@contextmanager
def fake_int8(model: nn.Module, *, safe_range: bool) -> Iterator[None]:
    """While open, the model computes as its export in int8 will, in float32 and with gradients; its weights are not rounded.

    Linear layers and embeddings that have a forward pass of another kind than torch's or transformers' are left as they are.
    """
    before: list[tuple[Any, Any]] = [(module, type(module)) for module in model.modules() if _is_rounded(module)]
    largest = SAFE_RANGE if safe_range else WHOLE_RANGE
    matrices = {id(module.weight) for module, _ in before if not isinstance(module, nn.Embedding)}
    for module, kind in before:
        # A table that is also a layer's matrix is one table in the export, too, with the matrix's range.
        is_table = isinstance(module, nn.Embedding) and id(module.weight) not in matrices
        # By its class, not by hooks or parametrisations: names of weights stay, and so do checkpoints.
        module.__class__ = _rounding(kind, WHOLE_RANGE if is_table else largest)
    try:
        yield
    finally:
        for module, kind in before:
            module.__class__ = kind


def round_channels(values: torch.Tensor, largest: int, axis: int = 0) -> torch.Tensor:
    """Values (N, M) as integers from -largest to largest, times a scale for each index of the axis."""
    scales = values.detach().abs().amax(1 - axis) / largest
    scales = torch.where(scales < torch.finfo(scales.dtype).tiny, 1.0, scales)  # of zeros alone
    zeros = torch.zeros_like(scales, dtype=torch.int32)
    return torch.fake_quantize_per_channel_affine(values, scales, zeros, axis, -largest, largest)


def round_tensor(values: torch.Tensor) -> torch.Tensor:
    """Values of any shape as integers from 0 to 255, less the one that stands for 0, times a scale for all."""
    low, high = torch.aminmax(values.detach())
    low, high = low.clamp(max=0), high.clamp(min=0)
    scale = (high - low) / LARGEST_INPUT
    scale = torch.where(scale == 0, 1.0, scale)  # of zeros alone
    zero = torch.round(-low / scale).clamp(0, LARGEST_INPUT).to(torch.int32)
    return torch.fake_quantize_per_tensor_affine(values, scale, zero, 0, LARGEST_INPUT)


def _is_rounded(module: nn.Module) -> bool:
    if isinstance(module, nn.Embedding):
        return True
    return any(isinstance(module, kind) and type(module).forward is kind.forward for kind in (nn.Linear, Conv1D))


@functools.cache
def _rounding(kind: Any, largest: int) -> type[nn.Module]:
    """The class with a forward pass that rounds."""

    def look_up(self: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        # Each row has a scale of its own, so that those that are looked up can be rounded instead of the whole table.
        rows = kind.forward(self, *args, **kwargs)
        return round_channels(rows.flatten(0, -2).float(), largest).view_as(rows).to(rows.dtype)

    def multiply(self: Any, input: torch.Tensor) -> torch.Tensor:
        axis = 1 if issubclass(kind, Conv1D) else 0  # of the outputs
        weight = round_channels(self.weight.float(), largest, axis).to(self.weight.dtype)
        given = round_tensor(input.float()).to(input.dtype)
        return functional.linear(given, weight.T if axis else weight, self.bias)

    return type(kind.__name__, (kind,), {"forward": look_up if issubclass(kind, nn.Embedding) else multiply})
