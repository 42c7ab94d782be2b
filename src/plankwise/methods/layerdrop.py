"""LayerDrop (Fan et al. 2020, arXiv:1909.11556): all blocks are trained while each is left out at times; then some are kept.

In each training step every block of a span is skipped with probability `p`, unscaled. The successor keeps the lowest block of each
span: for spans of two that is every other layer. The published work drops layers in pretraining, too; here, as in Xu et al. 2020,
only fine-tuning does. The blocks are the predecessor's own, so `plan.init` is not read.
"""

from typing import Any, Literal

import torch
from pydantic import Field
from torch import nn
from transformers import TrainerCallback

from plankwise.core.plan import Plan
from plankwise.core.schedule import draw_mask
from plankwise.core.slot import StandIn, state_given, state_of
from plankwise.data.batch import sorted_batches
from plankwise.errors import PlanError
from plankwise.methods.finetune import truncate
from plankwise.models.plans import build_successors
from plankwise.options import Options as SectionOptions
from plankwise.training.job import Job, Outcome, Start
from plankwise.training.stage import Stage


class Options(SectionOptions):
    name: Literal["layerdrop"] = Field("layerdrop", description="this method")
    p: float = Field(0.5, ge=0, lt=1, description="probability that a step leaves a block out")


def defaults(section: dict[str, Any]) -> dict[str, dict]:
    """What this method changes in the defaults of other sections."""
    return {"training": {"learning_rate": 1e-4, "warmup_share": 0.1}}


def compress(job: Job, options: Options) -> Outcome:
    """Trains the whole predecessor with blocks left out, then keeps the lowest block of each span."""
    stage = job.stage("layerdrop")
    blocks = install(job.predecessor, job.plan)
    _try_once(job.predecessor, stage)
    result = stage.run(job.predecessor, [DropCallback(blocks, options.p, job.seed)])
    for path, droppable in blocks.items():
        job.predecessor.set_submodule(path, droppable.block)
    successors = build_successors(job.predecessor, job.plan, init="lower", seed=job.seed)
    return Start(job, successors).outcome(truncate(job, successors), result, init="lower")


class ChainState:
    """What the blocks of one chain share: what a block returns beside its state, as the latest that ran returned it."""

    def __init__(self) -> None:
        self.returns_more: bool | None = None
        self.rest: dict[torch.device, tuple] = {}


class Droppable(StandIn):
    """A block that is left out when `dropped` in training, and outside of it unless it is `kept` for the successor."""

    def __init__(self, block: nn.Module, chain: ChainState, *, kept: bool, first: bool) -> None:
        super().__init__(block)
        self.chain = chain
        self.kept = kept
        self.first = first
        self.dropped = False

    def runs(self) -> tuple[nn.Module, ...]:
        """What runs here now: the block, unless it is left out."""
        left_out = self.dropped if self.training else not self.kept
        return () if left_out else (self.block,)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        chain = self.chain
        state = state_given(args, kwargs)
        if self.first:
            chain.rest.pop(state.device, None)
        if not self.runs():
            if not chain.returns_more:
                return state
            if (rest := chain.rest.get(state.device)) is not None:
                return (state, *rest)
            # What later blocks need beside the state (T5's relative positions) nobody has made yet: this block has to run.
        output = self.block(*args, **kwargs)
        chain.returns_more = isinstance(output, tuple)
        if chain.returns_more:
            chain.rest[state_of(output).device] = output[1:]
        return output


class DropCallback(TrainerCallback):
    """Decides at each step which blocks are left out, by the seed and the step alone."""

    def __init__(self, blocks: dict[str, Droppable], p: float, seed: int) -> None:
        self.blocks = blocks
        self.p = p
        self.seed = seed

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        mask = draw_mask(self.seed, state.global_step, self.p, len(self.blocks))
        for block, dropped in zip(self.blocks.values(), mask, strict=True):
            block.dropped = dropped


def install(model: nn.Module, plan: Plan) -> dict[str, Droppable]:
    """Makes every block of the plan's spans droppable; gives them by path.

    Raises:
        PlanError: a slot is no span of blocks.
    """
    blocks: dict[str, Droppable] = {}
    chains: dict[str, ChainState] = {}
    for slot in plan.slots:
        if not slot.span:
            raise PlanError(
                f"method layerdrop leaves blocks of a chain out, and slot {slot} is none; give successors or spans"
            )
        chain = chains.setdefault(slot.path, ChainState())
        for index, path in zip(slot.span, slot.places, strict=True):
            kept = index == slot.span[0]
            blocks[path] = Droppable(model.get_submodule(path), chain, kept=kept, first=not _before(chain, blocks))
            model.set_submodule(path, blocks[path])
    return blocks


def _before(chain: ChainState, blocks: dict[str, Droppable]) -> bool:
    return any(block.chain is chain for block in blocks.values())


def _try_once(model: nn.Module, stage: Stage) -> None:
    """One pass, so that it is known what the blocks return."""
    _, batch = next(sorted_batches(stage.train, stage.tokenizer, batch_size=1))
    model.eval()
    with torch.inference_mode():
        model(**batch.to(next(model.parameters()).device))
