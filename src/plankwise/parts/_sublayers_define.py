"""The network of DeFINE: map, expand, reduce; the part imports it when it builds."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from plankwise.parts._sublayers_modules import leading

ROWS = 4096  # of the table that are computed at once
RIDGE = 1e-3  # of a feature's second moment


class GroupLinear(nn.Module):
    """A linear map (…, in) to (…, out) in groups: each share of the outputs is made of the same share of the inputs alone."""

    def __init__(self, inputs: int, outputs: int, groups: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(groups, inputs // groups, outputs // groups))
        self.bias = nn.Parameter(torch.empty(outputs))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = self.weight.shape[1] ** -0.5  # as nn.Linear draws them
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        divided = state.unflatten(-1, (len(self.weight), -1))
        return torch.einsum("...gi,gio->...go", divided, self.weight).flatten(-2) + self.bias


class Define(nn.Module):
    """Token ids (…) to states (…, D): a narrow table, layers in groups that widen its rows, and a linear map to the states' width.

    With `cached`, what it gives in eval mode without gradients is looked up in a table of all tokens' outputs, which is computed
    when it is first needed and after weights have changed; it is the one that takes the network's place at collapse.
    """

    def __init__(
        self,
        rows: int,
        narrow: int,
        widths: list[int],
        groups: list[int],
        states: int,
        padding_idx: int | None,
        *,
        cached: bool,
    ) -> None:
        super().__init__()
        inputs = [narrow, *(width + narrow for width in widths)]
        self.map = nn.Embedding(rows, narrow, padding_idx)
        self.expand = nn.ModuleList(
            GroupLinear(given, width, count) for given, width, count in zip(inputs, widths, groups, strict=False)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for width in widths)
        self.reduce = nn.Linear(inputs[-1], states)
        self.groups = groups
        self.cached = cached
        self._kept: tuple[Any, torch.Tensor] | None = None  # the table, and the weights that it was computed from

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_kept": None}  # a copy computes its own

    def features(self, ids: torch.Tensor) -> torch.Tensor:
        """What the last map reads: (…) to (…, the widest layer and the narrow row)."""
        row = state = self.map(ids)
        for place, (layer, norm) in enumerate(zip(self.expand, self.norms, strict=True)):
            given = _mix(state, row, self.groups[place]) if place else row
            state = functional.gelu(norm(layer(given)))
        return torch.cat([state, row], -1)

    def compute(self, ids: torch.Tensor) -> torch.Tensor:
        """What the network gives, whatever is kept."""
        return self.reduce(self.features(ids))

    @torch.no_grad()
    def tabulate(self) -> torch.Tensor:
        """What the network gives for each token (V, D)."""
        ids = torch.arange(self.map.num_embeddings, device=self.map.weight.device)
        return torch.cat([self.compute(some) for some in ids.split(ROWS)])

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        if not self.cached or self.training or torch.is_grad_enabled():
            return self.compute(ids)
        version = [(one.data_ptr(), one._version) for one in self.parameters()]
        if self._kept is None or self._kept[0] != version:
            self._kept = version, self.tabulate()
        return functional.embedding(ids, self._kept[1])

    @torch.no_grad()
    def fill(self, table: torch.Tensor) -> None:
        """Comes as near to a table (V, D) as it can with the layers that it has: the narrow rows are the table's truncated singular
        value decomposition, and the last map makes up by least squares for what they miss."""
        narrow = self.map.embedding_dim
        directions = leading(table.detach().T, narrow)
        self.map.weight.copy_(table.double() @ directions)
        self.reduce.weight.zero_()
        self.reduce.bias.zero_()
        self.reduce.weight[:, -narrow:].copy_(directions)
        gram, moment = self._sums(table)
        gram.diagonal().mul_(1 + RIDGE).add_(RIDGE**2 * gram.diagonal().mean())
        change = torch.cholesky_solve(moment, torch.linalg.cholesky_ex(gram).L)
        self.reduce.weight.add_(change[:-1].T)
        self.reduce.bias.add_(change[-1])

    def _sums(self, table: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The products of all tokens' features with themselves and with what the network misses, in float64; the last is a one."""
        width = self.reduce.in_features + 1
        gram = table.new_zeros(width, width, dtype=torch.float64)
        moment = table.new_zeros(width, table.shape[1], dtype=torch.float64)
        for ids in torch.arange(len(table), device=table.device).split(ROWS):
            found = self.features(ids)
            missed = (table[ids] - self.reduce(found)).double()
            found = torch.cat([found, torch.ones_like(found[:, :1])], 1).double()
            gram += found.T @ found
            moment += found.T @ missed
        return gram, moment


def _mix(state: torch.Tensor, row: torch.Tensor, groups: int) -> torch.Tensor:
    """Each group of a state with the same group of the narrow row behind it."""
    divided = [one.unflatten(-1, (groups, -1)) for one in (state, row)]
    return torch.cat(divided, -1).flatten(-2)
