"""Rows of models that were made elsewhere: a run's folder or any checkpoint, measured on the same dev examples and tested alike.

Nothing is trained for such a row. It is one model, so that it stands for every seed with the same answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plankwise.comparison.cells import SUCCESSOR, GridCell
from plankwise.errors import ConfigError, PlankwiseError
from plankwise.evaluation.size import count_parameters
from plankwise.models.exported import read_exported
from plankwise.run import folders
from plankwise.run.inference import load_trained
from plankwise.run.inputs import Run

GIVEN = "given"  # the method of a model of which nothing else is known


@dataclass(frozen=True)
class Given:
    """One row of the table: a trained model."""

    label: str
    path: str  # as it was given

    @property
    def model(self) -> str:
        """The model itself: of a run's folder, its successor."""
        folder = Path(self.path).expanduser()
        inside = folder / SUCCESSOR
        return str(inside) if (folder / folders.CONFIG).is_file() and inside.is_dir() else self.path

    @property
    def method(self) -> str:
        """The method of the run that made it, if it is a run's successor."""
        model = Path(self.model).expanduser()
        made_by = folders.find_config(self.model) if model.name == SUCCESSOR else None
        return GIVEN if made_by is None else folders.read_config(made_by.parent).method.name


def check_given(row: Given, run: Run) -> None:
    """Looks whether a row's model fits the task.

    Raises:
        PlankwiseError: it cannot be loaded; it has no trained head for the task, or one for other classes; it takes fewer tokens,
            or has a tokenizer of its own where the task cannot be scored with another.
    """
    model, task = row.model, run.task
    try:
        exported = read_exported(model)
        if exported is None or exported.is_checkpoint:
            task.check_head(run.loader.config(model), model, otherwise="")
        load_trained(run, model)
        if task.needs_tokens is not None and run.own_tokenizer(model) is not None:
            raise ConfigError(
                f"{model} has other tokens than the predecessor, but the task is on {task.kind}, where {task.needs_tokens}; "
                "give a model with the predecessor's tokenizer"
            )
    except PlankwiseError as error:
        raise type(error)(f"row {row.label!r}: {error}") from None


def measure_given(row: Given, run: Run, seeds: Sequence[int]) -> list[GridCell]:
    """What a row's model gives on dev, once for each seed.

    Raises:
        RunError: its answers only make sense for another order of classes.
    """
    figures = measure_model(run, row.model)
    if figures["outputs"]:
        try:
            run.task.check_answers(figures["outputs"], run.loader.config(row.model), row.model)
        except PlankwiseError as error:
            raise type(error)(f"row {row.label!r}: {error}") from None
    return [GridCell(label=row.label, seed=seed, notes={GIVEN: row.path}, **figures) for seed in seeds]


def measure_model(run: Run, path: str) -> dict[str, Any]:
    """What the model at `path` gives as the run's runtime runs it, by the names that a cell has for it."""
    model = run.open(path)
    metrics, beyond_constant, outputs = run.task.examine(model)
    return {
        "score": metrics.pop("score"),
        "metrics": metrics,
        "parameters": count_parameters(run.load(path) if model.module is None else model.module),
        "beyond_constant": beyond_constant,
        "outputs": dict(outputs),
    }
