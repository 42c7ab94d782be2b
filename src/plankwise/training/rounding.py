"""Matrices of a model that are trained as they will be stored: rounded to a few bits; see `models/packing.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.utils import parametrize
from transformers.pytorch_utils import Conv1D

from plankwise.models.packing import round_matrix


class Form(NamedTuple):
    """How a matrix is rounded: bits a weight, and rows that share a scale."""

    bits: int
    rows: int


class Rounded(nn.Module):
    """What a matrix goes through, in training and in eval mode alike."""

    def __init__(self, form: Form, *, cut: bool) -> None:
        super().__init__()
        self.form, self.cut = form, cut

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return round_matrix(weight, *self.form, cut=self.cut)


def find_matrices(module: nn.Module) -> dict[str, nn.Module]:
    """The linear maps and tables of embeddings inside a module, by path."""
    return {path: one for path, one in module.named_modules() if isinstance(one, nn.Linear | Conv1D | nn.Embedding)}


@contextmanager
def rounded(model: nn.Module, forms: Mapping[str, Form], *, cut: bool) -> Iterator[None]:
    """While open, the matrices at these paths are rounded wherever they are used; afterwards their weights are the rounded ones."""
    modules: dict[str, Any] = {path: model.get_submodule(path) for path in forms}
    handles = []
    for path, module in modules.items():
        one = Rounded(forms[path], cut=cut)
        if _looks_up(module) and one.form.rows == 1:
            # What is looked up is rounded instead of the whole table.
            handles.append(module.register_forward_hook(_rounding_rows(one)))
        else:
            parametrize.register_parametrization(module, "weight", one)
    yield
    for handle in handles:
        handle.remove()
    done: set[int] = set()  # weights that are shared
    for module in modules.values():
        if parametrize.is_parametrized(module, "weight"):
            parametrize.remove_parametrizations(module, "weight", leave_parametrized=False)
    with torch.no_grad():
        for path, module in modules.items():
            if id(module.weight) not in done:
                done.add(id(module.weight))
                module.weight.copy_(round_matrix(module.weight, *forms[path], cut=cut))


def _looks_up(module: nn.Module) -> bool:
    return isinstance(module, nn.Embedding) and type(module).forward is nn.Embedding.forward


def _rounding_rows(one: Rounded) -> Any:
    def hook(module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
        return one(output.flatten(0, -2)).view_as(output)

    return hook
