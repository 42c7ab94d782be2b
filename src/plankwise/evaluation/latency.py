"""Time of a prediction from text to answer: tokenise, pad, run, read out; models interleaved in one run (thesis §5.5)."""

import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from plankwise.evaluation.multiply_adds import bound_speedup, count_fewest
from plankwise.evaluation.speedup import Speedup, compare_times, limit_to
from plankwise.runtimes import Predictor

PREDECESSOR = "predecessor"
WARM_UP = 3  # predictions that are not counted: they fill caches and allocators
MOST_BLOCKS = 4  # of as many rounds as were asked for; then the speed-up is called unsteady
MOST_SECONDS = 120.0  # of predictions of one batch size, after which no further block begins

Clock = Callable[[], float]  # seconds


@dataclass(frozen=True)
class Timed:
    """What is timed: the texts, and the way from texts to answers, which is the task's."""

    texts: list[tuple[str, ...]]
    encode: Callable[..., Any]  # texts to a padded batch; a second argument is a model's own tokenizer
    answer: Callable[[Any], Any]  # outputs to answers, on the CPU

    def count_tokens(self) -> list[int]:
        """How many tokens each text (or pair) is to a model."""
        return self.encode(self.texts)["attention_mask"].sum(1).tolist()

    def encode_for(self, predictor: Predictor, texts: list[tuple[str, ...]]) -> Any:
        """A padded batch as this model takes it."""
        return self.encode(texts) if predictor.tokenizer is None else self.encode(texts, predictor.tokenizer)

    def middle(self) -> tuple[int, list[tuple[str, ...]]]:
        """The median number of tokens of a text, and a batch of the first text that has as many."""
        lengths = self.count_tokens()
        median = statistics.median_low(lengths)
        return median, [self.texts[lengths.index(median)]]


@dataclass(frozen=True)
class Speed:
    """What was measured of models that were timed together; batch sizes are keys as JSON has them."""

    latency: dict[str, dict[str, dict[str, float]]]  # by model and batch size
    speedups: dict[str, dict[str, Speedup]]  # by model and batch size, against its reference; within `bound`
    measured: dict[str, dict[str, Speedup]]  # what was measured where the bound stands in its place
    bound: dict[str, float]  # by model: the ratio of multiply-adds
    multiply_adds: dict[str, int]  # of a text of median length
    uncounted: dict[str, str]  # by model: why its multiply-adds are not known
    conditions: dict[str, Any] = field(default_factory=dict)  # device, threads, CPUs, load, rounds, tokens

    def timing(self) -> dict:
        """Under what conditions it was measured, and what bounds it, as JSON."""
        more = {"uncounted": self.uncounted} if self.uncounted else {}
        return {**self.conditions, "bound": self.bound, **more, "measured": as_json(self.measured)}


def as_json(speedups: Mapping[str, Mapping[str, Speedup]]) -> dict[str, dict[str, dict]]:
    return {name: {size: one.to_json() for size, one in by_size.items()} for name, by_size in speedups.items()}


def measure_latency(
    predictors: dict[str, Predictor],
    timed: Timed,
    *,
    batch_sizes: list[int],
    predictions: int,
    references: Mapping[str, str] | None = None,
    progress: Callable[[int, int], None] = lambda done, expected: None,
    clock: Clock = time.perf_counter,
) -> Speed:
    """For each model and batch size: mean, standard deviation, p50, p95 and p99 in ms, and the count they are taken over.

    Also the tokens per second that were read, padding not counted; and how many times faster each model is than its reference:
    `references` by model, all by `predecessor` if None.

    Every batch is predicted by all models in turn, so that what else the machine does falls on all of them alike; who goes
    first changes every time, since each finds the caches as the one before left them. Where a speed-up is not steady after
    `predictions` rounds, as many are added, up to four times as many in all. `progress` is told the rounds that are done and
    that are expected in all.
    """
    if references is None:
        references = {name: PREDECESSOR for name in predictors if name != PREDECESSOR and PREDECESSOR in predictors}
    load_before = _load()
    lengths = timed.count_tokens()
    latency: dict[str, dict[str, dict[str, float]]] = {name: {} for name in predictors}
    measured: dict[str, dict[str, Speedup]] = {name: {} for name in references}
    num_rounds: dict[str, int] = {}
    done, expected = 0, predictions * len(batch_sizes)
    for size in batch_sizes:
        rounds = _Rounds(predictors, timed, lengths, size, clock)
        rounds.warm_up()
        for block in range(MOST_BLOCKS):
            expected += predictions if block else 0
            for _ in range(predictions):
                rounds.play()
                done += 1
                progress(done, expected)
            found = {name: compare_times(rounds.times[other], rounds.times[name]) for name, other in references.items()}
            if all(one.steady for one in found.values()) or rounds.seconds > MOST_SECONDS:
                break
        for name in predictors:
            latency[name][str(size)] = rounds.summarise(name)
        for name, one in found.items():
            measured[name][str(size)] = one
        num_rounds[str(size)] = len(next(iter(rounds.times.values())))
    conditions = {
        "device": next(iter(predictors.values())).device.type,
        "threads": torch.get_num_threads(),
        "cpus": count_cpus(),
        "load_before": load_before,
        "load_after": _load(),
        "batch_sizes": batch_sizes,
        "rounds": num_rounds,
    }
    return _within_bounds(predictors, timed, references, latency, measured, conditions)


