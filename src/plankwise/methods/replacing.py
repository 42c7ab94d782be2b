"""Progressive module replacing, Theseus Compression (Xu et al. 2020, arXiv:2002.02925).

While the rate is below 1, a coin per slot and step decides whether the span or its successor runs; only successors are trained,
on the task's own loss. Once the rate is 1 the successors alone are fine-tuned, with `unfreeze` beside them.

Mode `reference` does what the published code does instead: gradients of frozen weights count when clipping, momentum moves
successors that were not drawn, dropout is active in frozen modules, successors start from the first blocks, the learning rate
falls linearly from the first step. One difference stays: masks are drawn once per optimiser step, not per micro-batch.

What the paper does not do: `alpha` adds the predecessor's logits as a second target; `attention` adds attention scores before
softmax as another, for each successor that runs those of its span's last block in the predecessor; `mix = "blend"` runs span and
successor both and adds their states, the successor's with the rate as its weight, instead of tossing a coin (as VCON does); `local`
then adds how far each successor is from its span on the same input, the error of the fitted start; and the plateau schedule
raises the rate when the hybrid's score on dev has stopped improving.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, field_serializer, field_validator, model_validator

from plankwise.config import Unfreeze
from plankwise.core.schedule import Linear, Plateau, Schedule, describe_schedule, make_schedule
from plankwise.errors import ConfigError
from plankwise.methods._matching import Teacher, check_spans, transferring
from plankwise.options import Options as SectionOptions

if TYPE_CHECKING:
    import torch
    from torch import nn

    from plankwise.task_kinds import Loss
    from plankwise.training.job import Job, Outcome
    from plankwise.training.ship import Ship

IMITATES = True
KEEPS_HEAD = True  # spans and successors take turns before it
BINS = 200  # of the masks in the record
MODES: dict[str, dict[str, Any]] = {
    "clean": {
        "schedule": Linear(start=0.3, full_at=0.5),
        "unfreeze": "nothing",
        "clip_scope": "trained",
        "idle_momentum": False,
        "frozen_dropout": False,
    },
    "reference": {
        "schedule": Linear(start=0.3, full_at=0.68),
        "unfreeze": "nothing",
        "clip_scope": "all",
        "idle_momentum": True,
        "frozen_dropout": True,
    },
}


class Options(SectionOptions):
    name: Literal["replacing"] = Field("replacing", description="this method")
    mode: Literal["clean", "reference"] = Field(
        "clean", description="what the method means, or what its published code does; sets the keys below together"
    )
    schedule: Any = Field(
        MODES["clean"]["schedule"], description="kind and its own keys; see `plankwise list schedules`"
    )
    unfreeze: Unfreeze = Field("nothing", description="what is trained beside the successors once the rate is 1")
    clip_scope: Literal["trained", "all"] = Field("trained", description="whose gradients count when clipping")
    idle_momentum: bool = Field(False, description="momentum moves successors that were not drawn")
    frozen_dropout: bool = Field(False, description="dropout is active in frozen modules")
    alpha: float = Field(0.0, ge=0, le=1, description="weight of the predecessor's logits; the labels have the rest")
    T: float = Field(5.0, gt=0, description="temperature of the predecessor's logits")
    mix: Literal["coin", "blend"] = Field("coin", description="one of span and successor runs, or both, by weight")
    attention: float = Field(0.0, ge=0, description="weight of attention scores, beside the others")
    local: float = Field(
        0.0, ge=0, description="for mix = blend: weight of each successor's relative error from its span while both run"
    )

    @model_validator(mode="before")
    @classmethod
    def _fill_in_the_mode(cls, data: dict) -> dict:
        mode = data.get("mode")
        return {**MODES[mode if isinstance(mode, str) and mode in MODES else "clean"], **data}

    @field_validator("schedule", mode="before")
    @classmethod
    def _read_schedule(cls, value: Any) -> Schedule:
        return make_schedule(value)

    @model_validator(mode="after")
    def _local_where_both_run(self) -> Self:
        if self.local and self.mix != "blend":
            raise ConfigError(
                f"local is {self.local:g}, but mix is {self.mix!r}, where span and successor never run together; "
                "set mix = 'blend', or leave local at 0"
            )
        return self

    @field_serializer("schedule")
    def _write_schedule(self, value: Schedule) -> dict:
        return describe_schedule(value)


def defaults(section: dict[str, Any]) -> dict[str, dict]:
    """What this method changes in the defaults of other sections."""
    if section.get("mode") == "reference":
        return {"training": {"learning_rate": 2e-5}, "plan": {"init": "first"}}
    return {"training": {"learning_rate": 1.5e-4}}


def reads_logits(options: Options) -> bool:
    return options.alpha > 0


def matching_locally(loss: Loss, ship: Ship, weight: float) -> Loss:
    """A loss that runs the ship, with `weight` times the successors' relative error from their spans where both ran."""
    from plankwise.training.fitting import local_error, mask_name

    masks = [mask_name(ship, slot.path) for slot in ship.plan.slots]

    def both(model: nn.Module, inputs: dict[str, torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
        told = loss(model, inputs, rows)
        error = local_error(ship.slots, masks, inputs)
        return told if error is None else told + weight * error

    return both


def _bin_masks(ship: Ship, steps: int) -> list[dict]:
    """How often each slot was replaced, over at most BINS runs of steps."""
    width = max(1, math.ceil(steps / BINS))
    runs = [range(start, min(start + width, steps)) for start in range(0, steps, width)]
    return [{"step": run.start, "steps": len(run), "replaced": ship.count_replaced(run)} for run in runs]


def compress(job: Job, options: Options) -> Outcome:
    """Trains the successors in place of their spans, then takes the predecessor out."""
    from plankwise.core.hybrid import Rules
    from plankwise.training.losses import distilling, task_loss
    from plankwise.training.ship import launch
    from plankwise.training.targets import read_logits

    if options.attention:
        check_spans(job.plan, "replacing with attention", "leave method.attention at 0")
    start = job.start(gains=True)
    stage = start.stage("replacing")
    targets = stage.targets(job.predecessor, read_logits) if options.alpha else None
    rules = Rules(
        frozen_dropout=options.frozen_dropout,
        frozen_gradients=options.clip_scope == "all",
        idle_momentum=options.idle_momentum,
        blend=options.mix == "blend",
        pair=options.local > 0,
    )
    teacher = Teacher(job.predecessor) if options.attention else None
    ship = launch(
        job.predecessor,
        job.plan,
        start.successors,
        options.schedule,
        seed=job.seed,
        unfreeze=options.unfreeze,
        rules=rules,
    )
    loss = distilling(targets, options.alpha, options.T, task=stage.loss) if targets else task_loss(stage.loss)
    if options.local:
        loss = matching_locally(loss, ship, options.local)
    pairs = [(slot.places[-1], f"{slot.places[0]}.successor") for slot in job.plan.slots]
    with transferring(loss, ship, teacher, pairs, stage, options.attention) as loss:
        result = stage.run(
            ship,
            [ship.callback(stage.score)],
            loss=loss,
            reads_first_token=not (options.attention or options.local),
            settled=lambda: ship.settled,
            describe=lambda: f"rate {ship.rate:.2f}  ",
        )
    ship.recall(result.history)
    ship.begin(result.max_steps)
    notes: dict[str, Any] = {"targets": targets.to_json(stage.passes)} if targets else {}
    if isinstance(ship.schedule, Plateau):
        notes["rises"] = list(ship.schedule.rises)
    notes["masks"] = {"slots": [str(slot) for slot in job.plan.slots], "bins": _bin_masks(ship, result.steps)}
    return start.outcome(ship.collapse(), result, skipped_steps=ship.count_skipped(result.steps), **notes)
