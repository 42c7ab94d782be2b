"""The end effect: how far a hybrid's answers are from its predecessor's, on held-out texts and without labels.

Of answers that are classes or words, the divergence KL(predecessor || hybrid) in nats, a text or token; of texts' vectors,
2 (1 − cosine); of any others, the squared distance over the square of the predecessor's.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch.nn import functional

from plankwise.core.hybrid import Hybrid
from plankwise.solving.bench import Inputs, mask_name

MOST_NUMBERS = 1 << 24  # of the predecessor's answers that are kept


class EndEffect:
    """Held-out batches with the predecessor's answers."""

    def __init__(self, hybrid: Hybrid, batches: list[Inputs]) -> None:
        self.hybrid = hybrid
        self.batches = batches
        with hybrid.masked(False):
            first, _ = find_answer(hybrid(**batches[0]))
            self.every = max(1, math.ceil(first.numel() * len(batches) / MOST_NUMBERS))
            self.answers = [self._run(inputs) for inputs in batches]

    def of(self, hybrid: Hybrid) -> EndEffect:
        """The same texts and answers for another hybrid of the same predecessor."""
        other = copy.copy(self)
        other.hybrid = hybrid
        return other

    def measure(self, mask: list[bool]) -> float:
        """The effect of the slots that are replaced."""
        missed = total = 0.0
        with self.hybrid.masked(mask):
            for inputs, (expected, are_logits) in zip(self.batches, self.answers, strict=True):
                found, _ = self._run(inputs)
                if are_logits:
                    divergence = functional.kl_div(found, expected, reduction="sum", log_target=True)
                    missed, total = missed + float(divergence), total + len(found)
                else:
                    missed, total = (
                        missed + float((found - expected).square().sum()),
                        total + float(expected.square().sum()),
                    )
        return missed / max(total, torch.finfo(torch.float32).tiny)

    def _run(self, inputs: Inputs) -> tuple[torch.Tensor, bool]:
        """One row an answer; of logits, their log-softmax."""
        answer, are_logits = find_answer(self.hybrid(**inputs))
        mask = inputs.get(mask_name(self.hybrid, "decoder"))  # of a model with two sides, the decoder answers
        if mask is not None and answer.dim() > 2 and answer.shape[:2] == mask.shape:
            rows = answer[mask.bool()]
        else:
            rows = answer.reshape(-1, answer.shape[-1]) if answer.dim() > 1 else answer[:, None]
        rows = rows[:: self.every].float()
        return (rows.log_softmax(-1), True) if are_logits else (rows, False)


def find_answer(output: Any) -> tuple[torch.Tensor, bool]:
    """What a model answers, and whether that is logits of several classes or words."""
    if isinstance(output, torch.Tensor):
        return output, False
    logits = output.get("logits") if hasattr(output, "get") else None
    if isinstance(logits, torch.Tensor):
        return logits, logits.shape[-1] > 1
    starts, ends = (output.get(f"{side}_logits") if hasattr(output, "get") else None for side in ("start", "end"))
    if isinstance(starts, torch.Tensor) and isinstance(
        ends, torch.Tensor
    ):  # of each token, whether a span begins or ends there
        return torch.stack([starts, ends], -1), False
    vectors = output.get("sentence_embedding") if hasattr(output, "get") else None
    if isinstance(vectors, torch.Tensor):  # of unit vectors, the squared distance is 2 (1 − cosine)
        return functional.normalize(vectors, dim=-1), False
    values = output.values() if hasattr(output, "values") else output
    return next(value for value in values if isinstance(value, torch.Tensor) and value.is_floating_point()), False


def sum_signed(output: Any) -> torch.Tensor:
    """A model's answers, each times 1 or -1 by chance, in one sum: its gradient says what all of them depend on, without labels."""
    answer, _ = find_answer(output)
    signs = torch.randint(0, 2, answer.shape, generator=torch.Generator().manual_seed(0)).to(answer) * 2 - 1
    return (answer * signs).sum()
