"""Fine-tuning: of the predecessor, or of the truncated model, which every method must beat.

Truncation keeps one block per span, started as the plan's `init` says (`first`: the lowest layers, as in Xu et al. 2020), and
trains everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from plankwise.core.schedule import Constant
from plankwise.options import Options as SectionOptions

if TYPE_CHECKING:
    from torch import nn

    from plankwise.training.job import Job, Outcome, Start

IMITATES = True


class Options(SectionOptions):
    name: Literal["finetune"] = Field("finetune", description="this method")


def defaults(section: dict[str, Any]) -> dict[str, dict]:
    """What this method changes in the defaults of other sections."""
    return {"training": {"learning_rate": 1e-4, "warmup_share": 0.1}}


def compress(job: Job, options: Options) -> Outcome:
    """Truncates the predecessor by the plan and trains all of it on the task's loss."""
    start = job.start()
    truncated = truncate(start)
    return start.outcome(truncated, start.stage("truncated").run(truncated, reads_first_token=True))


def truncate(start: Start) -> nn.Module:
    """The predecessor with the successors in place of their spans, and their head if they have one of their own.

    The job's own predecessor becomes a hybrid.
    """
    from plankwise.core.hybrid import Rules
    from plankwise.training.ship import launch

    job, always = start.job, Constant(rate=1)
    ship = launch(job.predecessor, job.plan, start.successors, always, seed=job.seed, unfreeze="all", rules=Rules())
    successor = ship.collapse()
    if start.head is not None:
        start.head.put_into(successor)
    return successor
