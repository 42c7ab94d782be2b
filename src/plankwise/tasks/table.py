"""Your own examples, from csv, tsv, jsonl or parquet files.

Classes by name or numbers, on one text or on pairs; the columns are named in the recipe.
"""

import re
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, field_validator, model_validator

from plankwise.data.layouts import Encoding, Quoting, Separator
from plankwise.data.pieces import Layout
from plankwise.data.quotes import Tally, Tell, log
from plankwise.data.source import Source, TaskOptions
from plankwise.data.tables import check_filled, encode_classes, encode_numbers, listed, read_table
from plankwise.errors import ConfigError, DataError
from plankwise.kinds import no_such

KIND = "labels"
METRICS = {
    "classes": ("accuracy", "f1", "macro_f1", "matthews", "roc_auc"),
    "number": ("pearson", "spearman"),
}
WHOLE = re.compile(r"-?\d{1,300}")  # a class that is sorted as a number


class Options(TaskOptions):
    name: Literal["table"] = Field("table", description="the kind of task")
    train: str = Field(min_length=1, description="file of training examples: csv, tsv, jsonl or parquet")
    dev: str | None = Field(None, description="file of dev examples; a share of train if absent")
    test: str | None = Field(None, description="file of examples to predict; its labels are not read")
    text: str | list[str] = Field(description="column of the text, or two columns for a task on pairs")
    label: str = Field(description="column of the label")
    kind: Literal["classes", "number"] = Field("classes", description="what a label is")
    labels: list[str] | None = Field(
        None, min_length=2, description="classes in order; those found in train, sorted, if absent"
    )
    separator: Separator = Field(None, description="between columns; a comma in .csv, a tab in .tsv if absent")
    header: bool = Field(True, description="the first line names the columns; if false they are '0', '1', …")
    encoding: Encoding = Field("utf-8", description="how the file's characters are written, for example latin-1")
    quoting: Quoting = Field(
        True, description="double quotes enclose fields; if false (or 'none') they are part of the text"
    )
    metric: str | None = Field(
        None, description="the score; accuracy for classes, the mean of pearson and spearman for numbers if absent"
    )

    @field_validator("text", "label", "labels", mode="before")
    @classmethod
    def _numbers_are_names_too(cls, value: Any) -> Any:
        if isinstance(value, list):
            return [cls._numbers_are_names_too(item) for item in value]
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value

    @field_validator("text")
    @classmethod
    def _one_or_two(cls, value: str | list[str]) -> str | list[str]:
        if isinstance(value, list) and (len(value) not in (1, 2) or len(set(value)) < len(value)):
            raise ConfigError(f"task.text is {value!r}; give one column, or two different ones")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.label in text_columns(self):
            raise ConfigError(f"task.label is {self.label!r}, which is task.text too; name the column of the labels")
        if self.metric is not None and self.metric not in METRICS[self.kind]:
            known = no_such(self.metric, METRICS[self.kind], f"metric for task.kind = {self.kind!r}")
            raise ConfigError(f"task.metric is {self.metric!r}; {known}")
        if self.labels is not None and self.kind == "number":
            raise ConfigError("task.labels is given, but task.kind is 'number'; take one of them out")
        if self.labels is not None and len(set(self.labels)) < len(self.labels):
            raise ConfigError(f"task.labels is {self.labels!r}; each class may be listed only once")
        return self


def text_columns(options: Options) -> list[str]:
    """The one or two columns that hold text."""
    return [options.text] if isinstance(options.text, str) else options.text


def read(options: Options) -> Source:
    """The training examples, and the dev examples if a file of them is given.

    Raises:
        DataError: a file cannot be used; says which line.
        ConfigError: the metric does not fit the number of classes.
    """
    layout = _layout(options)
    columns = [*text_columns(options), options.label]
    tally = Tally()
    path, table = _read_columns(options, "train", columns, tally.add)
    labels = () if options.kind == "number" else _classes(options, table[options.label], path, layout)
    metrics, score = _metrics(options, labels)
    train = _examples(options, path, table, labels)
    dev = {}
    if options.dev is not None:
        dev["dev"] = _examples(options, *_read_columns(options, "dev", columns, tally.add), labels)
    return Source(
        name=path.stem,
        kind=options.kind,
        labels=labels,
        metrics=metrics,
        score=score,
        train=train,
        dev=dev,
        notes=tally.notes,
    )


def test_files(options: Options) -> list[tuple[Path, list[str], Layout]]:
    """The file of examples to predict, its columns of text, and how it is written.

    Raises:
        DataError: no file is given.
    """
    if options.test is None:
        raise DataError("task.test is not given; name the file of examples to predict, or give --table and --text")
    return [(Path(options.test).expanduser(), text_columns(options), _layout(options))]


def read_tests(options: Options) -> dict[str, pa.Table]:
    """The examples to predict, with the row number as `id`, under the file's name without its ending.

    Raises:
        DataError: no file is given, or it cannot be used.
    """
    test_files(options)
    path, table = _read_columns(options, "test", text_columns(options))
    return {path.stem: pa.table({"id": pa.array(np.arange(table.num_rows)), **_texts(options, table)})}


def _layout(options: Options) -> Layout:
    return Layout(options.separator, options.header, options.encoding, options.quoting)


def _read_columns(options: Options, which: str, columns: list[str], tell: Tell = log) -> tuple[Path, pa.Table]:
    path = Path(getattr(options, which)).expanduser()
    return path, read_table(path, columns, _layout(options), key=f"task.{which}", tell=tell)


def _texts(options: Options, table: pa.Table) -> dict[str, pa.ChunkedArray]:
    return {name: table[column] for name, column in zip(("text", "text_pair"), text_columns(options), strict=False)}


def _examples(options: Options, path: Path, table: pa.Table, labels: tuple[str, ...]) -> pa.Table:
    layout, column = _layout(options), table[options.label]
    if options.kind == "number":
        encoded = encode_numbers(column, path, layout)
    else:
        fault = f"is not in task.labels ({listed(labels)})"
        if options.labels is None:
            fault = f"does not occur in {Path(options.train).name} ({listed(labels)}); fix it, or list task.labels"
        encoded = encode_classes(column, labels, fault, path, layout)
    return pa.table({**_texts(options, table), "label": encoded})


def _classes(options: Options, column: pa.ChunkedArray, path: Path, layout: Layout) -> tuple[str, ...]:
    """In the order of task.labels, or else sorted: as numbers if all are whole numbers."""
    check_filled(column, path, layout)
    found = pc.unique(column).to_pylist()
    if len(found) == 1:
        raise DataError(
            f"{path.name}: every label in column {options.label!r} is {found[0]!r}; "
            "at least two classes are needed, so check task.label or add examples of another class"
        )
    if options.labels is not None:
        return tuple(options.labels)
    whole = all(WHOLE.fullmatch(value) for value in found)
    return tuple(sorted(found, key=(lambda value: (int(value), value)) if whole else None))


def _metrics(options: Options, labels: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is measured, and the score."""
    if options.kind == "number":
        return METRICS["number"], (options.metric,) if options.metric else METRICS["number"]
    if options.metric == "f1" and len(labels) != 2:
        raise ConfigError(
            f"task.metric is 'f1', which is for two classes, but there are {len(labels)} ({listed(labels)}); "
            "choose macro_f1"
        )
    metrics = ("accuracy", *(("f1",) if len(labels) == 2 else ()), "macro_f1", "matthews")
    score = options.metric or "accuracy"
    return metrics if score in metrics else (*metrics, score), (score,)
