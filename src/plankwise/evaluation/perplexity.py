"""Perplexity of a language model on held-out blocks: e to the mean loss over all predicted tokens."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from plankwise.data.encode import ROW
from plankwise.data.masking import IGNORED, PAIR, Aim
from plankwise.errors import RunError
from plankwise.runtimes import Outputs, Predictor
from plankwise.runtimes.torch import predicting


def language_loss(objective: Aim) -> Callable[[nn.Module, dict[str, torch.Tensor], torch.Tensor], torch.Tensor]:
    """The model's own loss on a batch of `data.masking`, for training."""

    def loss(model: nn.Module, inputs: dict[str, torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
        if objective == "clm":
            return model(**inputs)["loss"]
        labels = inputs["labels"]
        chosen = labels != IGNORED
        with predicting(model, chosen):
            return model(**{**inputs, "labels": labels[chosen].unsqueeze(0)})["loss"]

    return loss


def measure_perplexity(predictor: Predictor, batches: Iterable[Any], objective: Aim) -> dict[str, float]:
    """`perplexity`, `loss`, and for pairs `pair_accuracy`; `score` is 1 / perplexity.

    Raises:
        RunError: the loss is not a number.
    """
    total, tokens, right, pairs = 0.0, 0, 0, 0
    for batch in batches:
        inputs = {name: value for name, value in batch.items() if name != ROW}
        loss, count, outputs = _sum(predictor, inputs, objective)
        total, tokens = total + loss, tokens + count
        if PAIR in inputs:
            right += int((outputs["seq_relationship_logits"].argmax(-1).cpu() == inputs[PAIR]).sum())
            pairs += len(inputs[PAIR])
    mean = total / tokens
    if not math.isfinite(mean):
        raise RunError(f"the loss on held-out text is {mean}; train anew with a lower training.learning_rate")
    found = {"perplexity": perplexity(mean), "loss": mean, "score": math.exp(-mean)}
    return {**found, "pair_accuracy": right / pairs} if pairs else found


def perplexity(mean_loss: float) -> float:
    """e to the mean loss; infinite where that is too large for a number."""
    return math.exp(mean_loss) if mean_loss < 700 else math.inf


def _sum(predictor: Predictor, inputs: dict[str, torch.Tensor], objective: Aim) -> tuple[float, int, Outputs]:
    """The loss summed over the predicted tokens, how many they are, and the model's outputs."""
    labels = inputs["labels"].to(predictor.device)
    others = {name: value for name, value in inputs.items() if name not in ("labels", PAIR)}
    if objective == "clm":
        outputs = predictor(others)
        logits, wanted = outputs["logits"][:, :-1].flatten(0, 1), labels[:, 1:].flatten()
    else:
        chosen = labels != IGNORED
        outputs = predictor(others, chosen)
        logits, wanted = outputs["logits"], labels[chosen]
    loss = functional.cross_entropy(logits.float(), wanted, reduction="sum", ignore_index=IGNORED)
    return loss.item(), int((wanted != IGNORED).sum()), outputs
