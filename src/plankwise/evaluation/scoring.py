"""Scores a model on a task's dev sets."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from plankwise.data.encode import Encoded
from plankwise.data.source import Source
from plankwise.evaluation.held_back import HALVES, first_half
from plankwise.evaluation.metrics import compute, score
from plankwise.evaluation.predict import predict
from plankwise.runtimes import Predictor


class Scorer:
    """The dev sets of one task, encoded, and how to score outputs on them."""

    def __init__(self, source: Source, dev: dict[str, Encoded], tokenizer: Any, batch_size: int) -> None:
        self.source = source
        self.dev = dev
        self.tokenizer = tokenizer
        self.batch_size = batch_size

    def score(self, outputs: Mapping[str, np.ndarray]) -> dict[str, float]:
        """The task's metrics, and `score`: the mean of those that count, and over the dev sets if there are several."""
        names = dict.fromkeys([*self.source.metrics, *self.source.score])
        found: dict[str, float] = {}
        scores = []
        labels = self.labels()
        for name, values in outputs.items():
            metrics = compute(list(names), self.source.in_task_order(values), labels[name])
            scores.append(score(metrics, self.source.score))
            prefix = f"{name}_" if len(self.dev) > 1 else ""
            found |= {f"{prefix}{metric}": value for metric, value in metrics.items()}
        return {**found, "score": float(np.mean(scores))}

    def score_halves(self, outputs: Mapping[str, np.ndarray]) -> dict[str, float]:
        """The score on each of two fixed halves of dev, by the names in HALVES; empty if a dev set has only one example."""
        labels, names = self.labels(), self.source.score
        if any(len(own) < 2 for own in labels.values()):
            return {}
        found: dict[str, list[float]] = {key: [] for key in HALVES}
        for name, values in outputs.items():
            half, values = first_half(len(values)), self.source.in_task_order(values)
            for key, rows in zip(HALVES, (half, ~half), strict=True):
                found[key].append(score(compute(names, values[rows], labels[name][rows]), names))
        return {key: float(np.mean(scores)) for key, scores in found.items()}

    def resample(self, outputs: Mapping[str, np.ndarray], rounds: int) -> np.ndarray:
        """The score on `rounds` bootstrap samples of dev, the same ones whatever the outputs; (R,)."""
        random, labels, names = np.random.default_rng(0), self.labels(), self.source.score
        found = np.zeros(rounds)
        for name, values in outputs.items():
            values = self.source.in_task_order(values)
            for index in range(rounds):
                rows = random.integers(0, len(values), len(values))
                found[index] += score(compute(names, values[rows], labels[name][rows]), names)
        return found / len(outputs)

    def labels(self) -> dict[str, np.ndarray]:
        """The dev sets' labels, in the task's own order of classes."""
        return {
            name: self.source.label_in_task_order(encoded.dataset.with_format("numpy")["labels"][:])
            for name, encoded in self.dev.items()
        }

    def outputs(self, predictor: Predictor) -> dict[str, np.ndarray]:
        """The model's outputs on each dev set, in the model's order of classes."""
        return {
            name: predict(predictor, encoded, self.tokenizer, self.batch_size) for name, encoded in self.dev.items()
        }
