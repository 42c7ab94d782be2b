"""DistilBERT (Sanh et al. 2019, arXiv:1910.01108): the task's loss, the predecessor's logits, and the direction of its last states.

L = labels · task's loss + logits · T² · KL(predecessor's softmax at T || student's softmax at T) + cosine · (1 − cos(h_T, h_S)),
h the states behind the last block. It is made for text: there the task's loss is that of masked (or causal) language modelling, and
logits are compared for each token that is predicted. Masks differ from epoch to epoch, so that a frozen copy of the predecessor
runs in every step. Of its logits only the `top` of each token are kept, and all others count together as one more answer, so
that a vocabulary for each token is in memory once, not twice. Tasks on labels work the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from plankwise.methods._matching import Teacher, check_spans, pair_blocks
from plankwise.methods.finetune import truncate
from plankwise.options import Options as SectionOptions

if TYPE_CHECKING:
    import torch
    from torch import nn

    from plankwise.task_kinds import Loss
    from plankwise.training.job import Job, Outcome


class Options(SectionOptions):
    name: Literal["distilbert"] = Field("distilbert", description="this method")
    labels: float = Field(2.0, ge=0, description="weight of the task's loss: of masked tokens, on text")
    logits: float = Field(5.0, ge=0, description="weight of the predecessor's logits")
    cosine: float = Field(1.0, ge=0, description="weight of the angle between the last states")
    T: float = Field(2.0, gt=0, description="temperature")
    top: Annotated[int, Field(ge=1)] | Literal["all"] = Field(
        64, description="logits of the predecessor that count one by one, the highest; the others count together"
    )


def defaults(section: dict[str, Any]) -> dict[str, dict]:
    """What this method changes in the defaults of other sections."""
    return {"training": {"learning_rate": 1e-4, "warmup_share": 0.1}}


def compress(job: Job, options: Options) -> Outcome:
    """Truncates the predecessor by the plan and trains all of it on the task, the predecessor's logits and its last states."""
    if options.cosine:
        check_spans(job.plan, options.name, "leave method.cosine at 0")
    start = job.start(gains=True)
    stage = start.stage("distilbert")
    last = pair_blocks(job.predecessor, job.plan, "top")[-1][-1] if options.cosine else None
    teacher = Teacher(job.predecessor) if options.logits or options.cosine else None
    student = truncate(start)
    with triple_loss(stage.loss, student, teacher, last, options) as loss:
        result = stage.run(student, loss=loss, reads_first_token=not options.cosine)
    return start.outcome(student, result)


@contextmanager
def triple_loss(
    task: Loss | None, student: nn.Module, teacher: Teacher | None, last: tuple[str, str] | None, options: Options
) -> Iterator[Loss]:
    """The loss above; `task` is the task's, if not the model's own; `last`: paths of the teacher's and the student's last block."""
    import torch

    from plankwise.core.taps import tapped
    from plankwise.training.attention import mask_name, real_tokens
    from plankwise.training.losses import cosine_loss, keep_top, task_loss, top_loss

    learn = task_loss(task)
    if teacher is None:
        yield lambda model, inputs, rows: options.labels * learn(model, inputs, rows)
        return
    taught = teacher.model
    theirs, ours = last or ("", "")

    with (
        tapped(taught, [theirs] if last else []) as targets,
        tapped(student, [ours] if last else []) as states,
        answering(taught) as told,
        answering(student) as answers,
    ):

        def loss(model: nn.Module, inputs: dict[str, torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                learn(taught, inputs, rows)
                wanted = keep_top(
                    tokens_of(told.pop(), inputs), None if options.top == "all" else options.top, options.T
                )
            total = options.labels * learn(model, inputs, rows)
            total = total + options.logits * top_loss(tokens_of(answers.pop(), inputs), wanted, options.T)
            if last:
                real = real_tokens(inputs, mask_name(taught, theirs), states[ours])
                total = total + options.cosine * cosine_loss(states[ours], targets[theirs], real)
            return total

        yield loss


@contextmanager
def answering(model: nn.Module) -> Iterator[list[torch.Tensor]]:
    """While open, the list has the logits of the model's latest pass."""
    found: list[torch.Tensor] = []

    def note(_: nn.Module, args: Any, output: Any) -> None:
        # A model that predicts whether one part of a text follows the other, too, has another name for those of tokens.
        found[:] = [output["prediction_logits" if "prediction_logits" in output else "logits"]]

    handle = model.register_forward_hook(note)
    try:
        yield found
    finally:
        handle.remove()


def tokens_of(logits: torch.Tensor, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """Logits as (N, C): of all that is predicted; of those for every token (B, T, C), the ones that are not padding."""
    mask = inputs.get("attention_mask")
    if logits.dim() == 3 and mask is not None and mask.shape == logits.shape[:2]:
        return logits[mask.bool()]
    return logits.flatten(0, -2)
