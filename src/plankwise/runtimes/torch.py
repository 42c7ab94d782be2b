"""PyTorch itself, on the device that the model is on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from plankwise.errors import RunError
from plankwise.runtimes import Batch, Load, Outputs, Predictor

if TYPE_CHECKING:
    import torch
    from torch import nn

TOLERANCE = 0.0


class TorchPredictor(Predictor):
    """A torch module in eval mode; a hybrid is run as it stands."""

    def __init__(self, module: nn.Module, path: str | None = None) -> None:
        self.module: nn.Module = module
        self.path = path
        self.device = next(module.parameters()).device

    def __call__(self, inputs: Batch, chosen: torch.Tensor | None = None) -> Outputs:
        import torch

        if self.module.training:
            self.module.eval()
        moved = {name: value.to(self.device) for name, value in inputs.items()}
        only = nullcontext() if chosen is None else predicting(self.module, chosen.to(self.device))
        with torch.inference_mode(), only:
            output: Any = self.module(**moved)
        found = {name: value for name, value in output.items() if isinstance(value, torch.Tensor)}
        if chosen is not None:
            name = "prediction_logits" if "prediction_logits" in found else "logits"
            found = {**found, "logits": found[name].flatten(0, 1)}
        return found

    @property
    def size_mb(self) -> float:
        from plankwise.models.saving import saved_size_mb

        assert self.path is not None  # a model in training has no files
        return saved_size_mb(self.module, self.path)


def open(path: str, load: Load) -> Predictor:
    return TorchPredictor(load(path), path)


@contextmanager
def predicting(model: nn.Module, chosen: torch.Tensor) -> Iterator[None]:
    """Inside, a masked language model's head sees the chosen tokens (B, T) alone: what is not predicted costs no head.

    The model's own forward pass then gives logits (1, N, V).

    Raises:
        RunError: the model's encoder is not where transformers has it.
    """
    bare: Any = getattr(model, "module", model)
    encoder = getattr(bare, getattr(bare, "base_model_prefix", "") or "-", None)
    if encoder is None or encoder is bare:
        raise RunError(f"{type(bare).__name__} keeps its encoder where plankwise does not find it; use another model")

    def pick(module: nn.Module, args: Any, output: Any) -> Any:
        output["last_hidden_state"] = output["last_hidden_state"][chosen].unsqueeze(0)
        return output

    handle = encoder.register_forward_hook(pick)
    try:
        yield
    finally:
        handle.remove()
