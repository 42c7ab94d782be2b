"""Compress on one task, then fine-tune on others (Xu et al. 2020, Table 4).

    plankwise study transfer source.toml target.toml …

The successor that was compressed on the source task is fine-tuned on each target task, beside the original predecessor as it was
given and its truncation by the same plan. All three lose whatever head they had and get a new one, even where the source's would
fit: its classes mean something else. Each target's `[predecessor.training]` says how all three are trained.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from plankwise.config import RunConfig, validate_config
from plankwise.context import open_context
from plankwise.errors import ConfigError
from plankwise.studies import Arm, Axis, Measured, Point, Published, StudyRequest, Trial
from plankwise.studies._choices import choose, refuse_vocabulary
from plankwise.studies._trials import attempt_all, check_folders, configure, make_base, outline

if TYPE_CHECKING:
    from torch import nn

    from plankwise.run.dividing import Claim
    from plankwise.run.inputs import Run
    from plankwise.run.sharing import ReadyPredecessor

MIN_RECIPES = 2  # to compress on, then to fine-tune on
AXIS = Axis("model that was fine-tuned")
ORIGINAL, TRUNCATED, SUCCESSOR = "original", "truncated", "successor"
VALUES = (ORIGINAL, TRUNCATED, SUCCESSOR)
PUBLISHED = Published(
    source="Xu et al. 2020, Table 4",
    setting="compressed on MNLI from 12 layers to 6, GLUE dev, in percent",
    columns=("MNLI", "MRPC", "QNLI", "QQP", "RTE", "SST-2", "STS-B"),
    rows={
        "BERT-base, 12 layers": (83.5, 89.5, 91.2, 89.8, 71.1, 91.5, 88.9),
        "DistilBERT": (79.0, 87.5, 85.3, 84.9, 59.9, 90.7, 81.2),
        "PD-BERT": (83.0, 87.2, 89.0, 89.1, 66.7, 91.1, None),
        "successor of MNLI": (82.1, 87.5, 88.8, 88.8, 70.1, 91.8, 87.8),
    },
    remark="the paper compares with DistilBERT and PD-BERT here, not with a truncated model",
)

Configs = dict[tuple[str, int], RunConfig]  # by model and seed


def plan(request: StudyRequest) -> list[Trial]:
    from plankwise.models.plans import make_plan

    source, *targets = request.recipes
    config = validate_config(source)
    refuse_vocabulary(config, "transfer")
    make_plan(outline(config), config.plan)
    for target in targets:
        path = validate_config(target).predecessor.path
        if path != config.predecessor.path:
            raise ConfigError(
                f"predecessor.path is {path!r} in the recipe {target['run']['name']} and {config.predecessor.path!r} in "
                f"{config.run.name}; a transfer starts from one predecessor: make them the same"
            )
    arms = [Arm(name, name) for name in choose(request.values, VALUES, VALUES, "model")]
    return [Trial(target, arms) for target in targets]


def measure(trials: list[Trial], request: StudyRequest) -> list[Measured]:
    """Compresses once per seed, then fine-tunes every model on every target with every seed."""
    source, seeds = request.recipes[0], request.seeds
    wanted = [arm.label for arm in trials[0].arms]
    sources = {(name, seed): _source_config(name, seed, request) for name in wanted for seed in seeds}
    targets = [_target_configs(trial, sources, request) for trial in trials]
    check_folders([*sources.values(), *(run for runs in targets for run in runs.values())])
    ready = make_base(source, request)[1] if SUCCESSOR in wanted else None

    def make(key: tuple[str, int], claim: Claim | None) -> dict:
        return _make_body(key[0], sources[key], ready and ready.held_by(claim), request.console)

    failures = {key: failure for key, (_, failure) in attempt_all(sources, make, request).items()}
    return [_measure(trial, runs, failures, request) for trial, runs in zip(trials, targets, strict=True)]


def _source_config(name: str, seed: int, request: StudyRequest) -> RunConfig:
    """What a model is made by; only the successor is another one with every seed."""
    source = request.recipes[0]
    folder = request.folder / source["run"]["name"] / name
    if name == SUCCESSOR:
        return configure(source, folder / f"seed-{seed}", seed)
    return configure(source, folder, validate_config(source).run.seed)


def _target_configs(trial: Trial, sources: Configs, request: StudyRequest) -> Configs:
    return {
        (name, seed): configure(
            trial.recipe,
            request.folder / trial.name / name / f"seed-{seed}",
            seed,
            (f"predecessor.path={body_of(config)}",),
        )
        for (name, seed), config in sources.items()
    }


def body_of(config: RunConfig) -> Path:
    """Where a model is kept without its head."""
    return Path(config.run.folder) / "body"


def _make_body(name: str, config: RunConfig, ready: ReadyPredecessor | None, console: Console) -> dict:
    from transformers import set_seed

    from plankwise.models.saving import save
    from plankwise.run.inputs import read_run
    from plankwise.run.sharing import train_successor

    set_seed(config.run.seed)
    model: Any
    if name == SUCCESSOR:
        assert ready is not None
        run, model = ready.run, train_successor(config, ready).successor
    else:
        run = read_run(config, open_context(console, Path(config.run.folder), config.run.seed))
        model = run.load(config.predecessor.path)
        if name == TRUNCATED:
            model = truncate(model, config)
    run.context.on_main(lambda: save(model.base_model, body_of(config), run.tokenizer))
    return {}


def truncate(model: nn.Module, config: RunConfig) -> nn.Module:
    """The model cut short by the config's plan, not trained."""
    from plankwise.models.plans import make_plan, try_plan

    return try_plan(model, make_plan(model, config.plan), init=config.plan.start, seed=config.run.seed)


def _measure(trial: Trial, runs: Configs, failures: dict[tuple[str, int], str], request: StudyRequest) -> Measured:
    from plankwise.run.inputs import read_run

    config = validate_config(trial.recipe)
    run = read_run(config, open_context(request.console, Path(config.run.folder), config.run.seed))
    arms = {arm.label: arm for arm in trial.arms}
    tuned = attempt_all(
        {key: own for key, own in runs.items() if not failures[key]},
        lambda key, claim: finetune(runs[key], run, claim),
        request,
        lambda key: f"{trial.name}: {key[0]}, seed {key[1]}",
    )
    points = []
    for key in runs:
        found, failure = ({}, failures[key]) if failures[key] else tuned[key]
        beyond = found.get("beyond_constant")
        points.append(Point(arms[key[0]], key[1], found.get("score"), failure, beyond_constant=beyond))
    measured = Measured(trial.name, " and ".join(run.task.score_names), trial.arms, points, None, ORIGINAL)
    return replace(measured, baseline=measured.median(arms[ORIGINAL])) if ORIGINAL in arms else measured


def finetune(config: RunConfig, shared: Run, claim: Claim | None = None) -> dict:
    """Trains the config's predecessor, with a new head, on the shared run's task; its score on dev."""
    from transformers import set_seed

    from plankwise.run.dividing import held_by
    from plankwise.runtimes.torch import TorchPredictor

    context = held_by(shared.context.at(Path(config.run.folder), config.run.seed), claim)
    run = replace(shared, config=config, context=context)
    set_seed(config.run.seed)  # the head's weights too
    model = run.load(config.predecessor.path)
    result = run.stage("transfer", config.predecessor.training).run(model, reads_first_token=True)
    _, found, _ = run.context.on_main(lambda: run.task.examine(TorchPredictor(model)))
    return {"score": result.best_score, "beyond_constant": found}
