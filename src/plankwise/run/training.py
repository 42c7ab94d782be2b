"""How a run trains: its predecessor as a whole, its successor by a method, the truncated model beside it."""

from dataclasses import replace

from torch import nn

from plankwise.config import QuantisingOptions, RunConfig
from plankwise.core.plan import Plan
from plankwise.families import head_of
from plankwise.kinds import load_kind
from plankwise.report.remarks import guard_remarks
from plankwise.run.augmentation import material_of
from plankwise.run.inputs import Predecessor, Run
from plankwise.run.quantising import divide, quantise
from plankwise.runtimes.torch import TorchPredictor
from plankwise.training.augmentation import NAME as AUGMENTATION
from plankwise.training.job import Job, Outcome
from plankwise.training.stage import StageResult, trained_alone

PREDECESSOR, SUCCESSOR, TRUNCATED = "predecessor", "successor", "truncated"
EVALUATIONS = "evaluations"
TRUNCATION = "finetune"  # the method


def make_ready(predecessor: Predecessor) -> dict[str, StageResult]:
    """Trains the predecessor if it has to be, saves it, and looks at what it has learnt; gives the stages of that."""
    if not predecessor.needs_training:
        return {}
    run, model = predecessor.run, predecessor.take()
    stages = train_whole(run, model, PREDECESSOR, new_head=not predecessor.has_head)
    predecessor.path = str(run.save(model, PREDECESSOR))
    predecessor.model, predecessor.needs_training = model, False
    with run.timed(EVALUATIONS):
        check_learnt(predecessor)
    return stages


def check_learnt(predecessor: Predecessor, *, given: bool = False) -> None:
    """Looks at what the predecessor has learnt.

    Raises:
        RunError: nothing that could be kept.
    """
    predecessor.run.context.on_main(lambda: look_at(predecessor, given=given))


def look_at(predecessor: Predecessor, *, given: bool) -> None:
    """The same on this rank alone; notes what is wrong but was to be ignored."""
    run, model = predecessor.run, predecessor.model
    assert model is not None
    found = run.task.check_predecessor(TorchPredictor(model), predecessor.path, given=given)
    predecessor.ignored_guards = found or {}
    for line in guard_remarks(predecessor.ignored_guards):
        run.context.console.print(line, soft_wrap=True)


def train_whole(run: Run, model: nn.Module, name: str, *, new_head: bool) -> dict[str, StageResult]:
    """Trains all of a model as `predecessor.training` says; a new head that asks for it first learns alone for a share."""
    options, alone = run.config.predecessor.training, run.task.head_alone
    stage = run.stage(name, options)
    if alone is None or not new_head:
        return {name: stage.run(model, reads_first_token=True)}
    steps = max(1, round(alone.share * stage.num_steps))
    with trained_alone(model, head_of(model)):
        head = run.stage("head", options).with_steps(steps, learning_rate=alone.learning_rate, evaluate_every=steps)
        stages = {"head": head.run(model, reads_first_token=True)}
    if steps < stage.num_steps:
        stages[name] = stage.with_steps(stage.num_steps - steps).run(model, reads_first_token=True)
    return stages


def train(run: Run, plan: Plan, predecessor: nn.Module) -> Outcome:
    """Trains by the method of the run's config, then for int8 if that is asked for; the predecessor is given away."""
    method, quantising = run.config.method, run.config.training.quantising
    compress = load_kind("methods", method.name, key="method.name").compress
    if not quantising.share:
        return compress(_make_job(run, plan, predecessor), method)
    before, last = divide(run)
    outcome = compress(_make_job(before, plan, predecessor), method)
    return quantise(outcome, last, safe_range=None if quantising.safe_range == "auto" else quantising.safe_range)


def train_truncated(run: Run, plan: Plan, predecessor: nn.Module, outcome: Outcome) -> Outcome:
    """The truncated model, trained for as many steps as the successor, or not at all; the predecessor is given away.

    None of the steps is for int8: what others would be trained for instead is the model in float32.
    """
    if outcome.steps:
        # An epoch of examples with copies has more steps than one without.
        steps = sum(stage.max_steps for stage in outcome.stages.values()) if AUGMENTATION in outcome.notes else None
        return train(_with_truncation(run, steps), plan, predecessor)
    job = replace(_make_job(_with_truncation(run), plan, predecessor), imitation=None)
    start = job.start()
    model = load_kind("methods", TRUNCATION, key="method.name").truncate(start)
    return start.outcome(model, StageResult(TRUNCATED, 0, 0, 0.0, 0.0, best_step=0, best_score=0.0))


def _make_job(run: Run, plan: Plan, predecessor: nn.Module) -> Job:
    config, held_out = run.config, run.task.held_out
    if run.rehearse is not None:  # one text is enough to see what is done with them
        held_out = replace(held_out, dataset=held_out.dataset.select([0]), lengths=held_out.lengths[:1])
    return Job(
        predecessor=predecessor,
        plan=plan,
        options=config.plan,
        seed=run.context.seed,
        max_length=config.training.max_length,
        held_out=held_out,
        stage=lambda name: run.stage(name, config.training),
        score_examples=run.task.score_examples,
        imitation=run.task.imitation,
        material=material_of(run),
    )


def has_truncated(config: RunConfig) -> bool:
    """Whether the truncated model is trained beside the successor; a run whose method is truncation has it already."""
    return config.evaluation.truncated and config.method.name != TRUNCATION


def _with_truncation(run: Run, steps: int | None = None) -> Run:
    """The same run for the truncated model, whose method is truncation; `steps`, if they are not what the config says."""
    config = run.config
    module = load_kind("methods", TRUNCATION, key="method.name")
    changes = {**module.defaults({})["training"], "quantising": QuantisingOptions()}
    changes |= {} if steps is None else {"max_steps": steps}
    training = config.training.model_copy(update=changes)
    plan = config.plan.model_copy(update={"init": config.plan.start})
    return replace(
        run, config=config.model_copy(update={"method": module.Options(), "training": training, "plan": plan})
    )
