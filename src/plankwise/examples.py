"""A task's examples, ready for one predecessor: read, cleaned, split, encoded."""

from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
from rich.console import Console

from plankwise.config import Options, RunConfig
from plankwise.data.encode import Encoded, encode
from plankwise.data.split import Prepared, prepare
from plankwise.evaluation.scoring import Scorer
from plankwise.kinds import load_kind
from plankwise.tasks._source import Source


@dataclass(frozen=True)
class Examples:
    """A task's examples, encoded for one predecessor."""

    source: Source
    prepared: Prepared
    train: Encoded
    scorer: Scorer

    def to_json(self) -> dict:
        """What the record says of them."""
        prepared = self.prepared
        return {
            "name": self.source.name,
            "labels": list(self.source.labels),
            "score": list(self.source.score),
            "train": prepared.train.num_rows,
            "dev": {name: table.num_rows for name, table in prepared.dev.items()},
            "dropped": {name: asdict(dropped) for name, dropped in prepared.dropped.items()},
            "cut": {"train": self.train.num_cut, **{n: e.num_cut for n, e in self.scorer.dev.items()}},
        }


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
    encoded = encode(table, tokenizer, length)
    cut = f", {encoded.num_cut} longer than {length} tokens and cut" if encoded.num_cut else ""
    console.print(f"{name}: {len(encoded.lengths)} examples{cut}")
    return encoded
