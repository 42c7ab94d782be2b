"""Copies of a run's training texts: what they are made of, and whether they can be made, before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from plankwise.data.word_vectors import KEY
from plankwise.errors import DataError
from plankwise.models.masked import load_masked
from plankwise.training.augmentation import Material

if TYPE_CHECKING:
    from plankwise.run.inputs import Run


def material_of(run: Run) -> Material:
    """The run's training examples, and the models that words may come from."""
    return Material(run.task.training_table, lambda given: load_masked(run.loader, given, run.config.predecessor.path))


def check_augmentation(run: Run) -> None:
    """Looks whether the copies that the method asks for, if it does, can be made.

    Raises:
        ConfigError: the task has no texts to copy, or there is no masked language model.
        DataError: there is no file of word vectors.
    """
    options = getattr(run.config.method, "augmentation", None)
    if options is None or not options.copies:
        return
    material = material_of(run)
    material.table()
    if options.vectors is not None and not Path(options.vectors).expanduser().is_file():
        raise DataError(f"{KEY} is {options.vectors}, and there is no such file; give a text file of word vectors")
    material.open_model(options.model)
