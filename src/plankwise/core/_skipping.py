"""What a training step that trains nothing returns: an output on which `backward` runs and gives no parameter a gradient.

In several processes such a step must still reach DistributedDataParallel. DDP prepares for a backward pass after every forward pass
outside `no_sync`, and is done with it only when the pass has reached a parameter. With no parameter in the graph it would
wait into the next step, take the first micro-batch of an accumulated gradient for that pass, and fail with "Expected to mark a
variable ready only once". So there the output depends on one trained parameter, to which an undefined gradient flows: DDP finishes,
the parameter's `grad` stays None, and an optimiser leaves it alone, its momentum and weight decay too. The price is one all-reduce.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.autograd.function import FunctionCtx


class _NoGradient(torch.autograd.Function):
    """The first tensor as it is; nothing flows back to the second, but it is reached."""

    @staticmethod
    def forward(ctx: FunctionCtx, value: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx: FunctionCtx, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradients[0], None


class LossAlone(dict):
    """An output with a loss and nothing else, read as a key or as an attribute."""

    @property
    def loss(self) -> torch.Tensor:
        return self["loss"]


@dataclass(frozen=True)
class LastLoss:
    """The latest loss that a model computed, and the class of the output that it was in; None: a tuple."""

    value: torch.Tensor
    output_class: type[dict] | None

    @classmethod
    def of(cls, output: Any) -> "LastLoss | None":
        """The loss in a model's output, None if there is none."""
        if isinstance(output, dict):
            loss = output.get("loss")
            return None if loss is None else cls(loss.detach(), type(output))
        if isinstance(output, tuple) and isinstance(output[0], torch.Tensor) and output[0].dim() == 0:
            return cls(output[0].detach(), None)
        return None

    def as_output(self, reached: nn.Parameter | None) -> Any:
        """An output with this loss alone, which trains nothing."""
        loss = untrained(self.value, reached)
        return (loss,) if self.output_class is None else self.output_class(loss=loss)


def untrained(output: Any, reached: nn.Parameter | None) -> Any:
    """The same output with a graph that trains nothing; `reached` is in it, if given."""
    if isinstance(output, torch.Tensor):
        if not output.is_floating_point():
            return output
        leaf = output.detach().requires_grad_()
        return leaf * 1 if reached is None else _NoGradient.apply(leaf, reached)  # type: ignore[no-untyped-call]
    if isinstance(output, dict):
        return type(output)(**{key: untrained(value, reached) for key, value in output.items()})
    if isinstance(output, tuple | list):
        return type(output)(untrained(item, reached) for item in output)
    return output
