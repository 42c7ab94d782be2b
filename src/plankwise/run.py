"""The flow of a run, top to bottom: the only file that knows the order.

config → task → predecessor → plan → successor → floor → measurements → record
"""

import shutil
import tempfile
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
from plankwise.errors import ConfigError
from plankwise.evaluation.guards import check_predecessor
from plankwise.evaluation.latency import measure_latency
from plankwise.evaluation.metrics import retained
from plankwise.evaluation.size import count_parameters, size_on_disk_mb
from plankwise.examples import Examples, read_examples
from plankwise.families._loading import check_labels, check_length, load_classifier, load_config, load_tokenizer
from plankwise.families._quiet import quiet
from plankwise.files import whole_folder
from plankwise.kinds import load_kind
from plankwise.methods._job import Job, Outcome
from plankwise.record import describe_machine, read_record, write_record
from plankwise.training.fitting import read_texts
from plankwise.training.ship import make_plan, try_plan
from plankwise.training.stage import Stage, StageResult


@dataclass(frozen=True)
class Ground:
    """What runs on one task from one predecessor share."""

    tokenizer: Any
    examples: Examples
    path: str  # of the trained predecessor
    stages: dict[str, StageResult] = field(default_factory=dict)  # the predecessor's training, if it was trained here


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
            score=self.examples.scorer.score,
            tokenizer=self.tokenizer,
            options=training,
            folder=self.folder / "checkpoints" / name,
            seed=config.run.seed,
            console=self.console,
        )

    def load(self, path: str) -> tuple[nn.Module, bool]:
        remote_code = self.config.predecessor.remote_code
        return load_classifier(path, self.examples.source.labels, tokenizer=self.tokenizer, remote_code=remote_code)

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
        "stages": {name: asdict(stage) for name, stage in stages.items()},
        **outcome.notes,
        "task": ground.examples.to_json(),
        "config": config.model_dump(mode="json"),
        "seed": config.run.seed,
        "machine": describe_machine(),
    }
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
    examples = read_examples(config.task, config, tokenizer, console)
    run = Run(config, Path(config.run.folder), console, tokenizer, examples)
    predecessor, needs_training = _find_predecessor(run)
    check_plan(config, predecessor)
    check_length(config.training.max_length, predecessor, tokenizer, config.predecessor.path)
    if not needs_training:
        check_predecessor(examples.scorer, predecessor, examples.prepared.train, config.predecessor.path, given=True)
    folders.claim(run.folder, config)
    path, stages = _ready_predecessor(run, predecessor, needs_training)
    return Ground(tokenizer, examples, path, stages)


def check_plan(config: RunConfig, predecessor: nn.Module) -> Plan:
    """The config's plan, tried out on a copy of the predecessor.

    Raises:
        PlanError: it does not fit.
        DataError: the texts to fit the successors on cannot be read.
    """
    if config.plan.init == "fitted" and config.plan.fitting.texts is not None:
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
        held_out=next(iter(ground.examples.scorer.dev.values())),
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


def _find_predecessor(run: Run) -> tuple[nn.Module, bool]:
    """The model as it was given, and whether it has to be trained on the task first."""
    options, labels = run.config.predecessor, run.examples.source.labels
    given = load_config(options.path, remote_code=options.remote_code)
    set_seed(run.config.run.seed)  # a new head starts from the same weights in every run of this config
    model, has_head = run.load(options.path)
    if options.finetune is True:
        return model, True
    trained = any("ForSequenceClassification" in name for name in given.architectures or ())
    if trained:
        check_labels(given, labels, options.path)
    if options.finetune is False and not has_head:
        raise ConfigError(
            f"predecessor.finetune is false, but {options.path} has no trained head for this task; "
            "set it to 'auto' or true, or give a model that was trained on the task"
        )
    return model, not has_head


def _ready_predecessor(run: Run, model: nn.Module, needs_training: bool) -> tuple[str, dict[str, StageResult]]:
    """The path of the trained predecessor, and its stage if it was trained here, after its guards."""
    options, examples = run.config.predecessor, run.examples
    if not needs_training:
        return options.path, {}
    stage = run.stage("predecessor", options.training).run(model)
    path = str(run.save(model, "predecessor"))
    check_predecessor(examples.scorer, model, examples.prepared.train, path)
    return path, {"predecessor": stage}


def _measure(run: Run, paths: dict[str, Path]) -> dict:
    """Scores, sizes and latencies of the checkpoints as a user would load them."""
    scorer, options = run.examples.scorer, run.config.evaluation
    models = {name: run.load(str(path))[0] for name, path in paths.items()}
    record: dict[str, Any] = {}
    for name, model in models.items():
        metrics = scorer.score(model)
        record[name] = {
            "path": str(paths[name]),
            "parameters": count_parameters(model),
            "size_mb": _size_mb(run, model, paths[name]),
            "score": metrics.pop("score"),
            "metrics": metrics,
            "latency_ms": None,
        }
    before, after = record["predecessor"], record["successor"]
    for name in models.keys() - {"predecessor"}:
        record[name]["retained"] = retained(record[name]["score"], before["score"])
    record["retained"] = after["retained"]
    record["compression_ratio"] = before["parameters"] / after["parameters"]
    record["speedup"] = None
    if options.latency:
        _measure_latency(run, models, record)
    return record


def _measure_latency(run: Run, models: dict[str, nn.Module], record: dict) -> None:
    options, length = run.config.evaluation, run.config.training.max_length
    run.console.print(f"latency: {options.latency_predictions} predictions a model and batch size")
    rounds = options.latency_predictions * len(options.latency_batch_sizes)
    with Progress(console=run.console, transient=True, disable=not run.console.is_terminal) as bar:
        task = bar.add_task("latency", total=rounds)
        latency = measure_latency(
            models,
            run.tokenizer,
            run.examples.scorer.texts(run.examples.prepared, 1000),
            max_length=length,
            batch_sizes=options.latency_batch_sizes,
            predictions=options.latency_predictions,
            progress=lambda: bar.advance(task),
        )
    for name in models:
        record[name]["latency"] = latency[name]
        record[name]["latency_ms"] = latency[name][str(options.latency_batch_sizes[0])]["p50_ms"]
        record[name]["speedup"] = record["predecessor"]["latency_ms"] / record[name]["latency_ms"]
    record["speedup"] = record["successor"]["speedup"]


def _size_mb(run: Run, model: nn.Module, path: Path) -> float:
    """On disk as plankwise writes it, so that predecessor and successor are counted alike."""
    if path.is_relative_to(run.folder):
        return size_on_disk_mb(path)
    with quiet(), tempfile.TemporaryDirectory(dir=run.folder, prefix=".weighed.", suffix=".part") as part:
        model.save_pretrained(part)  # type: ignore[operator]
        return size_on_disk_mb(Path(part))
