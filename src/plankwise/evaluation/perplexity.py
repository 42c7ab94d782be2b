"""Perplexity of a language model on held-out blocks: e to the mean loss over all predicted tokens."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
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


@dataclass(frozen=True)
class SequenceLosses:
    """What a model loses on held-out sequences, one by one."""

    losses: np.ndarray  # (N,) summed over the predicted tokens of a sequence
    tokens: np.ndarray  # (N,) how many those are
    pair_accuracy: float | None = None

    def metrics(self) -> dict[str, float]:
        """`perplexity`, `loss`, and for pairs `pair_accuracy`; `score` is 1 / perplexity.

        Raises:
            RunError: the loss is not a number.
        """
        mean = float(self.losses.sum() / self.tokens.sum())
        if not math.isfinite(mean):
            raise RunError(f"the loss on held-out text is {mean}; train anew with a lower training.learning_rate")
        found = {"perplexity": perplexity(mean), "loss": mean, "score": math.exp(-mean)}
        return found if self.pair_accuracy is None else {**found, "pair_accuracy": self.pair_accuracy}


def measure_perplexity(predictor: Predictor, batches: Iterable[Any], objective: Aim) -> SequenceLosses:
    """The losses of a model on batches of held-out sequences, in their order."""
    losses, tokens, right, pairs = [], [], 0, 0
    for batch in batches:
        inputs = {name: value for name, value in batch.items() if name != ROW}
        loss, count, outputs = _sum(predictor, inputs, objective)
        losses.append(loss)
        tokens.append(count)
        if PAIR in inputs:
            right += int((outputs["seq_relationship_logits"].argmax(-1).cpu() == inputs[PAIR]).sum())
            pairs += len(inputs[PAIR])
    return SequenceLosses(np.concatenate(losses), np.concatenate(tokens), right / pairs if pairs else None)


class TokenLosses(NamedTuple):
    """What a model makes of the M predicted tokens, in the order of `wanted_tokens`."""

    losses: np.ndarray  # (M,)
    guesses: np.ndarray  # (M,) the tokens that it finds likeliest


def measure_tokens(predictor: Predictor, batches: Iterable[Any], objective: Aim) -> TokenLosses:
    """The same token by token."""
    losses, guesses = [], []
    for batch in batches:
        found = _predict(predictor, {name: value for name, value in batch.items() if name != ROW}, objective)
        losses.append(found.losses[found.counted])
        guesses.append(found.logits.argmax(-1).cpu().numpy()[found.counted])
    return TokenLosses(np.concatenate(losses), np.concatenate(guesses))


def unigram_losses(batches: Callable[[], Iterable[Any]], objective: Aim, vocabulary: int) -> SequenceLosses:
    """The same of an answer that does not read the text: every token by its frequency among all other predicted tokens.

    The token itself is left out, so that little text is not known by heart; a token that none of the others is has a share of what
    Witten and Bell (1991) leave to new ones: as many counts as there are different tokens.
    """
    counts = np.zeros(vocabulary, dtype=np.int64)
    for batch in batches():
        more = np.bincount(wanted_tokens(batch["labels"], objective).ids, minlength=len(counts))
        counts = np.pad(counts, (0, len(more) - len(counts))) + more  # ids of tokenizers may have gaps
    different = int((counts > 0).sum())
    left = np.maximum(counts - 1, 0) + different / vocabulary
    cost = np.log(counts.sum() - 1 + different) - np.log(left)
    losses, tokens = [], []
    for batch in batches():
        wanted, rows, _ = wanted_tokens(batch["labels"], objective)
        losses.append(np.bincount(rows, cost[wanted], minlength=len(batch["labels"])))
        tokens.append(np.bincount(rows, minlength=len(batch["labels"])))
    return SequenceLosses(np.concatenate(losses), np.concatenate(tokens))


class Wanted(NamedTuple):
    """The tokens of a batch that are predicted, in which of its sequences each is, and at which place there."""

    ids: np.ndarray
    rows: np.ndarray
    places: np.ndarray


def wanted_tokens(labels: torch.Tensor, objective: Aim) -> Wanted:
    """What is predicted, by the labels (B, T): after the first token of each sequence, if a model writes from left to right."""
    first = int(objective == "clm")
    values = labels[:, first:].numpy()
    rows, places = np.nonzero(values != IGNORED)
    return Wanted(values[rows, places], rows, places + first)


def perplexity(mean_loss: float) -> float:
    """e to the mean loss; infinite where that is too large for a number."""
    return math.exp(mean_loss) if mean_loss < 700 else math.inf


def _sum(
    predictor: Predictor, inputs: dict[str, torch.Tensor], objective: Aim
) -> tuple[np.ndarray, np.ndarray, Outputs]:
    """For each sequence the loss summed over its predicted tokens and how many they are; and the model's outputs."""
    found = _predict(predictor, inputs, objective)
    size = len(inputs["labels"])
    summed = np.bincount(found.rows, found.losses, minlength=size)
    return summed, np.bincount(found.rows[found.counted], minlength=size), found.outputs


class _Predicted(NamedTuple):
    """What a model makes of the tokens of a batch; of those not `counted` nothing is to be predicted, and they lose 0."""

    losses: np.ndarray  # (M,)
    rows: np.ndarray  # (M,) the sequence that each is in
    counted: np.ndarray  # (M,)
    logits: torch.Tensor  # (M, V)
    outputs: Outputs


def _predict(predictor: Predictor, inputs: dict[str, torch.Tensor], objective: Aim) -> _Predicted:
    labels = inputs["labels"].to(predictor.device)
    others = {name: value for name, value in inputs.items() if name not in ("labels", PAIR)}
    if objective == "clm":
        outputs = predictor(others)
        logits, wanted = outputs["logits"][:, :-1].flatten(0, 1), labels[:, 1:].flatten()
        rows = torch.arange(len(labels)).repeat_interleave(labels.shape[1] - 1)
    else:
        chosen = labels != IGNORED
        outputs = predictor(others, chosen)
        logits, wanted = outputs["logits"], labels[chosen]
        rows = chosen.nonzero()[:, 0]
    losses = functional.cross_entropy(logits.float(), wanted, reduction="none", ignore_index=IGNORED)
    counted = (wanted != IGNORED).cpu().numpy()
    return _Predicted(losses.cpu().numpy(), rows.cpu().numpy(), counted, logits, outputs)
