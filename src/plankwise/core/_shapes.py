"""What can be told from a block's weights about the shapes of the states that it takes and gives."""

import itertools
from collections.abc import Iterator
from typing import Any

from torch import nn


def changing_blocks(blocks: list[nn.Module]) -> tuple[int, ...]:
    """The blocks of a chain, but for the first, that give a state of another shape than they are given.

    A block that is like one of its neighbours keeps the shape: it takes what the neighbour takes, or what the neighbour gives. One
    that is not changes it if its last weights give another width than its first ones take, or if it has strides.
    """
    alike = [are_alike(one, other) for one, other in itertools.pairwise(blocks)]
    return tuple(
        index
        for index in range(1, len(blocks))
        if not any(alike[index - 1 : index + 1]) and _changes_shape(blocks[index])
    )


def are_alike(one: nn.Module, other: nn.Module) -> bool:
    """Whether two blocks agree in the shapes and strides of what both have; one may have more, as T5's first block does."""
    form, other_form = _form(one), _form(other)
    return all(form[name] == other_form[name] for name in form.keys() & other_form.keys())


def num_weight_layers(block: nn.Module) -> int:
    """How many linear maps, convolutions and recurrent layers there are in a block."""
    return len(list(_widths(block)))


def _changes_shape(block: nn.Module) -> bool:
    widths = list(_widths(block))
    strided = any(stride != 1 for _, strides in _strides(block) for stride in strides)
    return bool(widths) and (strided or widths[0][0] != widths[-1][1])


def _form(block: nn.Module) -> dict[str, tuple[int, ...]]:
    shapes = {name: tuple(parameter.shape) for name, parameter in block.named_parameters()}
    return shapes | {f"{name}.stride": strides for name, strides in _strides(block)}


def _strides(block: nn.Module) -> Iterator[tuple[str, tuple[int, ...]]]:
    for name, module in block.named_modules():
        stride: Any = getattr(module, "stride", None)
        if isinstance(stride, int | tuple):
            yield name, stride if isinstance(stride, tuple) else (stride,)


def _widths(block: nn.Module) -> Iterator[tuple[int, int]]:
    """The widths in and out of each layer with weights, in the order in which the block's modules are listed."""
    for module in block.modules():
        layer: Any = module
        if isinstance(module, nn.RNNBase):
            yield module.input_size, (module.proj_size or module.hidden_size) * (2 if module.bidirectional else 1)
        elif hasattr(module, "in_channels") and hasattr(module, "kernel_size"):
            yield layer.in_channels, layer.out_channels
        elif hasattr(module, "in_features") and hasattr(module, "weight"):
            yield layer.in_features, layer.out_features
