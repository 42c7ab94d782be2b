"""LayerDrop (Fan et al. 2020, arXiv:1909.11556): all blocks are trained while each is left out at times; then some are kept.

In each training step every block of a span is skipped with probability `p`, unscaled. The successor keeps the lowest block of each
span: for spans of two that is every other layer. The published work drops layers in pretraining, too; here, as in Xu et al. 2020,
only fine-tuning does. The blocks are the predecessor's own, so `plan.init` is not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from plankwise.methods.finetune import truncate
from plankwise.options import Options as SectionOptions

if TYPE_CHECKING:
    from torch import nn

    from plankwise.training.job import Job, Outcome
    from plankwise.training.stage import Stage


class Options(SectionOptions):
    name: Literal["layerdrop"] = Field("layerdrop", description="this method")
    p: float = Field(0.5, ge=0, lt=1, description="probability that a step leaves a block out")


def defaults(section: dict[str, Any]) -> dict[str, dict]:
    """What this method changes in the defaults of other sections."""
    return {"training": {"learning_rate": 1e-4, "warmup_share": 0.1}}


def compress(job: Job, options: Options) -> Outcome:
    """Trains the whole predecessor with blocks left out, then keeps the lowest block of each span."""
    from plankwise.methods._droppable import DropCallback, install
    from plankwise.models.plans import build_successors
    from plankwise.training.job import Start

    stage = job.stage("layerdrop")
    blocks = install(job.predecessor, job.plan)
    _try_once(job.predecessor, stage)
    result = stage.run(job.predecessor, [DropCallback(blocks, options.p, job.seed)])
    for path, droppable in blocks.items():
        job.predecessor.set_submodule(path, droppable.block)
    successors = build_successors(job.predecessor, job.plan, init="lower", seed=job.seed)
    start = Start(job, successors)
    return start.outcome(truncate(start), result, init="lower")


def _try_once(model: nn.Module, stage: Stage) -> None:
    """One pass, so that it is known what the blocks return."""
    import torch

    from plankwise.data.batch import sorted_batches

    _, batch = next(sorted_batches(stage.train, stage.tokenizer, batch_size=1))
    model.eval()
    with torch.inference_mode():
        model(**batch.to(next(model.parameters()).device))
