"""A block of its family's own kind for narrower states, between two maps: fewer heads and channels, smaller maps and norms."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from plankwise.core.slot import state_given, state_of
from plankwise.parts import is_norm
from plankwise.parts._amounts import number_kept
from plankwise.parts._blocks_modules import Ending
from plankwise.parts._units import find_units, keep_units, weigh_units

if TYPE_CHECKING:
    from plankwise.parts._blocks import Form


class Narrow(Ending):
    """norm(x + W(b(Vx) - Vx)), or the same without a norm; b is a narrower block, without the norm that it would end in."""

    def __init__(self, form: Form, block: nn.Module, width: int) -> None:
        super().__init__(form, block, width)
        self.enter = nn.Linear(form.width, width, bias=False)
        axes = torch.eye(width, form.width, device=next(block.parameters()).device)
        self.inner = narrowed(form, block, axes)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        state = state_given(args, kwargs)
        entered = self.enter(state)
        named = {} if args else {next(iter(kwargs)): entered}
        output = self.inner(*((entered, *args[1:]) if args else ()), **{**kwargs, **named})
        state = self.end(state, state_of(output) - entered)
        return state if self.form.extra is None else (state, *output[1:])


@torch.no_grad()
def narrowed(form: Form, block: nn.Module, directions: torch.Tensor) -> nn.Module:
    """A copy of a block for states of which orthonormal directions (d, D) are left, with the same share of heads and channels.

    What reads states reads them in these directions, what gives states gives them so; of a norm's gain each direction has the mean
    by its squares. A post-LN block loses its last norm. Where values are at hand, the weightiest heads and channels are kept.
    """
    inner = copy.deepcopy(block)
    found = find_units(inner)
    every = [*found.heads, *([found.ffn] if found.ffn is not None else [])]
    directions = directions.to(next(inner.parameters()))
    for units in every:
        count = number_kept(len(directions) / form.width, units.count)
        keep_units(inner, units, weigh_units(inner, units).topk(count).indices.sort().values)
        for feed in units.feeds:
            _project(inner.get_submodule(feed.path), directions, outputs=False)
        _project(inner.get_submodule(units.output), directions, outputs=True)
    if form.post:
        inner.set_submodule(form.norms[-1], nn.Identity())
    for module in inner.modules():
        if is_norm(module):
            _project_norm(module, directions)
    return inner


def _project(linear: Any, directions: torch.Tensor, *, outputs: bool) -> None:
    turned = isinstance(linear, Conv1D)
    weight = linear.weight.T if turned else linear.weight  # (outputs, inputs)
    weight = directions @ weight if outputs else weight @ directions.T
    linear.weight = nn.Parameter(weight.T.contiguous() if turned else weight.contiguous())
    if outputs and linear.bias is not None:
        linear.bias = nn.Parameter(directions @ linear.bias)
    names = ("nf", "nx") if turned else ("out_features", "in_features")
    setattr(linear, names[0] if outputs else names[1], len(directions))


def _project_norm(norm: Any, directions: torch.Tensor) -> None:
    count, width = directions.shape
    for name, by in (("weight", directions.square()), ("bias", directions)):
        own = getattr(norm, name, None)
        if own is not None and own.shape == (width,):
            setattr(norm, name, nn.Parameter(by @ own))
    if getattr(norm, "normalized_shape", None) == (width,):
        norm.normalized_shape = (count,)
