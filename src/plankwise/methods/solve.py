"""Solved successors and nothing else: no label is read, nothing is trained (after ReplaceMe, Shopkhoev et al. 2025, for decoders)

Every linear map of each successor is set by least squares on some texts, so that it gives what the predecessor gives at the same
place; see `solving`. With `plan.solving.head = "labels"`, and only then, labels are read: for the head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from plankwise.methods.finetune import truncate
from plankwise.options import Options as SectionOptions

if TYPE_CHECKING:
    from plankwise.training.job import Job, Outcome

IMITATES = True
NOT_QUANTISED = "it trains nothing"


class Options(SectionOptions):
    name: Literal["solve"] = Field("solve", description="this method")


def defaults(section: dict[str, Any]) -> dict[str, dict]:
    """What this method changes in the defaults of other sections."""
    return {"plan": {"init": "solved", "cut": "late"}}


def compress(job: Job, options: Options) -> Outcome:
    """Solves the successors, then takes the predecessor out."""
    start = job.start(solve=True)
    return start.outcome(truncate(start))
