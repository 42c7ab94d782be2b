"""What each slot costs: one successor at a time in an otherwise untouched predecessor (Xu et al. 2020, Table 5).

As in the paper (section 5.1) all successors are trained together at a constant rate without the phase at rate 1, and only then,
in inference, one of them stands in for its span while the predecessor does the rest. The paper does not say at which rate; here
it is 0.5, or the recipe's own if its schedule is constant. `all` is the successor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plankwise.config import RunConfig
from plankwise.core.schedule import Constant
from plankwise.errors import ConfigError
from plankwise.studies import Arm, Axis, Measured, Point, Published, StudyRequest, Trial
from plankwise.studies._choices import read_replacing, refuse_vocabulary, schedule_override
from plankwise.studies._trials import attempt_all, check_folders, configure, make_base, outline

if TYPE_CHECKING:
    from plankwise.run.sharing import ReadyPredecessor

MIN_RECIPES = 1
AXIS = Axis("slot in which the successor runs")
ALL = "all"
PUBLISHED = Published(
    source="Xu et al. 2020, Table 5",
    setting="BERT-base, 12 layers in 6 slots, GLUE dev, in percent",
    columns=("QNLI", "QNLI diff.", "MNLI", "MNLI diff.", "QQP", "QQP diff."),
    rows={
        "predecessor": (91.87, None, 84.54, None, 89.48, None),
        "1": (88.50, -3.37, 81.89, -2.65, 88.58, -0.90),
        "2": (90.54, -1.33, 83.33, -1.21, 88.43, -1.05),
        "3": (90.76, -1.11, 83.27, -1.27, 88.86, -0.62),
        "4": (90.46, -1.41, 83.34, -1.20, 88.86, -0.62),
        "5": (90.74, -1.13, 84.16, -0.38, 89.09, -0.39),
        "6": (90.57, -1.30, 84.09, -0.45, 89.06, -0.42),
    },
    places=2,
    remark="the text says that the first slot costs much and the last two little",
)


def plan(request: StudyRequest) -> list[Trial]:
    return [Trial(recipe, _arms(recipe, request.values)) for recipe in request.recipes]


def measure(trials: list[Trial], request: StudyRequest) -> list[Measured]:
    """Trains once per seed, then scores every hybrid on dev."""
    check_folders(run for trial in trials for run in _configs(trial, request).values())
    return [_measure(trial, request) for trial in trials]


def _configs(trial: Trial, request: StudyRequest) -> dict[int, RunConfig]:
    folder, overrides = request.folder / trial.name, trial.arms[0].overrides
    return {seed: configure(trial.recipe, folder / f"seed-{seed}", seed, overrides) for seed in request.seeds}


def _measure(trial: Trial, request: StudyRequest) -> Measured:
    from plankwise.models.plans import make_plan

    config, ready = make_base(trial.recipe, request)
    predecessor, task = ready.load(), ready.run.task
    configs = _configs(trial, request)
    found = attempt_all(
        configs,
        lambda seed, claim: score_slots(configs[seed], ready.held_by(claim)),
        request,
        lambda seed: f"{trial.name}: seed {seed}",
    )
    points = [
        Point(arm, seed, record.get(arm.at), failure) for seed, (record, failure) in found.items() for arm in trial.arms
    ]
    slots = make_plan(predecessor, config.plan).slots
    return Measured(
        task=trial.name,
        metric=" and ".join(task.score_names),
        arms=trial.arms,
        points=points,
        baseline=ready.run.score(predecessor)["score"],
        notes=["; ".join(f"slot {number}: {slot}" for number, slot in enumerate(slots, 1))],
    )


def score_slots(config: RunConfig, ready: ReadyPredecessor) -> dict[str, float]:
    """Trains by the config; the scores by slot, counted from 1, and of all slots together."""
    from transformers import set_seed

    from plankwise.models.plans import one_of, reassemble
    from plankwise.run.sharing import train_successor

    set_seed(config.run.seed)
    outcome = train_successor(config, ready)
    hybrid = reassemble(ready.load(), outcome.successor, outcome.plan)
    count = len(outcome.plan.slots)
    masks = {str(number): one_of(number, count) for number in range(1, count + 1)}
    scores = {}
    for name, mask in {**masks, ALL: (True,) * count}.items():
        with hybrid.masked(mask):
            scores[name] = ready.run.score(hybrid)["score"]
    return scores


def _arms(recipe: dict, values: list[str] | None) -> list[Arm]:
    from plankwise.models.plans import make_plan

    config = read_replacing(recipe, "impact")
    refuse_vocabulary(config, "impact")
    found = make_plan(outline(config), config.plan)
    known = [*(str(number) for number in range(1, len(found.slots) + 1)), ALL]
    for value in values or ():
        if value not in known:
            raise ConfigError(
                f"--values has the slot {value!r}, but the plan of {config.run.name} has the slots 1 to {len(found.slots)}; "
                f"give some of them, or {ALL}"
            )
    own = config.method.schedule
    rate = own.rate if isinstance(own, Constant) else Constant().rate
    constant = schedule_override("constant", {"rate": rate, "full_at": 1.0})
    overrides = (constant, "method.unfreeze=nothing")
    return [Arm(f"slot-{value}", value, overrides=overrides) for value in dict.fromkeys(values or known)]
