"""Masks over the weights of linear maps, by scores, while a model is trained; see `methods/_pruning.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize
from transformers import TrainerCallback
from transformers.pytorch_utils import Conv1D


class Mask(nn.Module):
    """What a map's weight goes through: those with the lowest scores are 0.

    Scores are the weights' absolute values, or are learnt: their gradient is that of the masked weight times the weight, as if the
    mask were the scores themselves (a straight-through estimate). What is masked gets no gradient.
    """

    def __init__(self, linear: nn.Module, final: float, *, learnt: bool) -> None:
        super().__init__()
        self.linear = (linear,)  # in a tuple: it is not part of the mask
        self.final = final
        self.left = 1.0  # share of the weights in training
        weight: Any = linear.weight
        self.scores = nn.Parameter(torch.zeros_like(weight)) if learnt else None
        self.known: dict[float, torch.Tensor] = {}  # masks of the present scores, by the share that is left

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        mask = self.mask(weight, self.left if self.training else self.final)
        return weight * mask if self.scores is None else _Straight.apply(weight, self.scores, mask)

    def mask(self, weight: torch.Tensor, left: float) -> torch.Tensor:
        """1 for the share of weights that is left, 0 for the others; of equal scores all stay."""
        if left not in self.known:
            scores = (weight.abs() if self.scores is None else self.scores).detach()
            removed = round((1 - left) * scores.numel())
            lowest = scores.flatten().kthvalue(min(removed + 1, scores.numel())).values
            self.known[left] = (scores >= lowest).to(weight.dtype)
        return self.known[left]


class _Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: torch.Tensor, scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(weight, mask)
        return weight * mask

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:  # type: ignore[override]
        weight, mask = ctx.saved_tensors
        return gradient * mask, gradient * weight, None


class PruningCallback(TrainerCallback):
    """Sets the share that is left at each step; a mask is found once for each set of weights."""

    def __init__(self, masks: Iterable[Mask], schedule: Callable[[int, int], float]) -> None:
        self.masks = list(masks)
        self.schedule = schedule
        self.left = 1.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._set(state)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._set(state)

    def _set(self, state: Any) -> None:
        self.left = self.schedule(state.global_step, state.max_steps)
        for mask in self.masks:
            mask.left = self.left
            mask.known.clear()


class Proximal(Mask):
    """A mask that remembers how large weights were when they were last weighted: the larger, the less they are pulled to zero."""

    reference: torch.Tensor

    def __init__(self, linear: nn.Module, final: float, *, learnt: bool) -> None:
        super().__init__(linear, final, learnt=learnt)
        weight: Any = linear.weight
        self.register_buffer("reference", weight.detach().abs().clone())  # in checkpoints, as buffers are

    @property
    def original(self) -> torch.Tensor:
        """The weight before the mask."""
        found: Any = self.linear[0].parametrizations
        return found.weight.original

    def pull(self, amount: float, eps: float) -> None:
        """w ← sign(w) · max(|w| − amount / (reference + eps), 0)."""
        with torch.no_grad():
            weight = self.original
            left = (weight.abs() - amount / (self.reference + eps)).clamp_min(0)
            weight.copy_(weight.sign() * left)

    def weigh_anew(self) -> None:
        self.reference.copy_(self.original.detach().abs())


class ProximalCallback(PruningCallback):
    """After each optimiser step a proximal step at that step's learning rate, from a share of the steps on."""

    masks: list[Proximal]  # type: ignore[assignment]

    def __init__(self, masks: Iterable[Proximal], options: Any) -> None:
        super().__init__(masks, options.share_left)
        self.options = options

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        options, step, steps = self.options, state.global_step, state.max_steps
        if step < options.begin_at * steps:
            return
        rate = kwargs["optimizer"].param_groups[0]["lr"]
        for mask in self.masks:
            if options.weighs_anew(step, steps):
                mask.weigh_anew()
            mask.pull(rate * options.strength, options.eps)


def install(modules: Iterable[nn.Module], final: float, *, learnt: bool, kind: type[Mask] | None = None) -> list[Mask]:
    """Puts a mask before the weight of every linear map inside the modules; `final`: the share that is left in the end."""
    maps = {id(one): one for module in modules for one in module.modules() if isinstance(one, nn.Linear | Conv1D)}
    masks = []
    for linear in maps.values():
        mask = (kind or Mask)(linear, final, learnt=learnt).train(linear.training)
        parametrize.register_parametrization(linear, "weight", mask)
        masks.append(mask)
    return masks


def write_zeros(masks: Iterable[Mask]) -> dict[str, Any]:
    """Takes the masks out and leaves the weights as they are in eval mode; how many of how many are 0."""
    zeros = weights = 0
    for mask in masks:
        (linear,) = mask.linear
        mask.known.clear()
        mask.eval()
        parametrize.remove_parametrizations(linear, "weight", leave_parametrized=True)
        weight: Any = linear.weight
        zeros, weights = zeros + int((weight == 0).sum()), weights + weight.numel()
    return {"zeros": zeros, "weights": weights}
