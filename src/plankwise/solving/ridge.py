"""Ridge regression in one pass over any number of rows: only sums are kept.

min over D of Σ w·||r − [g, 1]D||² + λ·||D||², where D is the change of a map and r what it misses as it is. How strong λ should be
is seen on rows held out of the sums; then all rows are put together. Products are taken in float32, added and solved in float64:
rounding moves a change less than it would move a whole map, and a map that misses nothing stays as it is.
"""

import torch

STRENGTHS = (1e-1, 1e-2, 1e-3, 1e-6)  # λ over the mean of the features' second moments


class Sums:
    """What is kept of rows of features and misses."""

    def __init__(self, num_features: int, num_outputs: int) -> None:
        self.gram = torch.zeros(num_features, num_features, dtype=torch.float64)
        self.moment = torch.zeros(num_features, num_outputs, dtype=torch.float64)

    def add(self, features: torch.Tensor, missed: torch.Tensor, weights: torch.Tensor) -> None:
        weighted = (features * weights[:, None]).T
        self.gram += (weighted @ features).double().cpu()
        self.moment += (weighted @ missed).double().cpu()

    def solve(self, strength: float) -> torch.Tensor:
        whole = self.gram.clone()
        whole.diagonal().add_(strength * float(self.gram.diagonal().mean()))
        factor, failed = torch.linalg.cholesky_ex(whole)
        if bool(failed):  # features that say the same: of the changes that do equally well, the least
            return torch.linalg.lstsq(whole, self.moment, driver="gelsd").solution
        return torch.cholesky_solve(self.moment, factor)

    def error(self, change: torch.Tensor) -> float:
        """The weighted squared error of a change on these rows, but for what is the same for all changes."""
        return float((change * (self.gram @ change - 2 * self.moment)).sum())


class Ridge:
    """A weighted least-squares problem: how a map is best changed; `bias`: the map has one."""

    def __init__(self, num_features: int, num_outputs: int, *, bias: bool) -> None:
        self.bias = bias
        self.fitted, self.held_out = (Sums(num_features + bias, num_outputs) for _ in range(2))

    def add(self, features: torch.Tensor, missed: torch.Tensor, weights: torch.Tensor, *, held_out: bool) -> None:
        """Rows of features and of what the map misses, and one weight a row; `held_out` ones choose the ridge's strength."""
        features = features.float()
        if self.bias:
            features = torch.cat([features, features.new_ones(len(features), 1)], 1)
        (self.held_out if held_out else self.fitted).add(features, missed.float(), weights.float())

    @property
    def nbytes(self) -> int:
        return sum(sums.gram.nbytes + sums.moment.nbytes for sums in (self.fitted, self.held_out))

    def solve(self) -> tuple[torch.Tensor, float]:
        """The best change of the map, and the strength that held-out rows chose."""
        strengths = STRENGTHS if bool(self.held_out.gram.any()) else STRENGTHS[2:3]
        errors = {strength: self.held_out.error(self.fitted.solve(strength)) for strength in strengths}
        best = min(errors, key=errors.__getitem__)
        self.fitted.gram += self.held_out.gram
        self.fitted.moment += self.held_out.moment
        return self.fitted.solve(best), best
