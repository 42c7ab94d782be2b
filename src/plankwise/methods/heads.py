"""Head pruning (Michel et al. 2019, arXiv:1905.10650): heads that the loss depends on least are taken out, a few at a time.

I_h = E |Att_h(x) · ∂L/∂Att_h(x)|, token by token on training examples, divided by the L2 norm of I over a block's heads; the lowest
of all go, but one stays in each block. As many go in each of `rounds`, after which the model is trained for its share of the steps.
What is left has smaller matrices: it is a smaller and faster model, not a masked one.

The paper prunes a trained model and does not train it again; its code computes I once unless told otherwise, here each round
computes it anew. The plan's successors are pruned: with as many successors as blocks, heads alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from plankwise.core.plan import Plan, Slot
from plankwise.errors import PlanError
from plankwise.methods.finetune import truncate
from plankwise.options import Options as SectionOptions

if TYPE_CHECKING:
    import torch
    from torch import nn

    from plankwise.training.job import Job, Outcome
    from plankwise.training.stage import Stage, StageResult

SMALLER = True
BATCH_SIZE = 32
TINY = 1e-20  # as in the authors' code: what is added to a norm


class Options(SectionOptions):
    name: Literal["heads"] = Field("heads", description="this method")
    keep: float = Field(0.5, gt=0, le=1, description="share of all heads that stay; one in each block at least")
    rounds: int = Field(4, ge=1, description="how often heads are taken out, each time followed by training")
    examples: int = Field(1000, ge=1, description="training examples that each round's importance is computed on")


def defaults(section: dict[str, Any]) -> dict[str, dict]:
    """What this method changes in the defaults of other sections."""
    return {"training": {"learning_rate": 1e-4, "warmup_share": 0.1}}


def compress(job: Job, options: Options) -> Outcome:
    """Truncates the predecessor by the plan, then takes heads out and trains in turns."""
    from plankwise.models.collapsing import rebuild
    from plankwise.parts import keep_heads

    check_plan(job.predecessor, job.plan)
    start = job.start(gains=any(len(slot.span) > 1 for slot in job.plan.slots))
    if options.keep == 1:
        whole = truncate(start)
        return start.outcome(whole, start.stage("heads").run(whole, reads_first_token=True))
    stages = start.stages({f"heads-{number}": 1.0 for number in range(1, options.rounds + 1)})
    student = truncate(start)
    blocks = [job.plan.after_collapse(slot.places[0]) for slot in job.plan.slots]
    before = [count_heads(student.get_submodule(path)) for path in blocks]
    results, told = [], []
    for number, stage in enumerate(stages, start=1):
        left = count_kept(sum(before), len(before), options, number)
        found = find_scores(job.stage(f"importance-{number}"), student, blocks, options.examples)
        results.append(found.stage)
        for block, kept in zip(map(student.get_submodule, blocks), choose_heads(found.scores, left), strict=True):
            keep_heads(block, _heads(block), kept.to(next(block.parameters()).device))
        told.append([count_heads(student.get_submodule(path)) for path in blocks])
        results.append(stage.run(student, reads_first_token=True))
    shares = [after / count for after, count in zip(told[-1], before, strict=True)]
    alone = Plan(tuple(_thin(Slot(*_place(path)), share) for path, share in zip(blocks, shares, strict=True)))
    lengths = {path: len(student.get_submodule(path)) for path in job.plan.chains}  # type: ignore[arg-type]
    outcome = start.outcome(rebuild(student, alone, lengths), *results, heads={"before": before, "after_rounds": told})
    slots = [_thin(slot, share) for slot, share in zip(job.plan.slots, shares, strict=True)]
    return replace(outcome, plan=Plan(tuple(slots)))


def check_plan(model: Any, plan: Plan) -> None:
    """Lets plans pass whose successors are blocks of the predecessor's own kind with heads that can be taken out.

    Raises:
        PlanError: another part stands in a slot, or heads cannot be taken out.
    """
    from plankwise.parts import removable_heads

    for slot in plan.slots:
        if not slot.span or slot.part != "layers":
            raise PlanError(
                f"method heads takes heads out of blocks of the predecessor's own kind, and slot {slot} holds the part "
                f"{slot.part!r}; set plan.part = 'layers', or choose plan.part = 'thin' with another method"
            )
        block = model.get_submodule(slot.places[0])
        try:
            if (count := len(removable_heads(block, getattr(model, "config", None)))) > 1:
                raise PlanError(f"it has {count} attentions, not one")
        except PlanError as error:
            raise PlanError(
                f"the heads of slot {slot}, a {type(block).__name__}, cannot be taken out: {error}; choose another method"
            ) from None


def count_heads(block: nn.Module) -> int:
    """How many heads a block has; those that share keys and values count as one."""
    return _heads(block).count


def _heads(block: nn.Module) -> Any:
    from plankwise.parts import heads_of

    return heads_of(block)[0]


def count_kept(total: int, blocks: int, options: Options, number: int) -> int:
    """How many heads of so many are left after a round, counted from 1: as many go in each, and one stays in each block."""
    removed = total - max(blocks, round(options.keep * total))
    return total - round(removed * number / options.rounds)


@dataclass(frozen=True)
class Importance:
    """How much the loss depends on each head, block by block, each block's divided by its L2 norm."""

    scores: list[torch.Tensor]
    stage: StageResult  # without steps: what it took
    memory: dict[str, int]


