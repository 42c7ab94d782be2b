"""What every task gives: raw tables of examples, and how to score predictions on them."""

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from plankwise.config import Options
from plankwise.errors import ConfigError


class TaskOptions(Options):
    train_limit: int | None = Field(
        None, ge=1, description="use at most this many training examples, drawn by the seed"
    )
    dev_limit: int | None = Field(None, ge=1, description="use at most this many dev examples, drawn by the seed")
    dev_share: float = Field(0.2, gt=0, lt=1, description="share of train that becomes dev when there is no dev set")
    labels: list[str] | None = Field(
        None, description="the classes' order, as in the predecessor; the task's own if absent"
    )
    clean: bool = Field(True, description="drop duplicates, contradicting labels and empty texts")
    overlap: Literal["drop", "keep"] = Field("drop", description="what to do with train texts that are in dev too")


@dataclass(frozen=True)
class Source:
    """Tables with the columns `text`, `text_pair` (tasks on two texts) and `label` (class index or number)."""

    name: str
    kind: Literal["classes", "number"]
    labels: tuple[str, ...]  # names by class index; empty for numbers
    metrics: tuple[str, ...]  # what is measured
    score: tuple[str, ...]  # the metrics whose mean is the score
    train: pa.Table
    dev: dict[str, pa.Table] = field(default_factory=dict)  # empty: to be split off train
    notes: tuple[str, ...] = ()  # what the user should know of how the files were read
    own_order: tuple[int, ...] = ()  # the task's own index of each class, where `labels` has been reordered

    def reorder(self, labels: tuple[str, ...]) -> "Source":
        """The same examples with class indices that follow `labels`; metrics still follow the task's own order.

        Raises:
            ConfigError: other names than the task's.
        """
        if sorted(labels) != sorted(self.labels):
            raise ConfigError(f"task.labels is {list(labels)}; the task's classes are {', '.join(self.labels)}")
        new = pa.array([labels.index(name) for name in self.labels])
        tables = {name: _map_labels(table, new) for name, table in {"": self.train, **self.dev}.items()}
        order = tuple(self.labels.index(name) for name in labels)
        return replace(self, labels=labels, train=tables.pop(""), dev=tables, own_order=order)

    def in_task_order(self, outputs: np.ndarray) -> np.ndarray:
        """Logits (N, C) with the columns in the task's own order of classes."""
        return outputs[:, np.argsort(self.own_order)] if self.own_order else outputs

    def label_in_task_order(self, labels: np.ndarray) -> np.ndarray:
        return np.asarray(self.own_order)[labels] if self.own_order else labels


def _map_labels(table: pa.Table, new: pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index("label"), "label", new.take(table["label"].combine_chunks()))


def texts_of(table: pa.Table) -> list[tuple[str, ...]]:
    """The texts, or pairs of texts, in a table's rows."""
    columns = [table[name].to_pylist() for name in ("text", "text_pair") if name in table.column_names]
    return list(zip(*columns, strict=True))
