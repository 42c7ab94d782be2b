"""Ridge regression in one pass over any number of rows: only sums are kept.

min over W of Σ w·||t − [g, 1]W||² + λ·||W − W₀||², where W₀ is what the map was before. How strong λ should be is seen on rows held
out of the sums; then all rows are put together. Products are taken in float32, added and solved in float64.
"""

import torch

STRENGTHS = (1e-1, 1e-2, 1e-3, 1e-6)  # λ over the mean of the features' second moments


class Sums:
    """What is kept of rows of features and targets."""

    def __init__(self, num_features: int, num_targets: int) -> None:
        self.gram = torch.zeros(num_features, num_features, dtype=torch.float64)
        self.moment = torch.zeros(num_features, num_targets, dtype=torch.float64)

    def add(self, features: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor) -> None:
        weighted = (features * weights[:, None]).T
        self.gram += (weighted @ features).double().cpu()
        self.moment += (weighted @ targets).double().cpu()

    def solve(self, strength: float, before: torch.Tensor) -> torch.Tensor:
        penalty = strength * float(self.gram.diagonal().mean())
        whole = self.gram.clone()
        whole.diagonal().add_(penalty)
        factor, failed = torch.linalg.cholesky_ex(whole)
        target = self.moment + penalty * before
        if bool(failed):  # features that say the same: of the maps that do equally well, the least
            return torch.linalg.lstsq(whole, target, driver="gelsd").solution
        return torch.cholesky_solve(target, factor)

    def error(self, matrix: torch.Tensor) -> float:
        """The weighted squared error of a map on these rows, but for what is the same for all maps."""
        return float((matrix * (self.gram @ matrix - 2 * self.moment)).sum())


class Ridge:
    """A weighted least-squares problem; `bias`: the map has one."""

    def __init__(self, num_features: int, num_targets: int, *, bias: bool) -> None:
        self.bias = bias
        self.fitted, self.held_out = (Sums(num_features + bias, num_targets) for _ in range(2))

    def add(self, features: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor, *, held_out: bool) -> None:
        """Rows of features and targets, and one weight a row; `held_out` ones choose the ridge's strength."""
        features = features.float()
        if self.bias:
            features = torch.cat([features, features.new_ones(len(features), 1)], 1)
        (self.held_out if held_out else self.fitted).add(features, targets.float(), weights.float())

    @property
    def nbytes(self) -> int:
        return sum(sums.gram.nbytes + sums.moment.nbytes for sums in (self.fitted, self.held_out))

    def solve(self, before: torch.Tensor) -> tuple[torch.Tensor, float]:
        """The best map, and the strength that held-out rows chose; `before`: the map as it was."""
        before = before.cpu()
        strengths = STRENGTHS if bool(self.held_out.gram.any()) else STRENGTHS[2:3]
        errors = {strength: self.held_out.error(self.fitted.solve(strength, before)) for strength in strengths}
        best = min(errors, key=errors.__getitem__)
        self.fitted.gram += self.held_out.gram
        self.fitted.moment += self.held_out.moment
        return self.fitted.solve(best, before), best
