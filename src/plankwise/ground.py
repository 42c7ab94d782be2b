"""What a run stands on: its examples, its predecessor, and how a model is trained on them.

Everything is read and checked first (a draft), then the run's folder is claimed, then the predecessor is made ready.
"""

import copy
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import nn
from transformers import set_seed

from plankwise import folders
from plankwise.config import FitOptions, RunConfig
from plankwise.core.plan import Plan
from plankwise.errors import ConfigError, PlankwiseError
from plankwise.estimate.notebook import EVALUATIONS
from plankwise.estimate.rehearsal import Rehearsal, first_of
from plankwise.examples._base import Examples
from plankwise.examples.reading import read_examples
from plankwise.families._loading import check_length, load_config, load_tokenizer
from plankwise.families._rule import head_of
from plankwise.kinds import load_kind
from plankwise.measuring import Workplace
from plankwise.methods._job import Job, Outcome
from plankwise.training.fitting import read_texts
from plankwise.training.ship import make_plan, try_plan
from plankwise.training.stage import Stage, StageResult, trained_alone


@dataclass(frozen=True)
class Ground:
    """What runs on one task from one predecessor share."""

    tokenizer: Any
    examples: Examples
    path: str  # of the trained predecessor
    stages: dict[str, StageResult] = field(default_factory=dict)  # the predecessor's training, if it was trained here
    made_head: bool = False  # its head did not come with it


@dataclass(frozen=True)
class Run(Workplace):
    """What all steps of one run share."""

    rehearsal: Rehearsal | None = None  # if there is one, stages train nothing

    def stage(self, name: str, training: FitOptions) -> Stage:
        stage = Stage(
            name=name,
            train=self.examples.train,
            score=self.examples.score,
            tokenizer=self.tokenizer,
            options=training,
            folder=self.folder / "checkpoints" / name,
            seed=self.config.run.seed,
            console=self.console,
            objective=self.examples.objective,
            collate=self.examples.collate,
        )
        return stage if self.rehearsal is None else self.rehearsal.of(stage)


@dataclass(frozen=True)
class Draft:
    """A run that can begin: everything has been read and checked."""

    run: Run
    predecessor: nn.Module | None  # as it was given; None if it is not trained here, and so not needed any more
    needs_training: bool
    has_head: bool

    def take(self) -> nn.Module:
        """A predecessor to give away."""
        if self.predecessor is None:
            return self.run.load(self.run.config.predecessor.path)[0]
        return copy.deepcopy(self.predecessor)


def make_draft(config: RunConfig, console: Console) -> Draft:
    """Reads everything, and checks what can be checked before anything is written."""
    check_precision(config)
    tokenizer = load_tokenizer(config.predecessor.path, remote_code=config.predecessor.remote_code)
    examples = read_examples(config, tokenizer, console)
    examples.check_config(config)
    run = Run(config, Path(config.run.folder), console, tokenizer, examples)
    predecessor, needs_training, has_head = _find_predecessor(run)
    check_plan(config, predecessor)
    check_length(config.training.max_length, predecessor, tokenizer, config.predecessor.path)
    return Draft(run, predecessor, needs_training, has_head)


def claim(draft: Draft) -> Draft:
    """The same with the run's folder claimed, the examples laid out there, and a predecessor that was given looked at."""
    run, predecessor = draft.run, draft.predecessor
    assert predecessor is not None
    path = run.config.predecessor.path
    if not draft.needs_training and not run.examples.on_disk:
        run.examples.check_predecessor(predecessor, path, given=True)
    with claimed(run):
        run.examples.lay_out(run.folder, run.console)
        if not draft.needs_training and run.examples.on_disk:
            run.examples.check_predecessor(predecessor, path, given=True)
    return draft if draft.needs_training else replace(draft, predecessor=None)


@contextmanager
def claimed(run: Run) -> Iterator[None]:
    """The run's folder is claimed; if what is found wrong inside could only be found there, a new folder goes again."""
    new = not run.folder.exists()
    folders.claim(run.folder, run.config)
    try:
        yield
    except PlankwiseError:
        if new:
            shutil.rmtree(run.folder, ignore_errors=True)
        raise


