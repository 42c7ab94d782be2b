"""The vocabulary of a run's successors: which texts say what is kept, and successors saved with that alone.

Dev texts never choose, so that what is lost on texts with other words shows in the score.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from plankwise.errors import ConfigError
from plankwise.models.saving import save
from plankwise.models.trimmed_tokenizer import trim_tokenizer
from plankwise.models.vocabulary import check_trimmable, trim
from plankwise.run.export_request import TASK
from plankwise.training.fitting import read_texts

if TYPE_CHECKING:
    from plankwise.run.inputs import Run
    from plankwise.task_kinds import Task

KEY = "plan.vocabulary"
FEW = 100  # texts that show whether a tokenizer can be trimmed


class Texts(Sequence[str]):
    """Texts in an Arrow column, of which only a slice at a time becomes Python's."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        self.column = column

    def __len__(self) -> int:
        return len(self.column)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            start, stop, _ = index.indices(len(self))
            return self.column.slice(start, stop - start).to_pylist()
        return self.column[index].as_py()


def gather_texts(sources: Sequence[str], task: Task | None, key: str = KEY) -> Texts:
    """The texts of all sources: `task`, or text files with one text a line.

    Raises:
        ConfigError: a task that gives no texts.
        DataError: a file cannot be read, or has no texts.
    """
    chunks: list[pa.Array] = []
    for source in sources:
        if source == TASK:
            assert task is not None
            chunks += task.training_texts().cast(pa.large_string()).chunks
        else:
            chunks.append(pa.array(read_texts(source, key), pa.large_string()))
    return Texts(pa.chunked_array(chunks, pa.large_string()))


def check_vocabulary(run: Run, predecessor: Any) -> None:
    """Looks, before anything is trained, whether the successors can be trimmed as the config says.

    Raises:
        PlankwiseError: they cannot.
    """
    options, task = run.config.plan, run.task
    if not options.vocabulary:
        return
    if task.needs_tokens is not None:
        raise ConfigError(
            f"{KEY} is {options.vocabulary}, but the task is on {task.kind}, where {task.needs_tokens}; take it out, and trim the "
            "finished successor: plankwise trim"
        )
    texts = gather_texts(options.vocabulary, task)
    check_trimmable(predecessor)
    trim_tokenizer(run.tokenizer, texts[:FEW])


def save_trimmed(run: Run, model: Any, name: str) -> tuple[Path, dict | None]:
    """Saves a successor in the run's folder, with the vocabulary that the config asks for; also what the record says of that."""
    options = run.config.plan
    if not options.vocabulary:
        return run.save(model, name), None

    def work() -> tuple[Path, dict]:
        texts = gather_texts(options.vocabulary, run.task)
        trimmed = trim(model, run.tokenizer, texts, min_count=options.vocabulary_min_count)
        told = trimmed.to_json()
        run.context.console.print(
            f"{name}: {told['tokens']:,} of {told['tokens_before']:,} tokens kept, {told['saved_mb']:.1f} MB saved",
            soft_wrap=True,
        )
        return save(trimmed.model, run.folder / name, trimmed.tokenizer), told

    return run.context.on_main(work)