def _within_bounds(
    predictors: dict[str, Predictor],
    timed: Timed,
    references: Mapping[str, str],
    latency: dict[str, dict[str, dict[str, float]]],
    measured: dict[str, dict[str, Speedup]],
    conditions: dict[str, Any],
) -> Speed:
    modules = {name: one.module for name, one in predictors.items() if one.module is not None}
    tokens, middle = timed.middle()
    fewest: dict[str, int] = {}
    uncounted: dict[str, str] = {}
    for name, module in modules.items():
        try:
            fewest[name] = count_fewest(module, timed.encode_for(predictors[name], middle))
        except Exception as error:  # a model that the counter does not understand is still timed
            uncounted[name] = f"{type(error).__name__}: {error}"
    bounds = {name: bound_speedup(modules, fewest, other, name) for name, other in references.items()}
    leaving = {name for name in fewest if getattr(modules[name], "leaves_early", False)}
    uncounted |= dict.fromkeys(leaving, "they depend on the text: each leaves after another block")
    counts = {name: count for name, count in fewest.items() if name not in leaving}
    shown = {
        name: {size: limit_to(bounds[name], one) for size, one in found.items()} for name, found in measured.items()
    }
    beyond = {
        name: {size: one for size, one in found.items() if one != shown[name][size]} for name, found in measured.items()
    }
    return Speed(
        latency=latency,
        speedups=shown,
        measured={name: found for name, found in beyond.items() if found},
        bound={name: bound for name, bound in bounds.items() if bound is not None},
        multiply_adds=counts,
        uncounted=uncounted,
        conditions={**conditions, "tokens": tokens},
    )


class _Rounds:
    """Rounds with batches of one size: in each every model predicts the same batch."""

    def __init__(
        self, predictors: dict[str, Predictor], timed: Timed, lengths: list[int], size: int, clock: Clock
    ) -> None:
        self.predictors, self.timed, self.size, self.clock = predictors, timed, size, clock
        self.texts = itertools.cycle(zip(timed.texts, lengths, strict=True))
        self.turn = 0
        self.reset()

    def reset(self) -> None:
        self.times: dict[str, list[float]] = {name: [] for name in self.predictors}  # in ms, by round
        self.tokens = 0

    def warm_up(self) -> None:
        for _ in range(WARM_UP):
            self.play()
        self.reset()

    def play(self) -> None:
        batch, counts = zip(*itertools.islice(self.texts, self.size), strict=True)
        names = list(self.predictors)
        start = self.turn % len(names)
        for name in names[start:] + names[:start]:
            self.times[name].append(1000 * self._time(self.predictors[name], list(batch)))
        self.tokens += sum(counts)
        self.turn += 1

    def _time(self, predictor: Predictor, batch: list[tuple[str, ...]]) -> float:
        predictor.wait()
        start = self.clock()
        self.timed.answer(predictor(self.timed.encode_for(predictor, batch)))
        predictor.wait()
        return self.clock() - start

    @property
    def seconds(self) -> float:
        """What all predictions took."""
        return sum(map(sum, self.times.values())) / 1000

    def summarise(self, name: str) -> dict[str, float]:
        values = self.times[name]
        return {
            "mean_ms": statistics.fmean(values),
            "std_ms": statistics.pstdev(values),
            "p50_ms": float(np.percentile(values, 50)),
            "p95_ms": float(np.percentile(values, 95)),
            "p99_ms": float(np.percentile(values, 99)),
            "predictions": len(values),
            "tokens_per_second": self.tokens / sum(values) * 1000,
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


def count_cpus() -> int | None:
    """The CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _load() -> float | None:
    """The processes that ran or wanted to, on average over the last minute; None where the system does not say."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None
