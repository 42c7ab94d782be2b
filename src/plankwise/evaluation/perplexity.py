"""Perplexity of a language model on held-out blocks: e to the mean loss over all predicted tokens."""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from plankwise.data.encode import ROW
from plankwise.data.masking import IGNORED, PAIR, Aim
from plankwise.errors import RunError
from plankwise.training.trainer import Objective


@contextmanager
def predicting(model: nn.Module, chosen: torch.Tensor) -> Iterator[None]:
    """Inside, a masked language model's head sees the chosen tokens (B, L) alone: what is not predicted costs no head.

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


def language_loss(objective: Aim) -> Objective:
    """The model's own loss on a batch of `data.masking`, for training."""

    def loss(model: nn.Module, inputs: dict[str, torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
        if objective == "clm":
            return model(**inputs)["loss"]
        labels = inputs["labels"]
        chosen = labels != IGNORED
        with predicting(model, chosen):
            return model(**{**inputs, "labels": labels[chosen].unsqueeze(0)})["loss"]

    return loss


def measure_perplexity(model: nn.Module, batches: Iterable[Any], objective: Aim) -> dict[str, float]:
    """`perplexity`, `loss`, and for pairs `pair_accuracy`; `score` is 1 / perplexity. The model is left in eval mode.

    Raises:
        RunError: the loss is no number.
    """
    model.eval()
    device = next(model.parameters()).device
    total, tokens, right, pairs = 0.0, 0, 0, 0
    with torch.inference_mode():
        for batch in batches:
            inputs = dict(batch.to(device))
            inputs.pop(ROW, None)
            loss, count, output = _sum(model, inputs, objective)
            total, tokens = total + loss, tokens + count
            if PAIR in inputs:
                right += int((output["seq_relationship_logits"].argmax(-1) == inputs[PAIR]).sum())
                pairs += len(inputs[PAIR])
    mean = total / tokens
    if not math.isfinite(mean):
        raise RunError(f"the loss on held-out text is {mean}; train anew with a lower training.learning_rate")
    found = {"perplexity": perplexity(mean), "loss": mean, "score": math.exp(-mean)}
    return {**found, "pair_accuracy": right / pairs} if pairs else found


def perplexity(mean_loss: float) -> float:
    """e to the mean loss; infinite where that is too large for a number."""
    return math.exp(mean_loss) if mean_loss < 700 else math.inf


def _sum(model: nn.Module, inputs: dict[str, torch.Tensor], objective: Aim) -> tuple[float, int, Any]:
    """The loss summed over the predicted tokens, how many they are, and the model's output."""
    labels = inputs["labels"]
    others = {name: value for name, value in inputs.items() if name not in ("labels", PAIR)}
    if objective == "clm":
        output = model(**others)
        logits, wanted = output["logits"][:, :-1].flatten(0, 1), labels[:, 1:].flatten()
    else:
        chosen = labels != IGNORED
        with predicting(model, chosen):
            output = model(**others)
        logits, wanted = output["prediction_logits" if PAIR in inputs else "logits"].flatten(0, 1), labels[chosen]
    loss = functional.cross_entropy(logits.float(), wanted, reduction="sum", ignore_index=IGNORED)
    return loss.item(), int((wanted != IGNORED).sum()), output
