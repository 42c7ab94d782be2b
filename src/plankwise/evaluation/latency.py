"""Time of a prediction from text to answer: tokenise, pad, run, read out; models interleaved in one run (thesis §5.5)."""

import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from plankwise.runtimes import Predictor

WARM_UP = 3  # predictions that are not counted: they fill caches and allocators


@dataclass(frozen=True)
class Timed:
    """What is timed: the texts, and the way from texts to answers, which is the task's."""

    texts: list[tuple[str, ...]]
    encode: Callable[[list[tuple[str, ...]]], Any]  # texts to a padded batch
    answer: Callable[[Any], Any]  # outputs to answers, on the CPU

    def count_tokens(self) -> list[int]:
        """How many tokens each text (or pair) is to a model."""
        return self.encode(self.texts)["attention_mask"].sum(1).tolist()


def measure_latency(
    predictors: dict[str, Predictor],
    timed: Timed,
    *,
    batch_sizes: list[int],
    predictions: int,
    progress: Callable[[], None] = lambda: None,
) -> dict[str, dict[str, dict[str, float]]]:
    """For each model and batch size: mean, standard deviation, p50, p95 and p99 in ms, and the count they are taken over.

    Also the tokens per second that were read, padding not counted.

    Every batch is predicted by all models in turn, so that what else the machine does falls on all of them alike; who goes
    first changes every time, since each finds the caches as the one before left them.
    """
    times: dict[str, dict[int, list[float]]] = {name: {size: [] for size in batch_sizes} for name in predictors}
    tokens: dict[int, int] = dict.fromkeys(batch_sizes, 0)
    lengths = timed.count_tokens()
    for size in batch_sizes:
        stream = itertools.cycle(zip(timed.texts, lengths, strict=True))
        for count in range(predictions + WARM_UP):
            batch, counts = zip(*itertools.islice(stream, size), strict=True)
            for name in _rotated(list(predictors), count):
                seconds = _time(predictors[name], timed, list(batch))
                if count >= WARM_UP:
                    times[name][size].append(seconds * 1000)
            if count >= WARM_UP:
                tokens[size] += sum(counts)
                progress()
    return {
        name: {str(size): _summary(values, tokens[size]) for size, values in by_size.items()}
        for name, by_size in times.items()
    }


@contextmanager
def threads(count: int | None) -> Iterator[int]:
    """While open, torch runs on `count` CPU threads, or on as many as before if None; gives how many they are."""
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield torch.get_num_threads()
    finally:
        torch.set_num_threads(before)


def _rotated(names: list[str], by: int) -> list[str]:
    start = by % len(names)
    return names[start:] + names[:start]


def _time(predictor: Predictor, timed: Timed, batch: list[tuple[str, ...]]) -> float:
    predictor.wait()
    start = time.perf_counter()
    timed.answer(predictor(timed.encode(batch)))
    predictor.wait()
    return time.perf_counter() - start


def _summary(values: list[float], tokens: int) -> dict[str, float]:
    return {
        "mean_ms": statistics.fmean(values),
        "std_ms": statistics.pstdev(values),
        "p50_ms": float(np.percentile(values, 50)),
        "p95_ms": float(np.percentile(values, 95)),
        "p99_ms": float(np.percentile(values, 99)),
        "predictions": len(values),
        "tokens_per_second": tokens / sum(values) * 1000,
    }
