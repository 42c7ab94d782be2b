"""A finished run looked at closely: errors, insides and costs of predecessor and successor, added to its record."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from plankwise.analysis_options import AnalysisOptions
from plankwise.config import load_config
from plankwise.context import Context, own_device
from plankwise.core.plan import Plan
from plankwise.data.batch import sorted_batches
from plankwise.errors import ConfigError, RunError
from plankwise.evaluation.cost import Models, measure_cost
from plankwise.evaluation.errors import MODELS
from plankwise.evaluation.inside import look_inside
from plankwise.kinds import no_such
from plankwise.models.exits import has_exits
from plankwise.record import read_record, write_record
from plankwise.report.card import FILE as CARD
from plankwise.report.card import make_card, write_card
from plankwise.run.folders import CONFIG, FolderLock, read_config
from plankwise.run.inputs import Run, read_run
from plankwise.run.speed import enter_speed, tell_speed
from plankwise.run.training import PREDECESSOR, SUCCESSOR, TRUNCATED
from plankwise.runtimes import Predictor
from plankwise.task_kinds import ErrorRequest

SECTIONS = ("errors", "inside", "cost")
MOST_TEXTS = 300  # dev texts that hidden states are compared on


@dataclass(frozen=True)
class AnalysisRequest:
    """What an analysis is asked for."""

    sections: tuple[str, ...] = SECTIONS
    batch_sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    predictions: int = 100  # timed, per model and batch size
    threads: int | None = None
    sentence: str | None = None  # whose way through the layers is followed; the first dev text if None
    sample: Path | None = None  # where to write errors for labelling by hand
    count: int = 200  # of those
    labels: Path | None = None  # such a file, filled in
    recipe: Path | None = None  # whose section [analysis] counts instead of the run's

    def __post_init__(self) -> None:
        for section in self.sections:
            if section not in SECTIONS:
                raise ConfigError(f"--only names {section!r}; {no_such(section, SECTIONS, 'section')}")
        if "errors" not in self.sections and (self.sample or self.labels):
            raise ConfigError(f"--only is {','.join(self.sections)}, but --sample and --labels need errors; add it")
        for key, value in {"--count": self.count, "--predictions": self.predictions, "--threads": self.threads}.items():
            if value is not None and value < 1:
                raise ConfigError(f"{key} is {value}; give 1 or more")
        if not self.batch_sizes or min(self.batch_sizes) < 1:
            raise ConfigError(f"--batch-sizes is {list(self.batch_sizes)}; give numbers of 1 or more, like 1,8,32")


@dataclass(frozen=True)
class Subject:
    """What the sections of an analysis share."""

    record: dict
    options: AnalysisOptions
    paths: dict[str, str]  # of the models
    run: Run

    def open(self, name: str) -> Predictor:
        return self.run.open(self.paths[name])


def analyse(folder: Path, request: AnalysisRequest, console: Console) -> dict:
    """Analyses the finished run in `folder` and writes its record anew with what was found; gives the record.

    Sections that an earlier call found and this one is not asked for are kept.

    Raises:
        PlankwiseError: not a finished run, models or data that are gone, or a table of labels that is not of this run.
    """
    record = read_record(folder)
    if any(not isinstance(record.get(name), dict) for name in MODELS):
        raise RunError(
            f"{folder} holds no predecessor and successor to compare; give the folder of a finished `plankwise compress`"
        )
    if not (folder / CONFIG).is_file():
        raise RunError(f"{folder} has no {CONFIG}, so its task is not known; give the folder that the run wrote")
    if request.labels is not None and not request.labels.is_file():
        raise ConfigError(f"--labels is {request.labels}, which is not a file; give the file that --sample wrote")
    config = read_config(folder)
    options = config.analysis if request.recipe is None else load_config(request.recipe, []).analysis
    paths = {
        name: _find(folder, str(record[name].get("path", name))) for name in (*MODELS, TRUNCATED) if name in record
    }
    context = Context(console, folder, config.run.seed, own_device())  # one process, whoever else there is
    own = config.model_copy(update={"predecessor": config.predecessor.model_copy(update={"path": paths[PREDECESSOR]})})
    found = record.get("analysis", {})
    with FolderLock(folder, console) as lock, tempfile.TemporaryDirectory() as blocks:
        lock.acquire()
        run = read_run(own, context)
        run.task.lay_out(Path(blocks), console, train=False)
        subject = Subject(record, options, paths, run)
        card = folder / SUCCESSOR / CARD
        unedited = card.is_file() and card.read_bytes() == make_card(record).encode("utf-8")
        for name in SECTIONS:
            if name in request.sections:
                found = found | _SECTIONS[name](subject, request, found.get(name, {}))
        record["analysis"] = found
        write_record(folder, record)
        if unedited:  # it shows what the record says now
            write_card(record, card.parent)
    return record


def _find(folder: Path, recorded: str) -> str:
    """The run's own copy of the model, wherever the run lies now, or else where the record says."""
    own = folder / Path(recorded).name
    return str(own) if (own / "config.json").is_file() else recorded


def _errors(subject: Subject, request: AnalysisRequest, before: dict) -> dict:
    asked = ErrorRequest(request.sample, request.count, request.labels)
    task, console = subject.run.task, subject.run.context.console
    found = task.find_errors(subject.open, subject.options, asked, before, console)
    return {} if found is None else {"errors": found}


def _inside(subject: Subject, request: AnalysisRequest, before: dict) -> dict:
    run = subject.run
    run.context.console.print("inside: hidden states of both models, and the score with each slot replaced alone")
    small = run.own_tokenizer(subject.paths[SUCCESSOR])
    tokenizer = run.tokenizer if small is None else small
    texts = run.task.held_out_for(small)
    count = min(MOST_TEXTS, len(texts.lengths))
    few = replace(texts, dataset=texts.dataset.select(range(count)), lengths=texts.lengths[:count])
    successor = run.load(subject.paths[SUCCESSOR])
    if has_exits(successor):
        run.context.console.print("inside: every text runs through all of the successor's blocks for this")
        successor.patience = successor.num_blocks
    found = look_inside(
        run.load(subject.paths[PREDECESSOR]),
        successor,
        Plan.from_json(subject.record["plan"]),
        [batch for _, batch in sorted_batches(few, tokenizer, run.config.evaluation.batch_size)],
        run.score,
        tokenizer,
        request.sentence or run.task.texts(1)[0][0],
        run.config.training.max_length,
        None if small is None else run.tokenizer,
    )
    return {"inside": found}


def _cost(subject: Subject, request: AnalysisRequest, before: dict) -> dict:
    run, console = subject.run, subject.run.context.console
    console.print(f"cost: {request.predictions} predictions a model and batch size")
    options = run.config.evaluation
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("cost", total=None)
        found, speed = measure_cost(
            Models(subject.paths, run.open, options.runtime, run.loader.remote_code),
            run.task.timed(),
            batch_sizes=list(request.batch_sizes),
            predictions=request.predictions,
            threads=request.threads,
            progress=lambda done, expected: bar.update(task, completed=done, total=expected),
        )
    enter_speed(subject.record, speed)
    tell_speed(speed, console, f"use `plankwise analyse {run.folder} --only cost`")
    return {"cost": found}


_SECTIONS: dict[str, Callable[[Subject, AnalysisRequest, dict], dict]] = {
    "errors": _errors,
    "inside": _inside,
    "cost": _cost,
}
