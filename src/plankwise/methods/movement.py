"""Movement pruning (Sanh et al. 2020, arXiv:2005.07683): in each linear map the weights that training moves towards zero go.

W' = W · M, M = 1 for the share v(t) of a map's weights with the highest scores S; S starts at 0 and is trained by the estimate
∂L/∂S = ∂L/∂W' · W (straight-through); v falls from 1 to `keep` by a cubic schedule. Scores have the learning rate of all else, not
1e-2 as in the paper: only their order matters, and a factor on all of Adam's steps does not change it. Embeddings are trained
(frozen in the paper) and stay whole. Zeros alone bring neither speed nor size: the matrices have the shape that they had.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from plankwise.methods._pruning import PruningOptions, prune

if TYPE_CHECKING:
    from plankwise.training.job import Job, Outcome

NOT_QUANTISED = "the training for int8 would fill its zeros again"


class Options(PruningOptions):
    name: Literal["movement"] = Field("movement", description="this method")


def defaults(section: dict[str, Any]) -> dict[str, dict]:
    """What this method changes in the defaults of other sections."""
    return {"training": {"learning_rate": 1e-4, "warmup_share": 0.1}}


def reads_logits(options: Options) -> bool:
    return options.alpha > 0


def compress(job: Job, options: Options) -> Outcome:
    """Truncates the predecessor by the plan and trains all of it while weights that move towards zero become zeros."""
    return prune(job, options, options.name, learnt=True)
