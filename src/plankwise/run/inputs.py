"""What a run starts from, read and checked before anything is written: tokenizer, task, predecessor, plan."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import set_seed

from plankwise.config import FitOptions, RunConfig
from plankwise.context import Context
from plankwise.core.plan import Plan
from plankwise.efforts import MINUTES, SECONDS, keeps_all_layers
from plankwise.errors import ConfigError, PlanError
from plankwise.kinds import load_kind
from plankwise.models.limits import check_length
from plankwise.models.loading import Loader
from plankwise.models.plans import make_plan, try_plan
from plankwise.models.saving import save
from plankwise.run.augmentation import check_augmentation
from plankwise.run.vocabulary import check_vocabulary
from plankwise.runtimes import Predictor, open_predictor
from plankwise.runtimes.torch import TorchPredictor
from plankwise.task_kinds import Task, read_task
from plankwise.training.callbacks import Show
from plankwise.training.fitting import read_texts
from plankwise.training.stage import Stage
from plankwise.training.targets import KeptTargets


@dataclass(frozen=True)
class Run:
    """What all steps of one run share."""

    config: RunConfig
    context: Context
    loader: Loader
    tokenizer: Any
    task: Task
    seconds: dict[str, float] = field(default_factory=dict, compare=False)  # that measuring took, by what was measured
    tokenizers: dict[str, Any] = field(
        default_factory=dict, compare=False
    )  # of models' own, by path; see `own_tokenizer`
    rehearse: Callable[[Stage], Stage] | None = None  # makes of a stage one that trains nothing
    kept_targets: KeptTargets = field(default_factory=KeptTargets, compare=False)

    @property
    def folder(self) -> Path:
        return self.context.folder

    def load(self, path: str) -> nn.Module:
        """The model at `path` with a head for the task."""
        return self.task.load(self.loader, path).model

    def open(self, path: str) -> Predictor:
        """The model at `path`, run by the config's runtime, with its own tokenizer if that is another than the run's."""
        predictor = open_predictor(self.config.evaluation.runtime, path, self.load)
        predictor.tokenizer = self.own_tokenizer(path)
        return predictor

    def own_tokenizer(self, path: str) -> Any:
        """The tokenizer in a model's folder if it has other tokens than the run's; else None."""
        if path not in self.tokenizers:
            found = self.tokenizer if path == self.config.predecessor.path else self.loader.tokenizer(path)
            self.tokenizers[path] = None if found.get_vocab() == self.tokenizer.get_vocab() else found
        return self.tokenizers[path]

    def score(self, model: nn.Module) -> dict[str, float]:
        """The task's metrics of a model in this process, the same on every rank."""
        return self.context.on_main(lambda: self.task.score_in_training(TorchPredictor(model)))

    def save(self, model: nn.Module, name: str) -> Path:
        """Saves a model in the run's folder."""
        return self.context.on_main(lambda: save(model, self.folder / name, self.tokenizer))

    def stage(self, name: str, training: FitOptions) -> Stage:
        """A stage that trains on the task, with all the steps that the options say."""
        task = self.task
        stage = Stage(
            name=name,
            train=task.train,
            score=self.score,
            tokenizer=self.tokenizer,
            options=training,
            folder=self.folder / "checkpoints" / name,
            context=self.context,
            loss=task.loss,
            collate=task.collate,
            show=_show(task, self.config),
            weigh=task.weigh,
            kept_targets=self.kept_targets,
        )
        return stage if self.rehearse is None else self.rehearse(stage)

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.seconds[what] = self.seconds.get(what, 0.0) + time.monotonic() - started


def _show(task: Task, config: RunConfig) -> Show:
    shown = task.shown
    told = Show() if shown.key == "score" else Show(shown.key, shown.metric, shown.digits)
    return told if config.evaluation.choose_on == "dev" else replace(told, examples="kept-out examples")


