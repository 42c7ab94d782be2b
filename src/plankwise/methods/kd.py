"""Vanilla knowledge distillation (Hinton et al. 2015): the truncated model learns labels and the predecessor's logits.

L = (1 − alpha) · task's loss + alpha · T² · KL(predecessor's softmax at T || student's softmax at T). For a task on numbers the
second term is the squared difference from the predecessor's answer. For a task whose own loss is the distance from the
predecessor's answers (vectors of texts), that is all of it, and alpha and T say nothing.

Beyond the paper, `attention` adds that times the mean squared difference of attention scores before softmax, of each successor and
the last block of its span: what Wang et al. 2023 (arXiv:2305.15032) found to depend least on how a student starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from plankwise.augmentation_options import AugmentationOptions
from plankwise.methods._matching import Teacher, check_spans, pair_blocks, transferring
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
    attention: float = Field(0.0, ge=0, description="weight of attention scores, beside the others")
    augmentation: AugmentationOptions = Field(AugmentationOptions(), description="changed copies of the training texts")


def defaults(section: dict[str, Any]) -> dict[str, dict]:
    """What this method changes in the defaults of other sections."""
    return {"training": {"learning_rate": 1e-4, "warmup_share": 0.1}}


def reads_logits(options: Options) -> bool:
    return True


def compress(job: Job, options: Options) -> Outcome:
    """Truncates the predecessor by the plan and trains all of it on labels and logits, and on attention if it has a weight."""
    from plankwise.training.losses import distilling, task_loss
    from plankwise.training.targets import read_logits

    pairs: list[tuple[str, str]] = []
    if options.attention:
        check_spans(job.plan, "kd with attention", "leave method.attention at 0")
        pairs = [pair for chain in pair_blocks(job.predecessor, job.plan, "ends") for pair in chain]
    start = job.start(gains=True, augmentation=options.augmentation)
    stage = start.stage("kd")
    # The loss of an imitation is the distance from the predecessor's answers already.
    targets = stage.targets(job.predecessor, read_logits) if job.imitation is None else None
    teacher = Teacher(job.predecessor) if options.attention else None
    student = truncate(start)
    plain = (
        distilling(targets, options.alpha, options.T, options.reduction, task=stage.loss)
        if targets
        else task_loss(stage.loss)
    )
    with transferring(plain, student, teacher, pairs, stage, options.attention) as loss:
        result = stage.run(student, loss=loss, reads_first_token=teacher is None)
    notes: dict[str, Any] = {"targets": targets.to_json(stage.passes)} if targets else {}
    return start.outcome(student, result, **notes)
