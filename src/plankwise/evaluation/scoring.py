"""Scores a model on a task's dev sets."""

from typing import Any

import numpy as np
from torch import nn

from plankwise.data.encode import Encoded
from plankwise.data.split import Prepared
from plankwise.evaluation.metrics import compute, score
from plankwise.evaluation.predict import predict
from plankwise.tasks._source import Source


class Scorer:
    """The dev sets of one task, encoded, and how to score outputs on them."""

    def __init__(self, source: Source, dev: dict[str, Encoded], tokenizer: Any, batch_size: int) -> None:
        self.source = source
        self.dev = dev
        self.tokenizer = tokenizer
        self.batch_size = batch_size

    def score(self, model: nn.Module) -> dict[str, float]:
        """The task's metrics, and `score`: the mean of those that count, and over the dev sets if there are several."""
        names = dict.fromkeys([*self.source.metrics, *self.source.score])
        found: dict[str, float] = {}
        scores = []
        for name, encoded in self.dev.items():
            outputs = predict(model, encoded, self.tokenizer, self.batch_size)
            metrics = compute(list(names), self.source.in_task_order(outputs), self.labels()[name])
            scores.append(score(metrics, self.source.score))
            prefix = f"{name}_" if len(self.dev) > 1 else ""
            found |= {f"{prefix}{metric}": value for metric, value in metrics.items()}
        return {**found, "score": float(np.mean(scores))}

    def labels(self) -> dict[str, np.ndarray]:
        """The dev sets' labels, in the task's own order of classes."""
        return {
            name: self.source.label_in_task_order(np.asarray(encoded.dataset["labels"]))
            for name, encoded in self.dev.items()
        }

    def outputs(self, model: nn.Module) -> tuple[np.ndarray, np.ndarray]:
        """The model's outputs on all dev examples and their labels, both in the model's order of classes."""
        outputs = [predict(model, encoded, self.tokenizer, self.batch_size) for encoded in self.dev.values()]
        labels = [np.asarray(encoded.dataset["labels"]) for encoded in self.dev.values()]
        return np.concatenate(outputs), np.concatenate(labels)

    def texts(self, prepared: Prepared, most: int) -> list[tuple[str, ...]]:
        """Up to `most` dev texts (or pairs) as they stand in the data."""
        table = next(iter(prepared.dev.values())).slice(0, most)
        columns = [table[name].to_pylist() for name in ("text", "text_pair") if name in table.column_names]
        return list(zip(*columns, strict=True))
