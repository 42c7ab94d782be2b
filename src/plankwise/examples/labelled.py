"""Labelled examples, ready for one predecessor: read, cleaned, split, encoded."""

from dataclasses import asdict
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.progress import Progress
from torch import nn

from plankwise.config import Options, RunConfig
from plankwise.data.encode import Encoded, encode
from plankwise.data.split import Prepared, prepare
from plankwise.errors import ConfigError
from plankwise.evaluation.guards import check_predecessor
from plankwise.evaluation.scoring import Scorer
from plankwise.examples._base import Examples
from plankwise.families._loading import check_labels, load_classifier
from plankwise.kinds import load_kind
from plankwise.tasks._source import Source


class Labelled(Examples):
    """A task's labelled examples, encoded for one predecessor."""

    def __init__(self, source: Source, prepared: Prepared, train: Encoded, scorer: Scorer) -> None:
        self.source = source
        self.prepared = prepared
        self.train = train
        self.scorer = scorer
        self.name = source.name
        self.score_names = source.score
        self.held_out = next(iter(scorer.dev.values()))

    def load(self, path: str, *, remote_code: bool) -> tuple[nn.Module, bool]:
        return load_classifier(path, self.source.labels, tokenizer=self.scorer.tokenizer, remote_code=remote_code)

    def score(self, model: nn.Module) -> dict[str, float]:
        return self.scorer.score(model)

    def texts(self, most: int) -> list[tuple[str, ...]]:
        return self.scorer.texts(self.prepared, most)

    def check_head(self, given: Any, path: str) -> None:
        if any("ForSequenceClassification" in name for name in given.architectures or ()):
            check_labels(given, self.source.labels, path)

    def check_predecessor(self, model: nn.Module, path: str, *, given: bool = False) -> None:
        check_predecessor(self.scorer, model, self.prepared.train, path, given=given)

    def to_json(self) -> dict:
        prepared = self.prepared
        return {
            "name": self.name,
            "labels": list(self.source.labels),
            "score": list(self.score_names),
            "train": prepared.train.num_rows,
            "dev": {name: table.num_rows for name, table in prepared.dev.items()},
            "dropped": {name: asdict(dropped) for name, dropped in prepared.dropped.items()},
            "cut": {"train": self.train.num_cut, **{n: e.num_cut for n, e in self.scorer.dev.items()}},
        }


def read_labelled(task: Options, config: RunConfig, tokenizer: Any, console: Console) -> Labelled:
    """Reads, cleans, splits and encodes a task's examples, and says what was dropped or cut."""
    source, prepared = prepare_task(task, config, console)
    train = _encode("train", prepared.train, tokenizer, config, console)
    return Labelled(source, prepared, train, make_scorer(source, prepared, tokenizer, config, console))


def prepare_task(task: Options, config: RunConfig, console: Console) -> tuple[Source, Prepared]:
    """A task's examples as text, cleaned and split; says what was dropped.

    Raises:
        ConfigError: the task has no labels.
        DataError: they cannot be read.
    """
    name: str = task.name  # type: ignore[attr-defined]
    module = load_kind("tasks", name, key="task.name")
    if not hasattr(module, "read"):
        raise ConfigError(f"task.name is {name!r}, which has no labels, and this needs them; give a labelled task")
    source = module.read(task)
    wanted = getattr(task, "labels", None)
    if wanted and tuple(wanted) != source.labels:
        source = source.reorder(tuple(wanted))
    prepared = prepare(source, task, seed=config.run.seed_of_data)  # type: ignore[arg-type]
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
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"{name}: tokens", total=table.num_rows)
        encoded = encode(table, tokenizer, length, progress=lambda rows: bar.advance(task, rows))
    cut = f", {encoded.num_cut} longer than {length} tokens and cut" if encoded.num_cut else ""
    console.print(f"{name}: {len(encoded.lengths)} examples{cut}")
    return encoded
