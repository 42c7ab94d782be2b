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
        return self.score_outputs(self.outputs(model))

    def score_outputs(self, outputs: dict[str, np.ndarray]) -> dict[str, float]:
        """The same of outputs that a model has given already."""
        names = dict.fromkeys([*self.source.metrics, *self.source.score])
        found: dict[str, float] = {}
        scores = []
        for name, values in outputs.items():
            metrics = compute(list(names), self.source.in_task_order(values), self.labels()[name])
            scores.append(score(metrics, self.source.score))
            prefix = f"{name}_" if len(self.dev) > 1 else ""
            found |= {f"{prefix}{metric}": value for metric, value in metrics.items()}
        return {**found, "score": float(np.mean(scores))}

    def labels(self) -> dict[str, np.ndarray]:
        """The dev sets' labels, in the task's own order of classes."""
        return {
            name: self.source.label_in_task_order(encoded.dataset.with_format("numpy")["labels"][:])
            for name, encoded in self.dev.items()
        }

    def outputs(self, model: nn.Module) -> dict[str, np.ndarray]:
        """The model's outputs on each dev set, in the model's order of classes."""
        return {name: predict(model, encoded, self.tokenizer, self.batch_size) for name, encoded in self.dev.items()}

    def texts(self, prepared: Prepared, most: int) -> list[tuple[str, ...]]:
        """Up to `most` dev texts (or pairs) as they stand in the data."""
        table = next(iter(prepared.dev.values())).slice(0, most)
        columns = [table[name].to_pylist() for name in ("text", "text_pair") if name in table.column_names]
        return list(zip(*columns, strict=True))
