"""Ridge regression in one pass over any number of rows: only sums are kept.

min over D of Σ w·||r − [g, 1]D||² + λ·||D||², where D is the change of a map and r what it misses as it is. How strong λ should be
is seen on rows held out of the sums; then all rows are put together. Products are taken in float32, added and solved in float64:
rounding moves a change less than it would move a whole map, and a map that misses nothing stays as it is.
"""

import torch

STRENGTHS = (1e-1, 1e-2, 1e-3, 1e-6)  # λ over the mean of the features' second moments
MOST_JUDGED = 64  # outputs of a map that choose the strength, evenly spaced
WIDTH = 512  # columns of a product taken at once


class Sums:
    """What is kept of rows of features and misses; of the features' products, which are symmetric, the lower half."""

    def __init__(self, num_features: int, num_outputs: int) -> None:
        self.gram = torch.zeros(num_features, num_features, dtype=torch.float64)
        self.moment = torch.zeros(num_features, num_outputs, dtype=torch.float64)

    def add(self, features: torch.Tensor, missed: torch.Tensor, weights: torch.Tensor) -> None:
        weighted = (features * weights[:, None]).T
        for start in range(0, len(weighted), WIDTH):
            columns = slice(start, start + WIDTH)
            self.gram[start:, columns] += (weighted[start:] @ features[:, columns]).double().cpu()
        self.moment += (weighted @ missed).double().cpu()

    def solve(self, strength: float, every: int = 1) -> torch.Tensor:
        """The best change at a strength, of every so many outputs."""
        moment = self.moment[:, ::every]
        whole = self.gram.clone()
        whole.diagonal().add_(strength * float(self.gram.diagonal().mean()))
        factor, failed = torch.linalg.cholesky_ex(whole)  # reads the lower half alone
        if bool(failed):  # features that say the same: of the changes that do equally well, the least
            return torch.linalg.lstsq(_mirrored(whole), moment, driver="gelsd").solution
        return torch.cholesky_solve(moment, factor)

    def error(self, change: torch.Tensor, every: int = 1) -> float:
        """The weighted squared error of a change on these rows, but for what is the same for all changes."""
        return float((change * (_mirrored(self.gram) @ change - 2 * self.moment[:, ::every])).sum())


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
        every = max(1, self.fitted.moment.shape[1] // MOST_JUDGED)
        errors = {one: self.held_out.error(self.fitted.solve(one, every), every) for one in strengths}
        best = min(errors, key=errors.__getitem__)
        self.fitted.gram += self.held_out.gram
        self.fitted.moment += self.held_out.moment
        return self.fitted.solve(best), best


def _mirrored(lower: torch.Tensor) -> torch.Tensor:
    """A symmetric matrix by its lower half."""
    return lower.tril() + lower.tril(-1).T
