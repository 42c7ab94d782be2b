"""Which tokens count: those whose states the model's answers depend on most.

A classifier reads the first token, or the last; a language model all of them. How much the answers depend on a token's state at a
slot is the squared gradient there; its mean over the first tokens of some texts, and over the last, against the mean over those
between is how often such a token counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from plankwise.core.slot import state_of
from plankwise.solving.bench import Bench, Inputs, mask_name
from plankwise.solving.effect import sum_signed

MOST = 30.0  # how often a token counts


@dataclass(frozen=True)
class Places:
    """How often the first and the last token of a text count, against the others."""

    first: float = 1.0
    last: float = 1.0

    def weigh(self, mask: torch.Tensor | None) -> torch.Tensor | None:
        """A weight for each token; 0 for padding."""
        if mask is None:
            return None
        weights = mask.float()
        first, last = edges(mask)
        weights[last] *= self.last
        weights[first] *= self.first
        return weights


def edges(mask: torch.Tensor) -> tuple[Any, Any]:
    """Where the first and the last tokens of texts are that are not padding."""
    rows = torch.arange(len(mask), device=mask.device)
    places = torch.arange(mask.shape[1], device=mask.device)
    first = mask.bool().int().argmax(1)
    last = (mask.bool() * places).argmax(1)
    return (rows, first), (rows, last)


def find_places(bench: Bench, inputs: Inputs) -> list[Places]:
    """For each slot, how much the answers depend on the first and last tokens' states there."""
    return [
        _compare(gradient, inputs.get(mask_name(bench.hybrid, slot.path)))
        for gradient, slot in zip(_gradients(bench, inputs), bench.slots, strict=True)
    ]


def _compare(gradient: torch.Tensor | None, mask: torch.Tensor | None) -> Places:
    if gradient is None or mask is None or gradient.shape[:-1] != mask.shape:
        return Places()
    dependence = gradient.square().sum(-1)
    first, last = edges(mask)
    between = mask.bool().clone()
    between[first] = between[last] = False
    if not bool(between.any()):
        return Places()
    usual = dependence[between].mean()
    return Places(*(float((dependence[edge].mean() / usual.clamp_min(1e-30)).clamp(1, MOST)) for edge in (first, last)))


def _gradients(bench: Bench, inputs: Inputs) -> list[torch.Tensor | None]:
    """By slot, the gradient of the predecessor's answers, each times 1 or -1 by chance, at the state behind the slot."""
    states: dict[int, torch.Tensor] = {}

    def note(number: int) -> Any:
        def hook(module: nn.Module, args: Any, output: Any) -> Any:
            state = state_of(output).detach().requires_grad_()
            states[number] = state
            return (state, *output[1:]) if isinstance(output, tuple) else state

        return hook

    # One slot at a time: a state that is cut off from what stands before it has no gradient for that.
    found: list[torch.Tensor | None] = []
    for number, slot in enumerate(bench.slots):
        handle = bench.hybrid.get_submodule(slot.places[-1]).register_forward_hook(note(number))
        try:
            with torch.enable_grad(), bench.hybrid.masked(False):
                answer = sum_signed(bench.hybrid(**inputs))
                if answer.requires_grad:
                    (gradient,) = torch.autograd.grad(answer, states[number], allow_unused=True)
                else:  # the answer is not made of what the slot gives
                    gradient = None
        finally:
            handle.remove()
        found.append(gradient)
    return found
