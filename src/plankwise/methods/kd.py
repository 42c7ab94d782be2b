"""Vanilla knowledge distillation (Hinton et al. 2015): the truncated model learns labels and the predecessor's logits.

L = (1 − alpha) · task's loss + alpha · T² · KL(predecessor's softmax at T || student's softmax at T). For a task on numbers the
second term is the squared difference from the predecessor's answer. For a task whose own loss is the distance from the
predecessor's answers (vectors of texts), that is all of it, and alpha and T say nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from plankwise.methods.finetune import truncate
from plankwise.options import Options as SectionOptions

if TYPE_CHECKING:
    from plankwise.training.job import Job, Outcome


IMITATES = True


class Options(SectionOptions):
    name: Literal["kd"] = Field("kd", description="this method")
    alpha: float = Field(0.5, ge=0, le=1, description="weight of the predecessor's logits; the labels have the rest")
    T: float = Field(5.0, gt=0, description="temperature")
    reduction: Literal["batchmean", "mean"] = Field(
        "batchmean", description="the divergence per example, or, as PKD's code has it, per example and class"
    )


def defaults(section: dict[str, Any]) -> dict[str, dict]:
    """What this method changes in the defaults of other sections."""
    return {"training": {"learning_rate": 1e-4, "warmup_share": 0.1}}


def reads_logits(options: Options) -> bool:
    return True


def compress(job: Job, options: Options) -> Outcome:
    """Truncates the predecessor by the plan and trains all of it on labels and logits."""
    from plankwise.training.losses import distilling
    from plankwise.training.targets import read_logits

    start = job.start(gains=True)
    stage = start.stage("kd")
    if job.imitation is not None:  # the task's loss is the distance from the predecessor's answers already
        student = truncate(start)
        return start.outcome(student, stage.run(student, reads_first_token=True))
    targets = stage.targets(job.predecessor, read_logits)
    student = truncate(start)
    loss = distilling(targets, options.alpha, options.T, options.reduction)
    result = stage.run(student, loss=loss, reads_first_token=True)
    return start.outcome(student, result, targets=targets.to_json(stage.passes))
