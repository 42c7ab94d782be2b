"""Weights of blocks' linear maps that become zeros one by one while the model is trained: what unstructured pruning shares.

Each map keeps the share v of its weights with the highest scores. In training v falls from 1 by a cubic schedule (Zhu and Gupta
2017, arXiv:1710.01878); in eval mode it is the final one, so that dev chooses among successors as they will be. A weight that has
been pruned may come back. At the end the zeros are written into plain weights: the model has the shape that it had.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field, model_validator

from plankwise.errors import ConfigError
from plankwise.methods._matching import check_spans
from plankwise.methods.finetune import truncate
from plankwise.options import Options as SectionOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

    from plankwise.training.job import Job, Outcome
    from plankwise.training.pruning import Mask, PruningCallback


class PruningOptions(SectionOptions):
    """What methods of unstructured pruning can be told."""

    keep: float = Field(0.3, gt=0, le=1, description="share of the weights of each linear map in a block that stay")
    begin_at: float = Field(0.1, ge=0, lt=1, description="share of the steps before the first weight goes")
    full_at: float = Field(0.7, gt=0, le=1, description="share of the steps after which no more than `keep` are left")
    alpha: float = Field(0.0, ge=0, le=1, description="weight of the predecessor's logits; the labels have the rest")
    T: float = Field(2.0, gt=0, description="temperature of the predecessor's logits")

    @model_validator(mode="after")
    def _in_order(self) -> Any:
        if self.begin_at >= self.full_at:
            raise ConfigError(
                f"begin_at is {self.begin_at:g} and full_at {self.full_at:g}, but pruning has to begin before it is full; "
                "choose a smaller begin_at"
            )
        return self

    @property
    def changes(self) -> bool:
        """Whether weights are pruned at all."""
        return self.keep < 1

    def share_left(self, step: int, num_steps: int) -> float:
        """The share of weights that is left at a step: v = keep + (1 − keep) · (1 − (t − t_begin) / (t_full − t_begin))³."""
        begin, full = self.begin_at * num_steps, self.full_at * num_steps
        done = min(1.0, max(0.0, (step - begin) / (full - begin)))
        return self.keep + (1 - self.keep) * (1 - done) ** 3


def prune(
    job: Job,
    options: PruningOptions,
    name: str,
    *,
    learnt: bool = False,
    kind: type[Mask] | None = None,
    watch: Callable[[list[Any]], PruningCallback] | None = None,
) -> Outcome:
    """Truncates the predecessor by the plan and trains all of it while weights become zeros; `learnt`: scores are trained.

    `kind`: the masks' class, if it is another one; `watch`: what makes the callback of all masks.

    Raises:
        PlanError: the plan has slots inside blocks.
    """
    from plankwise.training.losses import distilling
    from plankwise.training.pruning import PruningCallback, install, write_zeros
    from plankwise.training.targets import read_logits

    check_spans(job.plan, name)
    start = job.start(gains=True)
    stage = start.stage(name)
    targets = stage.targets(job.predecessor, read_logits) if options.alpha else None
    student = truncate(start)
    masks = install(_blocks(student, job), options.keep, learnt=learnt, kind=kind) if options.changes else []
    loss = distilling(targets, options.alpha, options.T, task=stage.loss) if targets else None
    callback = watch(masks) if watch else PruningCallback(masks, options.share_left)
    result = stage.run(
        student,
        [callback] if masks else [],
        loss=loss,
        reads_first_token=True,
        settled=lambda: callback.left <= options.keep,
        describe=lambda: f"{callback.left:.0%} left  " if masks else "",
    )
    notes: dict[str, Any] = {"targets": targets.to_json(stage.passes)} if targets else {}
    return start.outcome(student, result, zeros=write_zeros(masks), **notes)


def _blocks(student: nn.Module, job: Job) -> list[nn.Module]:
    return [student.get_submodule(path) for path in job.plan.chains]