def find_scores(stage: Stage, model: nn.Module, blocks: list[str], examples: int) -> Importance:
    """Computes importance on some of the stage's examples, drawn by its seed; where a rehearsal skips it, all heads are alike."""
    import time

    import numpy as np
    import torch

    from plankwise.solving.bench import mask_name
    from plankwise.solving.importance import find_importance
    from plankwise.training.stage import StageResult

    heads = [_heads(model.get_submodule(path)) for path in blocks]
    counts = {f"{path}.{one.output}": one.count for path, one in zip(blocks, heads, strict=True)}
    rows = np.random.default_rng(stage.context.seed).permutation(len(stage.train.lengths))[:examples]
    tokens = np.cumsum(stage.train.lengths[rows])

    def give(scores: list[torch.Tensor], seconds: float) -> Importance:
        took = StageResult(stage.name, 0, 0, seconds, seconds, best_step=0, best_score=0.0)
        return Importance(scores, took, {"weights": sum(parameter.nbytes for parameter in model.parameters())})

    def work(most: int) -> Importance:
        started = time.monotonic()
        device = next(model.parameters()).device
        some = rows[: max(1, int((tokens <= most).sum()))].tolist()
        parts = [some[start : start + BATCH_SIZE] for start in range(0, len(some), BATCH_SIZE)]
        batches = (stage.batch_of(part, device) for part in parts)
        found = find_importance(
            model.eval(), model, counts, batches, lambda output: output["loss"], mask=mask_name(model, blocks[0])
        )
        return give([found[path] / (found[path].norm() + TINY) for path in counts], time.monotonic() - started)

    found = stage.context.on_main(lambda: stage.compute(work, int(tokens[-1])))
    return found or give([torch.ones(count) for count in counts.values()], 0.0)


def choose_heads(scores: list[torch.Tensor], left: int) -> list[torch.Tensor]:
    """Block by block the numbers of the heads that stay: `left` in all, the best, and the best of each block in any case."""
    import torch

    order = sorted((float(score), block, head) for block, some in enumerate(scores) for head, score in enumerate(some))
    kept = [set(range(len(some))) for some in scores]
    for _, block, head in order:
        if sum(map(len, kept)) == left:
            break
        if len(kept[block]) > 1:
            kept[block].discard(head)
    return [torch.tensor(sorted(some)) for some in kept]


def _place(path: str) -> tuple[str, tuple[int, ...]]:
    chain, _, index = path.rpartition(".")
    return chain, (int(index),)


def _thin(slot: Slot, share: float) -> Slot:
    return slot if share == 1 else replace(slot, part="thin", options={"ffn": 1.0, "heads": share})
