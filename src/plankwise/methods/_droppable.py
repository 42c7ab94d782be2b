"""Blocks that a training step may leave out: what LayerDrop puts in the place of the predecessor's own."""

from typing import Any

import torch
from torch import nn
from transformers import TrainerCallback

from plankwise.core.plan import Plan
from plankwise.core.schedule import draw_mask
from plankwise.core.slot import StandIn, state_given, state_of
from plankwise.errors import PlanError


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
