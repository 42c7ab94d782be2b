"""Magnitude pruning (Zhu and Gupta 2017, arXiv:1710.01878): in each linear map the smallest weights become zeros, more and more.

W' = W · M, M = 1 for the share v(t) of a map's weights that are largest in absolute value; v falls from 1 to `keep` by a cubic
schedule. Embeddings and head stay whole. Zeros alone bring neither speed nor size: the matrices have the shape that they had.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from plankwise.methods._pruning import PruningOptions, prune

if TYPE_CHECKING:
    from plankwise.training.job import Job, Outcome

NOT_QUANTISED = "the training for int8 would fill its zeros again"


class Options(PruningOptions):
    name: Literal["magnitude"] = Field("magnitude", description="this method")


def defaults(section: dict[str, Any]) -> dict[str, dict]:
    """What this method changes in the defaults of other sections."""
    return {"training": {"learning_rate": 1e-4, "warmup_share": 0.1}}


def reads_logits(options: Options) -> bool:
    return options.alpha > 0


def compress(job: Job, options: Options) -> Outcome:
    """Truncates the predecessor by the plan and trains all of it while the smallest weights become zeros."""
    return prune(job, options, options.name, learnt=False)
