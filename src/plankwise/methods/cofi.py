"""Joint structured pruning, after CoFi (Xia et al. 2022, arXiv:2204.00408): what stays of blocks, heads and channels is learnt.

L = (1 − alpha) · task's loss + alpha · distance from the predecessor's logits + λ₁ · d + λ₂ · d², where d is the expected share of
the blocks' multiply-adds that gates leave, less the share aimed at, which falls in a line from 1 to 1 / `target`; λ are learnt the
other way. Then what is shut is taken out: blocks leave the chain, heads and channels leave their matrices, and the smaller model
is trained for the rest of the steps. Gates: `training/gates.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from plankwise.core.plan import Plan, Slot
from plankwise.errors import PlanError
from plankwise.methods.finetune import truncate
from plankwise.options import Options as SectionOptions

if TYPE_CHECKING:
    import torch
    from torch import nn

    from plankwise.task_kinds import Loss
    from plankwise.training.gates import Choice, Gates
    from plankwise.training.job import Job, Outcome

SMALLER = True


class Options(SectionOptions):
    name: Literal["cofi"] = Field("cofi", description="this method")
    target: float = Field(2.0, ge=1, description="speed aimed at: 2 leaves half of the blocks' multiply-adds")
    share: float = Field(0.5, gt=0, lt=1, description="share of the steps in which gates are learnt, before the cut")
    warmup: float = Field(0.5, ge=0, le=1, description="share of those steps over which the target is reached")
    mask_learning_rate: float = Field(0.1, gt=0, description="learning rate of the gates and of their prices")
    alpha: float = Field(0.5, ge=0, le=1, description="weight of the predecessor's logits; the labels have the rest")
    T: float = Field(2.0, gt=0, description="temperature of the predecessor's logits")


def defaults(section: dict[str, Any]) -> dict[str, dict]:
    """What this method changes in the defaults of other sections."""
    return {"training": {"learning_rate": 1e-4, "warmup_share": 0.1}}


def reads_logits(options: Options) -> bool:
    return options.alpha > 0


def compress(job: Job, options: Options) -> Outcome:
    """Truncates the predecessor by the plan, learns what to leave out of it, takes that out and trains the rest."""
    from plankwise.models.collapsing import rebuild
    from plankwise.training.gates import Gates, GatesCallback, attach
    from plankwise.training.losses import distilling, task_loss
    from plankwise.training.targets import read_logits

    check_plan(job.predecessor, job.plan)
    start = job.start(gains=True)
    shares = {"gates": options.share, "cofi": 1 - options.share} if options.target > 1 else {"cofi": 1.0}
    *before, stage = start.stages(shares)
    targets = stage.targets(job.predecessor, read_logits) if options.alpha else None
    notes: dict[str, Any] = {"targets": targets.to_json(stage.passes)} if targets else {}
    loss = distilling(targets, options.alpha, options.T, task=stage.loss) if targets else task_loss(stage.loss)
    student: Any = truncate(start)
    if not before:
        return start.outcome(student, stage.run(student, loss=loss, reads_first_token=True), **notes)
    paths = [job.plan.after_collapse(slot.places[0]) for slot in job.plan.slots]
    blocks = [student.get_submodule(path) for path in paths]
    speed = options.mask_learning_rate / before[0].options.learning_rate
    gates = Gates([rows_of(block) for block in blocks], 1 / options.target, speed).to(next(student.parameters()).device)
    student.add_module("gates", gates)  # inside the model: the best weights are those of its gates, too
    handles = attach(gates, blocks)
    learnt = before[0].run(
        student,
        [GatesCallback(gates, options.warmup)],
        loss=gated(loss, gates),
        describe=lambda: f"{gates.left:.0%} aimed at  ",
    )
    for handle in handles:
        handle.remove()
    left = float(gates.share(gates.eval().values()))
    chosen = gates.choose()
    del student.gates
    lengths = {path: len(student.get_submodule(path)) for path in job.plan.chains}
    cut(student, paths, chosen)
    alone = tuple(Slot(*_place(path)) for path in paths)
    model = rebuild(student, merged(alone, gates, chosen), lengths)
    result = stage.run(model, loss=loss, reads_first_token=True)
    told = [[len(units) for units in one.units] if one.stays else [] for one in chosen]
    outcome = start.outcome(model, learnt, result, gates={"left": left, "heads_and_channels": told}, **notes)
    return replace(outcome, plan=merged(job.plan.slots, gates, chosen))


def gated(loss: Loss, gates: Gates) -> Loss:
    """A loss with gates drawn anew for each batch, and with what they cost."""

    def both(model: nn.Module, inputs: dict[str, torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
        gates.draw()
        return loss(model, inputs, rows) + gates.penalty()

    return both


def check_plan(model: Any, plan: Plan) -> None:
    """Lets plans pass whose successors are blocks of the predecessor's own kind with heads and channels that can be taken out.

    Raises:
        PlanError: another part stands in a slot, heads or channels cannot be taken out, or blocks are left alone.
    """
    from plankwise.parts import channels_of, removable_heads

    for slot in plan.slots:
        if not slot.span or slot.part != "layers":
            raise PlanError(
                f"method cofi prunes blocks of the predecessor's own kind, and slot {slot} holds the part {slot.part!r}; "
                "set plan.part = 'layers', or choose another method"
            )
        block = model.get_submodule(slot.places[0])
        try:
            channels_of(block)
            if (count := len(removable_heads(block, getattr(model, "config", None)))) > 1:
                raise PlanError(f"it has {count} attentions, not one")
        except PlanError as error:
            raise PlanError(
                f"slot {slot}, a {type(block).__name__}, cannot be pruned: {error}; choose another method"
            ) from None
    for path in plan.chains:
        chain: Any = model.get_submodule(path)
        spans = [index for slot in plan.slots for index in slot.span if slot.path == path]
        if spans != list(range(len(chain))) or len(plan.chains) > 1:
            raise PlanError(
                f"method cofi prunes one chain of blocks, all of it, and the plan has slots for {len(set(spans))} of "
                f"{len(chain)} blocks of {path} (chains: {len(plan.chains)}); give plan.successors, or choose another method"
            )


def rows_of(block: nn.Module) -> list[Any]:
    """The heads and the channels of a block, with the multiply-adds that each has in linear maps."""
    from plankwise.parts import channels_of, heads_of
    from plankwise.training.gates import Row

    rows = []
    for units in (heads_of(block)[0], channels_of(block)):
        paths = [*(feed.path for feed in units.feeds), units.output]
        maps: list[Any] = [block.get_submodule(path) for path in paths]
        weights = sum(one.weight.numel() for one in maps)
        rows.append(Row(units.output, units.count, units.size, weights // units.count))
    return rows


def cut(student: nn.Module, paths: list[str], chosen: list[Choice]) -> None:
    """Takes out of the model what does not stay."""
    from plankwise.parts import channels_of, heads_of, keep_heads

    for path, one in zip(paths, chosen, strict=True):
        block = student.get_submodule(path)
        device = next(block.parameters()).device
        for units, numbers in zip((heads_of(block)[0], channels_of(block)), one.units, strict=True):
            if len(numbers) < units.count:
                keep_heads(block, units, numbers.to(device))
    for path, one in reversed(list(zip(paths, chosen, strict=True))):
        if not one.stays:
            name, (index,) = _place(path)
            chain: Any = student.get_submodule(name)
            del chain[index]


def merged(slots: tuple[Slot, ...], gates: Gates, chosen: list[Choice]) -> Plan:
    """The plan of what is left: a block that goes belongs to the span of the one that stays before it, or else after it."""
    found: list[Slot] = []
    waiting: tuple[int, ...] = ()
    for slot, rows, one in zip(slots, gates.rows, chosen, strict=True):
        if one.stays:
            shares = [len(units) / row.count for units, row in zip(one.units, rows, strict=True)]
            thin: dict[str, Any] = (
                {"part": "thin", "options": {"heads": shares[0], "ffn": shares[1]}} if min(shares) < 1 else {}
            )
            found.append(replace(slot, span=waiting + slot.span, **thin))
            waiting = ()
        elif found:
            found[-1] = replace(found[-1], span=found[-1].span + slot.span)
        else:
            waiting += slot.span
    return Plan(tuple(found))


def _place(path: str) -> tuple[str, tuple[int, ...]]:
    chain, _, index = path.rpartition(".")
    return chain, (int(index),)
