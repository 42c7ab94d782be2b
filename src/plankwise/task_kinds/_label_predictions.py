"""Predictions of a trained classifier, or of a model that gives numbers: a csv for a table, GLUE's files for the leaderboard."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import track
from scipy.special import softmax
from transformers import AutoModelForSequenceClassification

from plankwise.config import RunConfig
from plankwise.data.cells import make_safe, read_cells, read_columns
from plankwise.data.encode import encode
from plankwise.data.pieces import Layout, Piece
from plankwise.errors import ConfigError, DataError
from plankwise.evaluation.predict import predict
from plankwise.kinds import load_kind
from plankwise.models.labels import has_names
from plankwise.models.limits import check_length
from plankwise.models.loading import Loader
from plankwise.runtimes import open_predictor
from plankwise.task_kinds._prediction_rows import check_file, check_folder, read_texts, write_rows

CHUNK = 5_000  # rows encoded and predicted at once


class Classifier:
    """A trained model with its tokenizer and the names of its classes (none if it gives numbers)."""

    def __init__(self, config: RunConfig, loader: Loader) -> None:
        path = config.predecessor.path
        saved = loader.config(path)
        if not any("ForSequenceClassification" in name for name in saved.architectures or ()):
            raise ConfigError(
                f"{path} has no trained head for classification; give the successor/ or predecessor/ folder of a run"
            )
        names = saved.id2label
        self.path = path
        self.labels = () if len(names) == 1 else tuple(str(names[index]) for index in range(len(names)))
        self.tokenizer = loader.tokenizer(path)
        self.max_length = config.training.max_length
        self.batch_size = config.evaluation.batch_size
        check_length(self.max_length, loader.outline(path, AutoModelForSequenceClassification), self.tokenizer, path)
        self.predictor = open_predictor(config.evaluation.runtime, path, loader.trained)

    def outputs(self, table: pa.Table, console: Console) -> np.ndarray:
        """Logits (N, C) or numbers (N,) for the table's texts; says how many were cut."""
        chunks, num_cut = [], 0
        starts = range(0, table.num_rows, CHUNK)
        for start in track(starts, "predicting", console=console, disable=not console.is_terminal):
            encoded = encode(table.slice(start, CHUNK), self.tokenizer, self.max_length)
            num_cut += encoded.num_cut
            chunks.append(predict(self.predictor, encoded, self.tokenizer, self.batch_size))
        if num_cut:
            console.print(
                f"{num_cut} of {table.num_rows} texts were longer than {self.max_length} tokens and cut; "
                "training.max_length=… sets another length"
            )
        return np.concatenate(chunks)


def predict_table(
    config: RunConfig, loader: Loader, path: Path, texts: list[str], layout: Layout, out: Path, console: Console
) -> list[Path]:
    """Writes a CSV with all columns of the table, then the prediction and for classes the confidence, row by row.

    Raises:
        PlankwiseError: the model or the table cannot be used.
    """
    if len(texts) > 2:
        raise ConfigError(f"--text is given {len(texts)} times; a model takes one text or a pair")
    check_file(out)
    _predict_file(Classifier(config, loader), Piece(path, layout), texts, out, console, key="--table")
    return [out]


def predict_tests(config: RunConfig, loader: Loader, out: Path, console: Console) -> list[Path]:
    """Predicts the task's test files into the folder `out`; GLUE's in the leaderboard's format.

    Raises:
        PlankwiseError: the task has no test files, or the model does not fit.
    """
    check_folder(out)
    task: Any = config.task
    module = load_kind("tasks", task.name, key="task.name")
    written = []
    if hasattr(module, "test_files"):
        files = module.test_files(task)
        classifier = Classifier(config, loader)
        for path, texts, layout in files:
            written.append(out / f"{path.stem}.csv")
            _predict_file(classifier, Piece(path, layout), texts, written[-1], console, key="task.test")
        return written
    tests = module.read_tests(task)
    classifier = Classifier(config, loader)
    for name, table in tests.items():
        if hasattr(module, "write_submission"):
            path = out / f"{name}.tsv"
            values = _in_task_order(classifier, classifier.outputs(table, console), module.class_names(task))
            module.write_submission(path, table["id"].to_pylist(), values, task)
        else:
            path = out / f"{name}.csv"
            rows = ([str(row)] for row in range(table.num_rows))
            _write_csv(classifier, classifier.outputs(table, console), ["row"], rows, path, console)
        written.append(path)
    return written


def _in_task_order(classifier: Classifier, outputs: np.ndarray, labels: tuple[str, ...]) -> np.ndarray:
    """Class indices as the task numbers them, whatever order the model has them in."""
    if not labels:
        return outputs
    own, wanted = ([name.lower() for name in names] for names in (classifier.labels, labels))
    named = has_names(list(classifier.labels))
    if len(own) != len(wanted) or (named and sorted(own) != sorted(wanted)):
        raise DataError(
            f"{classifier.path} has the classes {', '.join(classifier.labels) or 'none'}, the task {', '.join(labels)}; "
            "give a model that was trained on this task"
        )
    predicted = outputs.argmax(axis=1)
    return np.array([wanted.index(name) for name in own])[predicted] if named else predicted


def _predict_file(
    classifier: Classifier, piece: Piece, texts: list[str], out: Path, console: Console, *, key: str
) -> None:
    """Predicts the columns of text of a file, whose path `key` gave, and writes them beside all of its columns."""
    table = read_texts(piece, texts, console, key=key)
    named = dict(zip(("text", "text_pair"), (table[name] for name in texts), strict=False))
    outputs = classifier.outputs(pa.table(named), console)
    columns = read_columns(piece)
    _write_csv(classifier, outputs, columns, read_cells(piece, columns), out, console)


def _write_csv(
    classifier: Classifier,
    outputs: np.ndarray,
    columns: list[str],
    rows: Iterable[list[str]],
    path: Path,
    console: Console,
) -> None:
    """Writes rows as they come, each with what the model says of it."""
    new = ["prediction", "confidence"] if classifier.labels else ["prediction"]
    write_rows(path, columns, rows, new, _as_cells(classifier, outputs), len(outputs), console)


def _as_cells(classifier: Classifier, outputs: np.ndarray) -> Iterator[list[str]]:
    if not classifier.labels:
        return ([f"{value:.4f}"] for value in outputs)
    shares = softmax(outputs, axis=1)
    best = shares.argmax(axis=1)
    names = [make_safe(name, keep_numbers=True) for name in classifier.labels]
    return ([names[index], f"{shares[row, index]:.4f}"] for row, index in enumerate(best))
