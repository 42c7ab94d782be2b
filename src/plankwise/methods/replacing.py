"""Progressive module replacing, Theseus Compression (Xu et al. 2020, arXiv:2002.02925).

While the rate is below 1, a coin per slot and step decides whether the span or its successor runs; only successors are trained,
on the task's own loss. Once the rate is 1 the successors alone are fine-tuned, with `unfreeze` beside them.

Mode `reference` does what the published code does instead: gradients of frozen weights count when clipping, momentum moves
successors that were not drawn, dropout is active in frozen modules, successors start from the first blocks, the learning rate
falls linearly from the first step. One difference stays: masks are drawn once per optimiser step, not per micro-batch.
"""

from typing import Any, Literal

from pydantic import Field, field_serializer, field_validator, model_validator

from plankwise import config
from plankwise.core.hybrid import Rules
from plankwise.core.schedule import Linear, Schedule, describe_schedule, make_schedule
from plankwise.methods._job import Job, Outcome
from plankwise.training.ship import Unfreeze, build_successors, launch

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


class Options(config.Options):
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

    @model_validator(mode="before")
    @classmethod
    def _fill_in_the_mode(cls, data: dict) -> dict:
        return {**MODES.get(data.get("mode", "clean"), MODES["clean"]), **data}

    @field_validator("schedule", mode="before")
    @classmethod
    def _read_schedule(cls, value: Any) -> Schedule:
        return make_schedule(value)

    @field_serializer("schedule")
    def _write_schedule(self, value: Schedule) -> dict:
        return describe_schedule(value)


def defaults(section: dict[str, Any]) -> dict[str, dict]:
    """What this method changes in the defaults of other sections."""
    if section.get("mode") == "reference":
        return {"training": {"learning_rate": 2e-5}, "plan": {"init": "first"}}
    return {"training": {"learning_rate": 1e-4}}


def compress(job: Job, options: Options) -> Outcome:
    """Trains the successors in place of their spans, then takes the predecessor out."""
    successors = build_successors(job.predecessor, job.plan, init=job.init, seed=job.seed)
    rules = Rules(
        frozen_dropout=options.frozen_dropout,
        frozen_gradients=options.clip_scope == "all",
        idle_momentum=options.idle_momentum,
    )
    ship = launch(
        job.predecessor,
        job.plan,
        successors,
        options.schedule,
        seed=job.seed,
        unfreeze=options.unfreeze,
        rules=rules,
    )
    stage = job.stage("replacing")
    result = stage.run(
        ship, [ship.callback()], settled=lambda: ship.settled, describe=lambda: f"rate {ship.rate:.2f}  "
    )
    ship.begin(result.max_steps)
    return Outcome(ship.collapse(), result, ship.count_skipped(result.steps))
