"""Patient knowledge distillation (Sun et al. 2019, arXiv:1908.09355): logits, and the states of matched layers.

L = (1 − alpha) · task's loss + alpha · KD + beta · the mean of (u_T − u_S)² over examples, matched layers and width, where u is the
state of the token that stands for the text, divided by its length if `normalise`. The student's last layer is matched by KD alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from plankwise.core.plan import Plan
from plankwise.errors import PlanError
from plankwise.methods._matching import pair_blocks
from plankwise.methods.finetune import truncate
from plankwise.options import Options as SectionOptions

if TYPE_CHECKING:
    import torch
    from torch import nn

    from plankwise.task_kinds import Loss
    from plankwise.training.job import Job, Outcome
    from plankwise.training.targets import Read, Targets


class Options(SectionOptions):
    name: Literal["pkd"] = Field("pkd", description="this method")
    alpha: float = Field(0.5, ge=0, le=1, description="weight of the predecessor's logits; the labels have the rest")
    beta: float = Field(
        100.0, ge=0, description="weight of the matched layers; large, since theirs is a mean over the width"
    )
    T: float = Field(5.0, gt=0, description="temperature")
    reduction: Literal["batchmean", "mean"] = Field(
        "batchmean", description="the divergence per example, or, as the published code has it, per example and class"
    )
    layers: Literal["skip", "last"] = Field(
        "skip", description="match the ends of the spans, or the last layers but one"
    )
    normalise: bool = Field(True, description="divide each state by its length before comparing")


def defaults(section: dict[str, Any]) -> dict[str, dict]:
    """What this method changes in the defaults of other sections."""
    return {"training": {"learning_rate": 1e-4, "warmup_share": 0.1}}


def reads_logits(options: Options) -> bool:
    return True


def compress(job: Job, options: Options) -> Outcome:
    """Truncates the predecessor by the plan and trains all of it on labels, logits and states."""
    from plankwise.core.taps import tapped

    theirs, ours = match_layers(job.predecessor, job.plan, options.layers)
    start = job.start()
    stage = start.stage("pkd")
    cls_id = stage.tokenizer.cls_token_id
    with tapped(job.predecessor, theirs) as states:
        targets = stage.targets(job.predecessor, reading(states, theirs, cls_id))
    student = truncate(start)
    with tapped(student, ours) as states:
        result = stage.run(student, loss=patient_loss(states, ours, targets, cls_id, options, stage.loss))
    return start.outcome(student, result, targets=targets.to_json(stage.passes))


def patient_loss(
    states: dict[str, torch.Tensor],
    paths: list[str],
    targets: Targets,
    cls_id: int | None,
    options: Options,
    task: Loss | None = None,
) -> Loss:
    """The loss above; `states` are those after the student's blocks at `paths` in the latest pass, `task` the task's own loss."""
    from plankwise.training.losses import distilling, pt_loss

    logits = distilling(targets, options.alpha, options.T, options.reduction, task=task)

    def loss(model: nn.Module, inputs: dict[str, torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
        distilled = logits(model, inputs, rows)
        found = _gather(states, paths, inputs, cls_id)
        return distilled + options.beta * pt_loss(found, targets.take("states", rows), normalise=options.normalise)

    return loss


def match_layers(model: nn.Module, plan: Plan, layers: str) -> tuple[list[str], list[str]]:
    """The paths of the predecessor's blocks and of the student's that are compared, in pairs.

    `skip`: each span's last block with its successor; `last`: the predecessor's last blocks but one with the student's.

    Raises:
        PlanError: no layer is left to match, since the student's last one never is.
    """
    pairs = [pair for chain in pair_blocks(model, plan, "ends" if layers == "skip" else "top") for pair in chain[:-1]]
    if not pairs:
        raise PlanError(
            "method pkd matches every layer of the student but the last, and this plan leaves no other; "
            "give a plan of at least 2 successors in a chain, or choose method.name = 'kd'"
        )
    return [theirs for theirs, _ in pairs], [ours for _, ours in pairs]


def reading(states: dict[str, torch.Tensor], paths: list[str], cls_id: int | None) -> Read:
    def read(model: nn.Module, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        logits = model(**inputs).logits
        return {"logits": logits, "states": _gather(states, paths, inputs, cls_id)}

    return read


def _gather(
    states: dict[str, torch.Tensor], paths: list[str], inputs: dict[str, torch.Tensor], cls_id: int | None
) -> torch.Tensor:
    """(examples, layers, width): the states of the token that stands for each text."""
    import torch

    positions = summary_positions(inputs["input_ids"], inputs.get("attention_mask"), cls_id)
    rows = torch.arange(len(positions), device=positions.device)
    return torch.stack([states[path][rows, positions] for path in paths], 1)


def summary_positions(ids: torch.Tensor, mask: torch.Tensor | None, cls_id: int | None) -> torch.Tensor:
    """Where the token is that stands for the whole text: the tokenizer's [CLS], or else the last that is not padding."""
    import torch

    if cls_id is not None:
        found = (ids == cls_id).int()
        if bool(found.any(1).all()):
            return found.argmax(1)
    if mask is None:
        return torch.full((len(ids),), ids.shape[1] - 1, device=ids.device)
    return ids.shape[1] - 1 - mask.flip(1).int().argmax(1)
