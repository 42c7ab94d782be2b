"""The largest curvature of a loss along some of a model's weights: the top eigenvalue of its Hessian, by power iteration.

As in Q-BERT (Shen et al. 2019, arXiv:1909.05840) and HAWQ (Dong et al. 2019, arXiv:1905.03696). The gradient's graph is built once;
each product of Hessian and vector is one pass back through it.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from plankwise.files import read_as, write_text
from plankwise.training.losses import task_loss
from plankwise.training.stage import KeptResult, Stage, StageResult

Weights = Sequence[torch.Tensor]
RESULT = "sensitivity.json"
TOLERANCE = 1e-2  # of an eigenvalue: iterations end once it changes by less


def top_eigenvalues(
    loss: torch.Tensor, groups: Sequence[Weights], *, iterations: int, tolerance: float, seed: int
) -> list[float]:
    """For each group of weights the eigenvalue of largest size of the loss's Hessian by these weights alone.

    Iterations end once the eigenvalue changes by less than `tolerance` of itself. Attention has to be computed by its formula:
    torch's fused kernels have no second derivative.
    """
    weights = [weight for group in groups for weight in group]
    gradients = iter(torch.autograd.grad(loss, weights, create_graph=True, materialize_grads=True))
    found = []
    for number, group in enumerate(groups):
        own = [next(gradients) for _ in group]
        generator = torch.Generator().manual_seed(seed + number)
        start = [torch.randn(weight.shape, generator=generator).to(weight) for weight in group]
        found.append(_iterate(own, group, start, iterations, tolerance))
    return found


def _iterate(gradients: Weights, group: Weights, vector: Weights, iterations: int, tolerance: float) -> float:
    value = 0.0
    vector = _unit(vector)
    for _ in range(iterations):
        product = _times_hessian(gradients, group, vector)
        before, value = value, float(_dot(vector, product))
        if float(_dot(product, product)) == 0 or abs(value - before) < tolerance * abs(value):
            break
        vector = _unit(product)
    return value


def _times_hessian(gradients: Weights, group: Weights, vector: Weights) -> Weights:
    curved = [(one, other) for one, other in zip(gradients, vector, strict=True) if one.requires_grad]
    if not curved:  # the loss is linear in these weights
        return [torch.zeros_like(weight) for weight in group]
    outputs, given = zip(*curved, strict=True)
    return torch.autograd.grad(outputs, list(group), given, retain_graph=True, materialize_grads=True)


def _unit(vector: Weights) -> Weights:
    length = _dot(vector, vector).sqrt()
    return [one / length for one in vector]


def _dot(one: Weights, other: Weights) -> torch.Tensor:
    return torch.stack([(a * b).sum() for a, b in zip(one, other, strict=True)]).sum()


@dataclass(frozen=True)
class Sensitivity:
    """How much the loss curves along each block's weights: |mean| + standard deviation of the top eigenvalue over parts."""

    values: list[float]
    stage: StageResult  # without steps: what it took
    memory: dict[str, int]


def find_sensitivity(
    stage: Stage, model: nn.Module, groups: Sequence[Weights], *, examples: int, parts: int, iterations: int
) -> Sensitivity:
    """The sensitivity of each group of weights on some of the stage's examples, drawn by its seed and cut into parts.

    It is kept in the stage's folder, so that a run that goes on chooses the same. Where a rehearsal skips it, all are alike.

    Raises:
        RunError: what was kept is damaged, or the disk is full.
    """
    context, file = stage.context, stage.folder / RESULT
    rows = np.random.default_rng(context.seed).permutation(len(stage.train.lengths))[:examples]
    tokens = np.cumsum(stage.train.lengths[rows])
    memory = {"weights": sum(parameter.nbytes for parameter in model.parameters())}

    def work(most: int) -> Sensitivity:
        started = time.monotonic()
        some = rows[: max(1, int((tokens <= most).sum()))]
        pieces = [piece.tolist() for piece in np.array_split(some, min(parts, len(some)))]
        found = np.array([_eigenvalues(stage, model, groups, piece, iterations) for piece in pieces])
        seconds = time.monotonic() - started
        took = StageResult(stage.name, 0, 0, seconds, seconds, best_step=0, best_score=0.0)
        return Sensitivity((np.abs(found.mean(0)) + found.std(0)).tolist(), took, memory)

    def write() -> None:
        if file.exists():
            return
        found = stage.compute(work, int(tokens[-1]))
        if found is not None:
            stage.folder.mkdir(parents=True, exist_ok=True)
            write_text(file, json.dumps(asdict(KeptResult(found.stage, {"values": found.values}))))

    context.on_main(write)
    if not file.exists():  # a rehearsal
        return Sensitivity([1.0] * len(groups), StageResult(stage.name, 0, 0, 0.0, 0.0, 0, 0.0), memory)
    kept = read_as(file, KeptResult, f"delete {stage.folder} to compute the sensitivity of blocks anew")
    return Sensitivity(kept.notes["values"], kept.stage, memory)


def _eigenvalues(
    stage: Stage, model: nn.Module, groups: Sequence[Weights], rows: list[int], iterations: int
) -> list[float]:
    device = next(model.parameters()).device
    with sdpa_kernel(SDPBackend.MATH), torch.enable_grad():
        loss = task_loss(stage.loss)(model.eval(), stage.batch_of(rows, device), torch.tensor(rows, device=device))
        return top_eigenvalues(loss, groups, iterations=iterations, tolerance=TOLERANCE, seed=stage.context.seed)
