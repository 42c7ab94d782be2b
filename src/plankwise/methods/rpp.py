"""Reweighted proximal pruning (Guo et al. 2019, arXiv:1909.12486): small weights are pulled to zero more than large ones.

L + strength · Σ |w| / (|w at the last weighting| + eps), of which the optimiser sees L alone. After each of its steps comes the
proximal one, w ← sign(w) · max(|w| − lr · strength / (|w at the last weighting| + eps), 0): so Adam's division by past gradients
does not change how hard a weight is pulled. From `full_at` on the smallest are masked until `keep` are left. Embeddings and head
stay whole. Zeros alone bring neither speed nor size: the matrices have the shape that they had.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from plankwise.methods._pruning import PruningOptions, prune

if TYPE_CHECKING:
    from plankwise.training.job import Job, Outcome

NOT_QUANTISED = "the training for int8 would fill its zeros again"


class Options(PruningOptions):
    name: Literal["rpp"] = Field("rpp", description="this method")
    strength: float = Field(3e-3, ge=0, description="how hard weights are pulled to zero; lambda in the paper")
    eps: float = Field(1e-3, gt=0, description="added to a weight's size where that divides the pull")
    weightings: int = Field(4, ge=1, description="how often weights are weighted by their size, the start included")

    @property
    def changes(self) -> bool:
        """Whether weights are pulled or pruned at all."""
        return self.keep < 1 or self.strength > 0

    def share_left(self, step: int, num_steps: int) -> float:
        """All weights until `full_at`: up to there proximal steps alone make zeros."""
        return self.keep if step >= self.full_at * num_steps else 1.0

    def weighs_anew(self, step: int, num_steps: int) -> bool:
        """Whether a step is the first of one of the equal parts that `weightings` cuts the steps up to `full_at` into."""
        begin, full = self.begin_at * num_steps, self.full_at * num_steps

        def part(at: int) -> int:
            return int((at - begin) / (full - begin) * self.weightings) if at >= begin else -1

        return step < full and part(step) > part(step - 1)


def defaults(section: dict[str, Any]) -> dict[str, dict]:
    """What this method changes in the defaults of other sections."""
    return {"training": {"learning_rate": 1e-4, "warmup_share": 0.1}}


def reads_logits(options: Options) -> bool:
    return options.alpha > 0


def compress(job: Job, options: Options) -> Outcome:
    """Truncates the predecessor by the plan and trains all of it while small weights are pulled to zero."""
    from plankwise.training.pruning import Proximal, ProximalCallback

    return prune(job, options, options.name, kind=Proximal, watch=lambda masks: ProximalCallback(masks, options))