class Predecessor:
    """The predecessor of a run: given away to whoever changes it, and loaded again for the next."""

    def __init__(self, run: Run, path: str, model: nn.Module, *, needs_training: bool, has_head: bool) -> None:
        self.run = run
        self.path = path
        self.model: nn.Module | None = model
        self.needs_training = needs_training
        self.ignored_guards: dict[str, str] = {}  # what is wrong with it, by the guard that was told to ignore it
        self.has_head = has_head

    def take(self) -> nn.Module:
        """A model of one's own."""
        model, self.model = self.model, None
        return self.run.load(self.path) if model is None else model


@dataclass(frozen=True)
class Inputs:
    """A run that can begin: everything has been read and checked."""

    run: Run
    predecessor: Predecessor
    plan: Plan


def read_inputs(config: RunConfig, context: Context) -> Inputs:
    """Reads everything, and checks what can be checked before anything is written.

    Raises:
        PlankwiseError: anything that the user can fix.
    """
    run = read_run(config, context)
    predecessor = _find_predecessor(run)
    assert predecessor.model is not None
    plan = check_plan(config, predecessor.model)
    method = load_kind("methods", config.method.name, key="method.name")
    if all(len(slot.span) == 1 and slot.part == "layers" for slot in plan.slots) and not getattr(
        method, "SMALLER", False
    ):
        context.console.print(
            "every successor stands for one block of its own kind, so nothing gets smaller: give fewer plan.successors",
            soft_wrap=True,
        )
    check_length(config.training.max_length, predecessor.model, run.tokenizer, predecessor.path)
    check_vocabulary(run, predecessor.model)
    check_augmentation(run)
    return Inputs(run, predecessor, plan)


def read_run(config: RunConfig, context: Context) -> Run:
    """The same but for the predecessor and the plan."""
    check_precision(config, context)
    loader = Loader(config.predecessor.remote_code, context.device)
    tokenizer = loader.tokenizer(config.predecessor.path)
    task = read_task(config, tokenizer, context.console)
    task.check_config(config)
    return Run(config, context, loader, tokenizer, task)


def check_plan(config: RunConfig, predecessor: nn.Module) -> Plan:
    """The config's plan, tried out on a copy of the predecessor.

    Raises:
        PlanError: it does not fit.
        DataError: the texts to fit or solve the successors on cannot be read.
    """
    for key, path in {"fitting": config.plan.fitting.texts, "solving": config.plan.solving.texts}.items():
        if path is not None:
            read_texts(path, f"plan.{key}.texts")
    try:
        plan = make_plan(predecessor, config.plan)
        try_plan(predecessor, plan, init=config.plan.start, seed=config.run.seed)
    except PlanError as error:
        effort = config.run.effort
        if effort not in (SECONDS, MINUTES) or not keeps_all_layers(config.plan.model_dump()):
            raise
        raise PlanError(
            f"{error}; run.effort is {effort!r}, which makes all layers thinner unless the recipe says otherwise: for fewer "
            "layers set plan.cut = 'late'"
        ) from None
    return plan


def check_precision(config: RunConfig, context: Context) -> None:
    for key, options in {"predecessor.training": config.predecessor.training, "training": config.training}.items():
        if options.precision == "float16" and torch.device(context.device).type != "cuda":
            raise ConfigError(
                f"{key}.precision is 'float16', which needs a GPU, and there is none; choose float32 or bfloat16"
            )


def _find_predecessor(run: Run) -> Predecessor:
    """The model as it was given, whether it has to be trained on the task first, and whether its head came with it."""
    options = run.config.predecessor
    set_seed(run.context.seed)  # a new head starts from the same weights in every run of this config
    loaded = run.task.load(run.loader, options.path)
    has_head = not loaded.new
    if options.finetune is not True:
        run.task.check_head(run.loader.config(options.path), options.path)
        if options.finetune is False and not has_head:
            raise ConfigError(
                f"predecessor.finetune is false, but {options.path} has no trained head for this task; "
                "set it to 'auto' or true, or give a model that was trained on the task"
            )
    needs_training = options.finetune is True or not has_head
    return Predecessor(run, options.path, loaded.model, needs_training=needs_training, has_head=has_head)
