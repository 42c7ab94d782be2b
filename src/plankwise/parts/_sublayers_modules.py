"""Modules of the parts for linear maps and embeddings, and the mathematics of their starts; parts import it when they build."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class LowRank(nn.Module):
    """A linear map (…, in) to (…, out) by way of (…, rank)."""

    def __init__(self, inputs: int, outputs: int, rank: int, *, bias: bool) -> None:
        super().__init__()
        self.inner = nn.Linear(inputs, rank, bias=False)
        self.outer = nn.Linear(rank, outputs, bias=bias)

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        return self.outer(self.inner(state))

    @property
    def weight(self) -> torch.Tensor:
        """The map as one matrix (out, in): some families look at the weight of a linear map (T5)."""
        return self.outer.weight @ self.inner.weight

    @torch.no_grad()
    def fill(self, matrix: torch.Tensor, bias: torch.Tensor | None, directions: torch.Tensor) -> None:
        """Takes of a map (out, in) what it gives in so many orthonormal directions (out, rank) of its outputs."""
        self.inner.weight.copy_(directions.T @ matrix.double())
        self.outer.weight.copy_(directions)
        if bias is not None:
            self.outer.bias.copy_(bias)


class FactorisedEmbedding(nn.Module):
    """Token ids (…) to states (…, D): a narrow table (V, E), and one linear map E to D for all tokens."""

    def __init__(self, rows: int, narrow: int, width: int, padding_idx: int | None) -> None:
        super().__init__()
        self.table = nn.Embedding(rows, narrow, padding_idx)
        self.projection = nn.Linear(narrow, width, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.projection(self.table(ids))

    @property
    def weight(self) -> torch.Tensor:
        """The table as a plain embedding has it (V, D)."""
        return self.projection(self.table.weight)

    @torch.no_grad()
    def fill(self, table: torch.Tensor) -> None:
        """Takes of a table (V, D) what a table of this rank can give: its truncated singular value decomposition."""
        directions = leading(table.detach().T, self.table.embedding_dim)
        self.table.weight.copy_(table.double() @ directions)
        self.projection.weight.copy_(directions)


def leading(matrix: torch.Tensor, rank: int) -> torch.Tensor:
    """The left singular vectors (m, rank) of the largest singular values of a matrix (m, n), in float64.

    By the eigenvectors of the smaller of its two products with itself, which is much faster than the whole decomposition.
    """
    rows, columns = matrix.shape
    matrix = matrix.detach().double()
    if rows <= columns or rank > columns:
        return _largest(matrix @ matrix.T, rank)
    return torch.linalg.qr(matrix @ _largest(matrix.T @ matrix, rank)).Q


def _largest(symmetric: torch.Tensor, rank: int) -> torch.Tensor:
    """The eigenvectors (n, rank) of a symmetric matrix with the largest eigenvalues, those first."""
    return torch.linalg.eigh(symmetric).eigenvectors.flip(-1)[:, :rank]


class Moments:
    """What a linear map takes and gives on texts: second moments of the narrower side; about the mean if the map has a bias."""

    def __init__(self, matrix: torch.Tensor, *, centred: bool) -> None:
        self.matrix = matrix.double()  # (out, in)
        self.centred = centred  # a bias gives what the outputs are on average
        outputs, inputs = matrix.shape
        self.of_outputs = outputs <= inputs
        width = min(outputs, inputs)
        self.count = matrix.new_zeros((), dtype=torch.float64)
        self.sum = matrix.new_zeros(width, dtype=torch.float64)
        self.products = matrix.new_zeros(width, width, dtype=torch.float64)
        self.rows: Any = None

    def note(self, _: nn.Module, args: Any, output: torch.Tensor) -> None:
        """A forward hook of the map."""
        self.rows = (output if self.of_outputs else args[0]).detach().float()

    def add(self, weights: torch.Tensor | None) -> None:
        """Takes in the latest run; weights (B, T) say how often a token counts."""
        rows = self.rows.flatten(0, -2)
        known = weights is not None and weights.shape == self.rows.shape[:-1]
        often = weights.flatten().to(rows) if known else torch.ones_like(rows[:, 0])  # type: ignore[union-attr]
        weighted = rows * often[:, None]
        self.count += often.sum()
        self.sum += weighted.sum(0)
        self.products += weighted.T @ rows

    def directions(self, rank: int) -> torch.Tensor:
        """The orthonormal directions (out, rank) in which the map's outputs are largest, or vary most, on the texts."""
        count = self.count.clamp_min(torch.finfo(torch.float64).tiny)
        mean = self.sum / count
        products = self.products / count - (torch.outer(mean, mean) if self.centred else 0)
        if self.of_outputs:
            return _largest(products, rank)
        values, vectors = torch.linalg.eigh(products)
        return leading(self.matrix @ (vectors * values.clamp_min(0).sqrt()), rank)


def draw(module: nn.Module, seed: int) -> None:
    """Gives a new module weights that depend on the seed alone, each layer as torch draws them."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for one in module.modules():
            if callable(reset := getattr(one, "reset_parameters", None)):
                reset()
