"""The flow of a run, top to bottom: the only file that knows the order.

config → task → predecessor → plan → successor → floor → measurements → record
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress
from torch import nn
from transformers import set_seed

from plankwise import folders
from plankwise.config import FitOptions, RunConfig
from plankwise.core.plan import Plan
from plankwise.errors import ConfigError, PlankwiseError
from plankwise.evaluation.latency import measure_latency
from plankwise.evaluation.metrics import retained
from plankwise.evaluation.size import count_parameters, size_on_disk_mb
from plankwise.examples._base import Examples
from plankwise.examples.reading import read_examples
from plankwise.families._loading import check_length, load_config, load_tokenizer
from plankwise.families._quiet import quiet
from plankwise.families._rule import head_of
from plankwise.files import whole_folder
from plankwise.kinds import load_kind
from plankwise.methods._job import Job, Outcome
from plankwise.record import describe_machine, read_record, write_record
from plankwise.report.card import write_card
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
class Run:
    """What all steps of one run share."""

    config: RunConfig
    folder: Path
    console: Console
    tokenizer: Any
    examples: Examples

    def stage(self, name: str, training: FitOptions) -> Stage:
        config = self.config
        return Stage(
            name=name,
            train=self.examples.train,
            score=self.examples.score,
            tokenizer=self.tokenizer,
            options=training,
            folder=self.folder / "checkpoints" / name,
            seed=config.run.seed,
            console=self.console,
            objective=self.examples.objective,
            collate=self.examples.collate,
        )

    def load(self, path: str) -> tuple[nn.Module, bool]:
        """The model with a head for the task, and whether that head came with it."""
        return self.examples.load(path, remote_code=self.config.predecessor.remote_code)

    def save(self, model: nn.Module, name: str) -> Path:
        with quiet(), whole_folder(self.folder / name) as part:
            model.save_pretrained(part)  # type: ignore[operator]
            self.tokenizer.save_pretrained(part)
        return self.folder / name


def compress(config: RunConfig, console: Console) -> dict:
    """Does what the config asks, from raw data to a record; goes on where an earlier call was stopped.

    Raises:
        PlankwiseError: anything that the user can mend. Bad input is found before anything is written.
    """
    folder = Path(config.run.folder)
    if folders.is_finished(folder, config):
        console.print(f"{folder} is finished already; these are its results")
        return read_record(folder)
    ground = lay_ground(config, console)
    run = Run(config, folder, console, ground.tokenizer, ground.examples)
    outcome = train_successor(config, ground, console)
    stages = {**ground.stages, **outcome.stages}
    seconds = outcome.seconds + sum(stage.seconds for stage in ground.stages.values())
    paths = {"predecessor": Path(ground.path), "successor": run.save(outcome.successor, "successor")}
    if config.evaluation.floor and config.method.name != "finetune":
        floor = train_successor(_floor_of(config), ground, console)
        stages["floor"] = floor.stage
        seconds += floor.seconds
        paths["floor"] = run.save(floor.successor, "floor")

    record = _measure(run, paths)
    record |= {
        "steps": outcome.steps,
        "skipped_steps": outcome.skipped_steps,
        "seconds": seconds,
        "plan": outcome.plan.to_json(),
        "made_head": ground.made_head,
        **outcome.notes,
        **_describe(run, stages),
    }
    write_card(record, folder / "successor")
    return _finish(folder, record)


def finetune(config: RunConfig, console: Console) -> dict:
    """Trains the model at `predecessor.path` on the task, all of it, as `predecessor.training` says; from raw data to a record.

    Raises:
        PlankwiseError: anything that the user can mend. Bad input is found before anything is written.
    """
    folder = Path(config.run.folder)
    if folders.is_finished(folder, config):
        console.print(f"{folder} is finished already; these are its results")
        return read_record(folder)
    path, remote_code = config.predecessor.path, config.predecessor.remote_code
    _check_precision(config)
    tokenizer = load_tokenizer(path, remote_code=remote_code)
    run = Run(config, folder, console, tokenizer, read_examples(config, tokenizer, console))
    set_seed(config.run.seed)  # a new head starts from the same weights in every run of this config
    model, has_head = run.load(path)
    check_length(config.training.max_length, model, tokenizer, path)
    with _claimed(run):
        run.examples.lay_out(folder, console)
    stages = train_whole(run, model, "model", new_head=not has_head)
    record: dict[str, Any] = {"model": _weigh(run, model, run.save(model, "model"))}
    if config.evaluation.latency:
        _measure_latency(run, {"model": model}, record)
    *before, last = stages.values()
    record |= {
        "steps": sum(stage.steps for stage in stages.values()),
        "seconds": sum(stage.seconds for stage in stages.values()),
        "seconds_to_best": sum(stage.seconds for stage in before) + last.seconds_to_best,
        "made_head": not has_head,
        **_describe(run, stages),
    }
    return _finish(folder, record)


def _finish(folder: Path, record: dict) -> dict:
    """The record comes last but for the checkpoints: with it the run is finished."""
    write_record(folder, record)
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    return record


def lay_ground(config: RunConfig, console: Console) -> Ground:
    """Reads the examples and makes the predecessor ready, in `run.folder` if it has to be trained first.

    Raises:
        PlankwiseError: anything that the user can mend. Bad input is found before anything is written.
    """
    _check_precision(config)
    tokenizer = load_tokenizer(config.predecessor.path, remote_code=config.predecessor.remote_code)
    examples = read_examples(config, tokenizer, console)
    examples.check_config(config)
    run = Run(config, Path(config.run.folder), console, tokenizer, examples)
    predecessor, needs_training, has_head = _find_predecessor(run)
    check_plan(config, predecessor)
    check_length(config.training.max_length, predecessor, tokenizer, config.predecessor.path)
    if not needs_training and not examples.on_disk:
        examples.check_predecessor(predecessor, config.predecessor.path, given=True)
    with _claimed(run):
        examples.lay_out(run.folder, console)
        if not needs_training and examples.on_disk:
            examples.check_predecessor(predecessor, config.predecessor.path, given=True)
    path, stages = _ready_predecessor(run, predecessor, needs_training, has_head)
    return Ground(tokenizer, examples, path, stages, made_head=not has_head)


@contextmanager
def _claimed(run: Run) -> Iterator[None]:
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


def train_successor(config: RunConfig, ground: Ground, console: Console) -> Outcome:
    """Trains by the config's method in `run.folder`; goes on where an earlier call was stopped.

    Of the config, what the ground was laid by (task, predecessor, the length of texts) is not read again.
    """
    run = Run(config, Path(config.run.folder), console, ground.tokenizer, ground.examples)
    predecessor, _ = run.load(ground.path)
    job = Job(
        predecessor=predecessor,
        plan=make_plan(predecessor, config.plan),
        options=config.plan,
        seed=config.run.seed,
        max_length=config.training.max_length,
        held_out=ground.examples.held_out,
        stage=lambda name: run.stage(name, config.training),
    )
    return load_kind("methods", config.method.name, key="method.name").compress(job, config.method)


def _floor_of(config: RunConfig) -> RunConfig:
    """The truncated model, fine-tuned for as many steps as the successor."""
    module = load_kind("methods", "finetune", key="method.name")
    training = config.training.model_copy(update=module.defaults({})["training"])
    plan = config.plan.model_copy(update={"init": config.plan.start})
    return config.model_copy(update={"method": module.Options(), "training": training, "plan": plan})


def _check_precision(config: RunConfig) -> None:
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


def _ready_predecessor(
    run: Run, model: nn.Module, needs_training: bool, has_head: bool
) -> tuple[str, dict[str, StageResult]]:
    """The path of the trained predecessor, and its stages if it was trained here, after its guards."""
    if not needs_training:
        return run.config.predecessor.path, {}
    stages = train_whole(run, model, "predecessor", new_head=not has_head)
    path = str(run.save(model, "predecessor"))
    run.examples.check_predecessor(model, path)
    return path, stages


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


def _measure(run: Run, paths: dict[str, Path]) -> dict:
    """Scores, sizes and latencies of the checkpoints as a user would load them."""
    options = run.config.evaluation
    models = {name: run.load(str(path))[0] for name, path in paths.items()}
    record: dict[str, Any] = {name: _weigh(run, model, paths[name]) for name, model in models.items()}
    before, after = record["predecessor"], record["successor"]
    for name in models.keys() - {"predecessor"}:
        record[name]["retained"] = retained(record[name]["score"], before["score"])
    record["retained"] = after["retained"]
    record["compression_ratio"] = before["parameters"] / after["parameters"]
    record["speedup"] = None
    if options.latency:
        _measure_latency(run, models, record)
    return record


def _describe(run: Run, stages: dict[str, StageResult]) -> dict:
    """What every record says."""
    return {
        "stages": {name: asdict(stage) for name, stage in stages.items()},
        "task": run.examples.to_json(),
        "config": run.config.model_dump(mode="json"),
        "seed": run.config.run.seed,
        "machine": describe_machine(),
    }


def _weigh(run: Run, model: nn.Module, path: Path) -> dict:
    """What the record says of one model."""
    metrics = run.examples.score(model)
    return {
        "path": str(path),
        "parameters": count_parameters(model),
        "size_mb": _size_mb(run, model, path),
        "score": metrics.pop("score"),
        "metrics": metrics,
        "latency_ms": None,
    }


def _measure_latency(run: Run, models: dict[str, nn.Module], record: dict) -> None:
    options, length = run.config.evaluation, run.config.training.max_length
    run.console.print(f"latency: {options.latency_predictions} predictions a model and batch size")
    rounds = options.latency_predictions * len(options.latency_batch_sizes)
    with Progress(console=run.console, transient=True, disable=not run.console.is_terminal) as bar:
        task = bar.add_task("latency", total=rounds)
        latency = measure_latency(
            models,
            run.tokenizer,
            run.examples.texts(1000),
            max_length=length,
            batch_sizes=options.latency_batch_sizes,
            predictions=options.latency_predictions,
            progress=lambda: bar.advance(task),
        )
    for name in models:
        record[name]["latency"] = latency[name]
        record[name]["latency_ms"] = latency[name][str(options.latency_batch_sizes[0])]["p50_ms"]
    if "predecessor" in models:
        for name in models:
            record[name]["speedup"] = record["predecessor"]["latency_ms"] / record[name]["latency_ms"]
        record["speedup"] = record["successor"]["speedup"]


def _size_mb(run: Run, model: nn.Module, path: Path) -> float:
    """On disk as plankwise writes it, so that predecessor and successor are counted alike."""
    if path.is_relative_to(run.folder):
        return size_on_disk_mb(path)
    with quiet(), tempfile.TemporaryDirectory(dir=run.folder, prefix=".weighed.", suffix=".part") as part:
        model.save_pretrained(part)  # type: ignore[operator]
        return size_on_disk_mb(Path(part))