def check_plan(config: RunConfig, predecessor: nn.Module) -> Plan:
    """The config's plan, tried out on a copy of the predecessor.

    Raises:
        PlanError: it does not fit.
        DataError: the texts to fit the successors on cannot be read.
    """
    if config.plan.fitting.texts is not None:
        read_texts(config.plan.fitting.texts)
    plan = make_plan(predecessor, config.plan)
    try_plan(predecessor, plan, init=config.plan.start, seed=config.run.seed)
    return plan


def train(run: Run, predecessor: nn.Module) -> Outcome:
    """Trains by the method of the run's config; the predecessor is given away."""
    config, held_out = run.config, run.examples.held_out
    if run.rehearsal is not None:
        run.rehearsal.held, held_out = predecessor, first_of(held_out)
    job = Job(
        predecessor=predecessor,
        plan=make_plan(predecessor, config.plan),
        options=config.plan,
        seed=config.run.seed,
        max_length=config.training.max_length,
        held_out=held_out,
        stage=lambda name: run.stage(name, config.training),
    )
    return load_kind("methods", config.method.name, key="method.name").compress(job, config.method)


def has_floor(config: RunConfig) -> bool:
    return config.evaluation.floor and config.method.name != "finetune"


def floor_of(config: RunConfig) -> RunConfig:
    """The truncated model, fine-tuned for as many steps as the successor."""
    module = load_kind("methods", "finetune", key="method.name")
    training = config.training.model_copy(update=module.defaults({})["training"])
    plan = config.plan.model_copy(update={"init": config.plan.start})
    return config.model_copy(update={"method": module.Options(), "training": training, "plan": plan})


def check_precision(config: RunConfig) -> None:
    for key, options in {"predecessor.training": config.predecessor.training, "training": config.training}.items():
        if options.precision == "float16" and not torch.cuda.is_available():
            raise ConfigError(
                f"{key}.precision is 'float16', which needs a GPU, and there is none; choose float32 or bfloat16"
            )


def _find_predecessor(run: Run) -> tuple[nn.Module, bool, bool]:
    """The model as it was given, whether it has to be trained on the task first, and whether its head came with it."""
    options = run.config.predecessor
    given = load_config(options.path, remote_code=options.remote_code)
    set_seed(run.config.run.seed)  # a new head starts from the same weights in every run of this config
    model, has_head = run.load(options.path)
    if options.finetune is True:
        return model, True, has_head
    run.examples.check_head(given, options.path)
    if options.finetune is False and not has_head:
        raise ConfigError(
            f"predecessor.finetune is false, but {options.path} has no trained head for this task; "
            "set it to 'auto' or true, or give a model that was trained on the task"
        )
    return model, not has_head, has_head


def make_ready(draft: Draft) -> Ground:
    """The predecessor, trained if it has to be, after its guards."""
    run, model = draft.run, draft.predecessor
    path, stages = run.config.predecessor.path, {}
    if draft.needs_training:
        assert model is not None
        stages = train_whole(run, model, "predecessor", new_head=not draft.has_head)
        path = str(run.save(model, "predecessor"))
        with run.timed(EVALUATIONS):
            run.examples.check_predecessor(model, path)
    return Ground(run.tokenizer, run.examples, path, stages, made_head=not draft.has_head)


def train_whole(run: Run, model: nn.Module, name: str, *, new_head: bool) -> dict[str, StageResult]:
    """Trains all of a model as `predecessor.training` says; a new head that asks for it first learns alone for a share."""
    options, alone = run.config.predecessor.training, run.examples.head_alone
    stage = run.stage(name, options)
    if alone is None or not new_head:
        return {name: stage.run(model)}
    steps = max(1, round(alone.share * stage.num_steps))
    update = {"max_steps": steps, "learning_rate": alone.learning_rate, "evaluate_every": steps}
    with trained_alone(model, head_of(model)):
        stages = {"head": run.stage("head", options.model_copy(update=update)).run(model)}
    if steps < stage.num_steps:
        rest = options.model_copy(update={"max_steps": stage.num_steps - steps})
        stages[name] = run.stage(name, rest).run(model)
    return stages
