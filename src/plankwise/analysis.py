"""A finished run looked at closely: errors, insides and costs of predecessor and successor, added to its record."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from torch import nn

from plankwise.config import RunConfig, load_config
from plankwise.core.plan import Plan
from plankwise.data.batch import sorted_batches
from plankwise.errors import ConfigError, RunError
from plankwise.evaluation.cost import measure_cost
from plankwise.evaluation.errors import MODELS, analyse_errors
from plankwise.evaluation.hand_labels import Answers, read_labels, write_sample
from plankwise.evaluation.inside import look_inside
from plankwise.evaluation.rules import apply_rules, compare_classes, describe
from plankwise.examples._base import Examples
from plankwise.examples.labelled import Labelled
from plankwise.examples.reading import read_examples
from plankwise.examples.text import Text
from plankwise.families._loading import load_tokenizer
from plankwise.folders import CONFIG
from plankwise.kinds import no_such
from plankwise.options import AnalysisOptions
from plankwise.record import read_record, write_record

PARTS = ("errors", "inside", "cost")
MOST_TEXTS = 300  # dev texts that hidden states are compared on


@dataclass(frozen=True)
class Request:
    """What an analysis is asked for."""

    parts: tuple[str, ...] = PARTS
    batch_sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    predictions: int = 100  # timed, per model and batch size
    threads: int | None = None
    sentence: str | None = None  # whose way through the layers is followed; the first dev text if None
    sample: Path | None = None  # where to write errors for labelling by hand
    count: int = 200  # of those
    labels: Path | None = None  # such a file, filled in
    recipe: Path | None = None  # whose section [analysis] counts instead of the run's

    def __post_init__(self) -> None:
        for part in self.parts:
            if part not in PARTS:
                raise ConfigError(f"--only names {part!r}; {no_such(part, PARTS, 'part')}")
        if "errors" not in self.parts and (self.sample or self.labels):
            raise ConfigError(f"--only is {','.join(self.parts)}, but --sample and --labels need errors; add it")
        for key, value in {"--count": self.count, "--predictions": self.predictions, "--threads": self.threads}.items():
            if value is not None and value < 1:
                raise ConfigError(f"{key} is {value}; give 1 or more")
        if not self.batch_sizes or min(self.batch_sizes) < 1:
            raise ConfigError(f"--batch-sizes is {list(self.batch_sizes)}; give numbers of 1 or more, like 1,8,32")


@dataclass(frozen=True)
class Subject:
    """What the parts of an analysis share."""

    record: dict
    config: RunConfig
    options: AnalysisOptions
    paths: dict[str, str]  # of the models
    tokenizer: Any
    examples: Examples
    load: Callable[[str], nn.Module]  # by path
    console: Console


def analyse(folder: Path, request: Request, console: Console) -> dict:
    """Analyses the finished run in `folder` and writes its record anew with what was found; gives the record.

    Parts that an earlier call found and this one is not asked for are kept.

    Raises:
        PlankwiseError: no finished run, models or data that are gone, or a table of labels that is not of this run.
    """
    record = read_record(folder)
    if any(name not in record for name in MODELS):
        raise RunError(
            f"{folder} holds no predecessor and successor to compare; give the folder of a finished `plankwise compress`"
        )
    if not (folder / CONFIG).is_file():
        raise RunError(f"{folder} has no {CONFIG}, so its task is not known; give the folder that the run wrote")
    if request.labels is not None and not request.labels.is_file():
        raise ConfigError(f"--labels is {request.labels}, which is no file; give the file that --sample wrote")
    config = load_config(folder / CONFIG, [])
    options = config.analysis if request.recipe is None else load_config(request.recipe, []).analysis
    paths = {name: _find(folder, name, record[name]["path"]) for name in (*MODELS, "floor") if name in record}
    remote_code = config.predecessor.remote_code
    tokenizer = load_tokenizer(paths["successor"], remote_code=remote_code)
    examples = read_examples(config, tokenizer, console)

    def load(path: str) -> nn.Module:
        return examples.load(str(path), remote_code=remote_code)[0].eval()

    found = record.get("analysis", {})
    with tempfile.TemporaryDirectory() as blocks:
        if isinstance(examples, Text):
            examples.lay_out_dev(Path(blocks), console)
        subject = Subject(record, config, options, paths, tokenizer, examples, load, console)
        for part in PARTS:
            if part in request.parts:
                found = found | _PARTS[part](subject, request, found.get(part, {}))
    record["analysis"] = found
    write_record(folder, record)
    return record


def _find(folder: Path, name: str, recorded: str) -> str:
    """The run's own copy of the model, wherever the run lies now, or else where the record says."""
    own = folder / name
    return str(own) if (own / "config.json").is_file() else recorded


