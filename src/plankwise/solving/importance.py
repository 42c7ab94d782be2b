"""How much a model's answers depend on heads and channels of a block: Michel et al. 2019, arXiv:1905.10650.

I_u = E |f_u · ∂L/∂f_u|, where f_u is what a head or a channel gives to the map that reads it: to first order, how much the loss
changes once the unit is gone. The authors' code takes the absolute value token by token; the code that Hugging Face published takes
it batch by batch, of the gradient of a mask, where tokens cancel each other out. Scores are compared inside a block alone, so that
they are not normalised over blocks, as the authors do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import torch
from torch import nn

from plankwise.solving.bench import Inputs

Loss = Callable[[Any], torch.Tensor]  # of a model's output; with labels among the inputs, `lambda output: output.loss`


def find_importance(
    model: nn.Module,
    block: nn.Module,
    counts: Mapping[str, int],
    batches: Iterable[Inputs],
    loss: Loss,
    *,
    mask: str = "attention_mask",
    per: Literal["token", "batch"] = "token",
) -> dict[str, torch.Tensor]:
    """The importance of each unit of a model's block, by the path in it of the map that reads so many units; the sum over batches.

    `mask` is the input that says which tokens are padding. The model is run as it is: in eval mode, to be as the authors do.
    """
    scores = {path: torch.zeros(count) for path, count in counts.items()}
    features: dict[str, torch.Tensor] = {}

    def note(path: str) -> Any:
        def hook(_: nn.Module, args: Any) -> Any:
            # The graph begins at the first of the maps: what stands before it needs no gradient.
            follows = bool(features) and args[0].requires_grad
            features[path] = args[0] if follows else args[0].detach().requires_grad_()
            return (features[path], *args[1:])

        return hook

    handles = [block.get_submodule(path).register_forward_pre_hook(note(path)) for path in counts]
    try:
        for inputs in batches:
            features.clear()
            with torch.enable_grad():
                answer = loss(model(**inputs))
                gradients = torch.autograd.grad(answer, list(features.values()), allow_unused=True)
            for (path, given), gradient in zip(features.items(), gradients, strict=True):
                if gradient is None:  # nothing depends on them
                    continue
                products = (given.detach() * gradient).unflatten(-1, (counts[path], -1)).sum(-1)
                products = _without_padding(products, inputs.get(mask))
                scores[path] += (products.sum(0).abs() if per == "batch" else products.abs().sum(0)).float().cpu()
    finally:
        for handle in handles:
            handle.remove()
    return scores


def _without_padding(products: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """One row a token (B, T, units)."""
    if mask is None or mask.shape != products.shape[:-1]:
        return products.flatten(0, -2)
    return products[mask.bool()]
