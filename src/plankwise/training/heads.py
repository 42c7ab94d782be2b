"""Linear heads solved on labels: logistic regression for classes, ridge regression for numbers. Both are convex.

What a head is given may hardly vary from text to text (after a low block the first token's states have a spread of 0.001), so that
each value is divided by its spread first; the head that holds the division is as linear as before. The penalty is on the distance
from a head to start from, so that few examples change it little.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from plankwise.models.exits import answer_loss

ITERATIONS = 50
STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)  # of the penalty, on vectors divided by their spread
FOLDS = 5


def solve_head(vectors: torch.Tensor, labels: torch.Tensor, start: nn.Linear, strength: float) -> nn.Linear:
    """The linear map from vectors (N, D) with the least loss on the labels and the least distance from `start`."""
    bias = start.bias is not None
    centre = vectors.mean(0) if bias else torch.zeros_like(vectors[0])
    spread = vectors.std(0, correction=0).clamp_min(1e-12)
    scaled = (vectors - centre) / spread
    with torch.no_grad():
        before = start(vectors)
    change = zeros_like(start)
    solver = torch.optim.LBFGS(change.parameters(), max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        solver.zero_grad()
        found = answer_loss(before + change(scaled), labels) + strength / 2 * change.weight.square().sum()
        found.backward()
        return found

    with torch.enable_grad():
        solver.step(loss)  # type: ignore[arg-type]
    with torch.no_grad():
        change.weight /= spread
        if bias:
            change.bias.sub_(change.weight @ centre).add_(start.bias)
        change.weight += start.weight
    return change.requires_grad_(True)


def zeros_like(head: nn.Linear) -> nn.Linear:
    """A head of the same form that answers 0."""
    zeros = nn.Linear(head.in_features, head.out_features, bias=head.bias is not None)
    for parameter in zeros.parameters():
        nn.init.zeros_(parameter)
    return zeros


@dataclass(frozen=True)
class HeadChoice:
    """A head, and what it answers on examples that it was not solved on."""

    head: nn.Linear
    strength: float | None  # None: the head it started from was the best
    losses: dict[str, float]  # on examples left out, by strength; that of the start by "kept"
    logits: np.ndarray  # (N, C), of each example by the head that was solved without its fold


def choose_head(vectors: torch.Tensor, labels: torch.Tensor, start: nn.Linear) -> HeadChoice:
    """Solves a head at the strength that has the least loss in cross-validation; the start stays if none is better.

    The examples come in an order by chance: each fold is every fifth of them.
    """
    with torch.no_grad():
        answers = {None: start(vectors)}
    fold = torch.arange(len(vectors)) % min(FOLDS, len(vectors))
    for strength in STRENGTHS:
        found = torch.empty_like(answers[None])
        for left_out in (fold == number for number in range(int(fold.max()) + 1)):
            head = solve_head(vectors[~left_out], labels[~left_out], start, strength)
            with torch.no_grad():
                found[left_out] = head(vectors[left_out])
        answers[strength] = found  # type: ignore[index]
    losses = {strength: float(answer_loss(logits, labels)) for strength, logits in answers.items()}
    best = min(losses, key=lambda strength: losses[strength])
    head = start if best is None else solve_head(vectors, labels, start, best)
    named = {"kept" if strength is None else f"{strength:g}": loss for strength, loss in losses.items()}
    return HeadChoice(head, best, named, answers[best].numpy())