def _errors(subject: Subject, request: Request, before: dict) -> dict:
    examples, options, console = subject.examples, subject.options, subject.console
    if not isinstance(examples, Labelled) or examples.source.kind != "classes":
        what = "numbers" if isinstance(examples, Labelled) else "text"
        if request.sample or request.labels:
            raise ConfigError(
                f"the run's task is on {what}, so no answer is right or wrong; leave --sample and --labels out"
            )
        console.print(f"errors: left out, since the task is on {what}, where no answer is right or wrong")
        return {}
    answers, outputs, lengths = _answer(subject, examples)
    found = analyse_errors(answers.labels, answers.names, outputs, lengths, answers.texts, keep_texts=options.texts)
    texts = ["\n".join(pair) for pair in answers.texts]
    members = apply_rules(options.rules, texts, ("\n".join(pair) for pair in _texts(examples.prepared.train)))
    found["classes"] = {
        "margin": options.margin,
        "rules": [{"name": rule.name, "rule": describe(rule)} for rule in options.rules],
        "rows": compare_classes(members, answers.wrong, answers.labels, binary=answers.binary, margin=options.margin),
    }
    if request.labels is not None:
        found["hand_labels"] = read_labels(request.labels, answers, margin=options.margin)
    elif "hand_labels" in before:
        found["hand_labels"] = before["hand_labels"]
    if request.sample is not None:
        count = write_sample(request.sample, answers, count=request.count, seed=subject.config.run.seed)
        todo = f"{request.sample}; fill in error_class, then give it as --labels" if count else "neither model made any"
        console.print(f"{count} errors to label by hand: {todo}", soft_wrap=True)
    return {"errors": found}


def _answer(subject: Subject, examples: Labelled) -> tuple[Answers, dict[str, np.ndarray], list[int]]:
    """Both models' answers to all dev sets one after another, their logits, and the texts' lengths in tokens.

    Classes are in the task's own order, so that class 1 is what the task calls positive.
    """
    source, scorer = examples.source, examples.scorer
    names = list(source.labels)
    if source.own_order:
        names = [names[index] for index in np.argsort(source.own_order)]
    labels = np.concatenate(list(scorer.labels().values()))
    subject.console.print(f"errors: both models answer {len(labels)} dev examples")
    outputs = {}
    for name in MODELS:
        by_set = scorer.outputs(subject.load(subject.paths[name]))
        outputs[name] = source.in_task_order(np.concatenate(list(by_set.values())))
    lengths = np.concatenate([encoded.lengths for encoded in scorer.dev.values()]).tolist()
    texts = [pair for table in examples.prepared.dev.values() for pair in _texts(table)]
    predicted = {name: values.argmax(axis=1) for name, values in outputs.items()}
    return Answers(texts, names, labels, predicted), outputs, lengths


def _texts(table: Any) -> list[tuple[str, ...]]:
    columns = [table[name].to_pylist() for name in ("text", "text_pair") if name in table.column_names]
    return list(zip(*columns, strict=True))


def _inside(subject: Subject, request: Request, before: dict) -> dict:
    subject.console.print("inside: hidden states of both models, and the score with each slot replaced alone")
    examples, config = subject.examples, subject.config
    texts = examples.held_out
    count = min(MOST_TEXTS, len(texts.lengths))
    few = replace(texts, dataset=texts.dataset.select(range(count)), lengths=texts.lengths[:count])
    found = look_inside(
        subject.load(subject.paths["predecessor"]),
        subject.load(subject.paths["successor"]),
        Plan.from_json(subject.record["plan"]),
        [batch for _, batch in sorted_batches(few, subject.tokenizer, config.evaluation.batch_size)],
        examples.score,
        subject.tokenizer,
        request.sentence or examples.texts(1)[0][0],
        config.training.max_length,
        init=config.plan.start,
    )
    return {"inside": found}


def _cost(subject: Subject, request: Request, before: dict) -> dict:
    console, config = subject.console, subject.config
    console.print(f"cost: {request.predictions} predictions a model and batch size")
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("cost", total=request.predictions * len(request.batch_sizes))
        found = measure_cost(
            {name: Path(path) for name, path in subject.paths.items()},
            subject.load,
            subject.tokenizer,
            subject.examples.texts(1000),
            max_length=config.training.max_length,
            batch_sizes=list(request.batch_sizes),
            predictions=request.predictions,
            threads=request.threads,
            progress=lambda: bar.advance(task),
        )
    return {"cost": found}


_PARTS: dict[str, Callable[[Subject, Request, dict], dict]] = {"errors": _errors, "inside": _inside, "cost": _cost}
