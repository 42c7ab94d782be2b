"""What models cost to run: time by batch size, loading, memory, size, parameters by component, multiply-adds."""

import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from torch import nn

from plankwise.errors import PlanError
from plankwise.evaluation.latency import Speed, Timed, measure_latency
from plankwise.evaluation.latency import threads as use_threads
from plankwise.evaluation.size import count_by_component
from plankwise.families import chains_of
from plankwise.runtimes import Predictor

LOADS = 3
PROBE_SECONDS = 600  # after which a process that measures memory is given up
# glibc keeps freed memory for the next allocation, how much depends on what came before: one arena, and large blocks given back at
# once, make a peak that two processes agree on. Other allocators do not read these.
PROBE_ALLOCATOR = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}


@dataclass(frozen=True)
class Models:
    """The models whose cost is measured."""

    paths: dict[str, str]  # by name
    open: Callable[[str], Predictor]  # a model, by its path
    runtime: str = "torch"
    remote_code: bool = False


def measure_cost(
    models: Models,
    timed: Timed,
    *,
    batch_sizes: list[int],
    predictions: int,
    threads: int | None,
    progress: Callable[[int, int], None] = lambda done, expected: None,
) -> tuple[dict, Speed]:
    """What each of the models costs, all measured on the same texts, as JSON, and what was measured of their speed.

    `peak_mb` is of a process of its own on the CPU that loads the model, reads all its weights and predicts one batch of the
    largest size, less what the same process takes without a model, libraries loaded. It is None if that process fails.
    Parameters and multiply-adds are counted where there is a torch module behind the predictor.
    """
    with use_threads(threads) as num_threads:
        predictors, load_seconds = _load_in_turn(models)
        speed = measure_latency(predictors, timed, batch_sizes=batch_sizes, predictions=predictions, progress=progress)
    largest = list(itertools.islice(itertools.cycle(timed.texts), max(batch_sizes)))
    modules = {name: one.module for name, one in predictors.items() if one.module is not None}
    chains = _chains(modules)
    faster = speed.speedups.get("successor", {})
    figures = {
        "device": next(iter(predictors.values())).device.type,
        "runtime": models.runtime,
        "threads": num_threads,
        "latency": speed.latency,
        "speedup": {size: one.median for size, one in faster.items()},
        "speedup_interval": {size: [one.low, one.high] for size, one in faster.items()},
        "speedup_steady": {size: one.steady for size, one in faster.items()},
        "load_seconds": load_seconds,
        "peak_mb": measure_peaks(
            models, {name: timed.encode_for(one, largest) for name, one in predictors.items()}, threads=num_threads
        ),
        "peak_batch_size": max(batch_sizes),
        "size_mb": {name: one.size_mb for name, one in predictors.items()},
        "parameters": {name: count_by_component(module, chains) for name, module in modules.items()} if chains else {},
        "multiply_adds": {
            name: {"tokens": speed.conditions["tokens"], "count": count} for name, count in speed.multiply_adds.items()
        },
    }
    return figures, speed


def measure_peaks(models: Models, batches: Mapping[str, Any], *, threads: int) -> dict[str, float | None]:
    """For each model the megabytes that it adds to the peak of a process that loads it, reads all its weights and predicts its
    batch."""
    inputs = [{name: value.tolist() for name, value in batches[one].items()} for one in models.paths]
    given = {
        "runtime": models.runtime,
        "remote_code": models.remote_code,
        "threads": threads,
        "inputs": [inputs[0], *inputs],
    }
    bare, *peaks = _probe({**given, "paths": [None, *models.paths.values()]})
    return {
        name: None if bare is None or peak is None else (peak - bare) / 1e6
        for name, peak in zip(models.paths, peaks, strict=True)
    }


def _probe(given: dict) -> list[int | None]:
    """The peak memory in bytes of processes of their own, one for each of the paths; None for what fails."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "plankwise.evaluation.probe"],
            input=json.dumps(given),
            env={**os.environ, **PROBE_ALLOCATOR, "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            text=True,
            check=True,
            timeout=PROBE_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return [None] * len(given["paths"])
    return json.loads(done.stdout.splitlines()[-1])


def _load_in_turn(models: Models) -> tuple[dict[str, Predictor], dict[str, float]]:
    """The models, and for each the median time of its loads."""
    predictors: dict[str, Predictor] = {}
    seconds: dict[str, list[float]] = {name: [] for name in models.paths}
    for _ in range(LOADS):
        for name, path in models.paths.items():
            predictors.pop(name, None)
            start = time.perf_counter()
            predictors[name] = models.open(path)
            seconds[name].append(time.perf_counter() - start)
    ordered = {name: predictors[name] for name in models.paths}
    return ordered, {name: statistics.median(taken) for name, taken in seconds.items()}


def _chains(models: dict[str, nn.Module]) -> set[str]:
    """The paths of all chains: one that a plan has cut to a single block is only seen in the predecessor."""
    found: set[str] = set()
    for model in models.values():
        with suppress(PlanError):
            found |= {chain.path for chain in chains_of(model)}
    return found
