"""Weights and states in bfloat16 on the CPU; outputs are float32."""

import torch
from torch import nn

from plankwise.models.saving import saved_size_mb
from plankwise.runtimes import Batch, Load, Outputs, Predictor

TOLERANCE = 0.05  # eight bits of precision, through a few layers


class HalfPredictor(Predictor):
    """Gives outputs only: what it runs is not for counting, so `module` stays None."""

    device = torch.device("cpu")

    def __init__(self, model: nn.Module, path: str) -> None:
        self._model = model.to(self.device, torch.bfloat16).eval()
        self._path = path

    def __call__(self, inputs: Batch, chosen: torch.Tensor | None = None) -> Outputs:
        with torch.inference_mode():
            output = self._model(**{name: value.to(self.device) for name, value in inputs.items()})
        found = {name: value.float() for name, value in output.items() if isinstance(value, torch.Tensor)}
        if chosen is None:
            return found
        logits = found["prediction_logits" if "prediction_logits" in found else "logits"]
        return {**found, "logits": logits[chosen.to(self.device)]}

    @property
    def size_mb(self) -> float:
        return saved_size_mb(self._model, self._path)


def open(path: str, load: Load) -> Predictor:
    return HalfPredictor(load(path), path)
