"""The flow of a run, top to bottom: the only file that knows the order.

config → task → predecessor → plan → successor → floor → measurements → record
"""

import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from rich.console import Console
from rich.progress import Progress
from torch import nn
from transformers import set_seed

from plankwise import folders
from plankwise.config import FitOptions, Options, RunConfig
from plankwise.core.plan import Plan
from plankwise.data.encode import Encoded, encode
from plankwise.data.split import Prepared, prepare
from plankwise.errors import ConfigError
from plankwise.evaluation.guards import check_predecessor
from plankwise.evaluation.latency import measure_latency
from plankwise.evaluation.metrics import retained
from plankwise.evaluation.scoring import Scorer
from plankwise.evaluation.size import count_parameters, size_on_disk_mb
from plankwise.families._loading import check_labels, check_length, load_classifier, load_config, load_tokenizer
from plankwise.families._quiet import quiet
from plankwise.files import whole_folder
from plankwise.kinds import load_kind
from plankwise.methods._job import Job, Outcome
from plankwise.record import describe_machine, read_record, write_record
from plankwise.tasks._source import Source
from plankwise.training.ship import make_plan, try_plan
from plankwise.training.stage import Stage, StageResult


@dataclass(frozen=True)
class Examples:
    """A task's examples, encoded for one predecessor."""

    source: Source
    prepared: Prepared
    train: Encoded
    scorer: Scorer


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
    _check_precision(config)
    tokenizer = load_tokenizer(config.predecessor.path, remote_code=config.predecessor.remote_code)
    examples = read_examples(config.task, config, tokenizer, console)
    run = Run(config, folder, console, tokenizer, examples)
    predecessor, needs_training = _find_predecessor(run)
    plan = make_plan(predecessor, config.plan)
    try_plan(predecessor, plan, init=config.plan.init, seed=config.run.seed)
    check_length(config.training.max_length, predecessor, tokenizer, config.predecessor.path)
    if not needs_training:
        check_predecessor(examples.scorer, predecessor, examples.prepared.train, config.predecessor.path, given=True)
    folders.claim(folder, config)

    path, stages = _ready_predecessor(run, predecessor, needs_training)
    outcome = _compress(run, path, plan, config.method, config.training)
    successor_path = run.save(outcome.successor, "successor")
    stages[config.method.name] = outcome.stage
    paths = {"predecessor": Path(path), "successor": successor_path}
    if config.evaluation.floor and config.method.name != "finetune":
        floor = _truncate(run, path, plan)
        stages["floor"] = floor.stage
        paths["floor"] = run.save(floor.successor, "floor")

    record = _measure(run, paths)
    record |= {
        "steps": outcome.stage.steps,
        "skipped_steps": outcome.skipped_steps,
        "seconds": sum(stage.seconds for stage in stages.values()),
        "plan": plan.to_json(),
        "stages": {name: asdict(stage) for name, stage in stages.items()},
        "task": _describe_examples(examples),
        "config": config.model_dump(mode="json"),
        "seed": config.run.seed,
        "machine": describe_machine(),
    }
    write_record(folder, record)
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    return record


def read_examples(task: Options, config: RunConfig, tokenizer: Any, console: Console) -> Examples:
    """Reads, cleans, splits and encodes a task's examples, and says what was dropped or cut."""
    source, prepared = prepare_task(task, config, console)
    train = _encode("train", prepared.train, tokenizer, config, console)
    return Examples(source, prepared, train, make_scorer(source, prepared, tokenizer, config, console))


def prepare_task(task: Options, config: RunConfig, console: Console) -> tuple[Source, Prepared]:
    """A task's examples as text, cleaned and split; says what was dropped."""
    source = load_kind("tasks", task.name, key="task.name").read(task)  # type: ignore[attr-defined]
    wanted = getattr(task, "labels", None)
    if wanted and tuple(wanted) != source.labels:
        source = source.reorder(tuple(wanted))
    prepared = prepare(source, task, seed=config.run.seed)  # type: ignore[arg-type]
    for name, dropped in prepared.dropped.items():
        if any(asdict(dropped).values()):
            what = ", ".join(f"{count} {why}" for why, count in asdict(dropped).items() if count)
            console.print(f"{name}: dropped {what}")
    return source, prepared


def make_scorer(source: Source, prepared: Prepared, tokenizer: Any, config: RunConfig, console: Console) -> Scorer:
    """The task's dev sets, encoded; says how many texts were cut."""
    dev = {name: _encode(name, table, tokenizer, config, console) for name, table in prepared.dev.items()}
    return Scorer(source, dev, tokenizer, config.evaluation.batch_size)


def _encode(name: str, table: pa.Table, tokenizer: Any, config: RunConfig, console: Console) -> Encoded:
    length = config.training.max_length
    encoded = encode(table, tokenizer, length)
    cut = f", {encoded.num_cut} longer than {length} tokens and cut" if encoded.num_cut else ""
    console.print(f"{name}: {len(encoded.lengths)} examples{cut}")
    return encoded


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


def _compress(run: Run, path: str, plan: Plan, method: Any, training: FitOptions) -> Outcome:
    predecessor, _ = run.load(path)
    job = Job(
        predecessor=predecessor,
        plan=plan,
        init=run.config.plan.init,
        seed=run.config.run.seed,
        stage=lambda name: run.stage(name, training),
    )
    return load_kind("methods", method.name, key="method.name").compress(job, method)


def _truncate(run: Run, path: str, plan: Plan) -> Outcome:
    """The floor: the truncated model, fine-tuned for as many steps as the successor."""
    module = load_kind("methods", "finetune", key="method.name")
    training = run.config.training.model_copy(update=module.defaults({})["training"])
    return _compress(run, path, plan, module.Options(), training)


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


def _describe_examples(examples: Examples) -> dict:
    prepared = examples.prepared
    return {
        "name": examples.source.name,
        "labels": list(examples.source.labels),
        "score": list(examples.source.score),
        "train": prepared.train.num_rows,
        "dev": {name: table.num_rows for name, table in prepared.dev.items()},
        "dropped": {name: asdict(dropped) for name, dropped in prepared.dropped.items()},
        "cut": {"train": examples.train.num_cut, **{n: e.num_cut for n, e in examples.scorer.dev.items()}},
    }
