"""Time of a prediction from text to answer: tokenise, pad, run, read out; models interleaved in one run (thesis §5.5)."""

import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

WARM_UP = 3  # predictions that are not counted: they fill caches and allocators


def measure_latency(
    models: dict[str, nn.Module],
    tokenizer: Any,
    texts: list[tuple[str, ...]],
    *,
    max_length: int,
    batch_sizes: list[int],
    predictions: int,
    progress: Callable[[], None] = lambda: None,
) -> dict[str, dict[str, dict[str, float]]]:
    """For each model and batch size: mean, standard deviation, p50, p95 and p99 in ms, and the count they are taken over.

    Also the tokens per second that were read, padding not counted.

    Every batch is predicted by all models in turn, so that what else the machine does falls on all of them alike; who goes
    first changes every time, since each finds the caches as the one before left them.
    """
    times: dict[str, dict[int, list[float]]] = {name: {size: [] for size in batch_sizes} for name in models}
    tokens: dict[int, int] = dict.fromkeys(batch_sizes, 0)
    lengths = count_tokens(tokenizer, texts, max_length)
    for model in models.values():
        model.eval()
    for size in batch_sizes:
        stream = itertools.cycle(zip(texts, lengths, strict=True))
        for count in range(predictions + WARM_UP):
            batch, counts = zip(*itertools.islice(stream, size), strict=True)
            for name in _rotated(list(models), count):
                seconds = _time(models[name], tokenizer, list(batch), max_length)
                if count >= WARM_UP:
                    times[name][size].append(seconds * 1000)
            if count >= WARM_UP:
                tokens[size] += sum(counts)
                progress()
    return {
        name: {str(size): _summary(values, tokens[size]) for size, values in by_size.items()}
        for name, by_size in times.items()
    }


def count_tokens(tokenizer: Any, texts: list[tuple[str, ...]], max_length: int) -> list[int]:
    """How many tokens each text (or pair) is to a model, cut to `max_length`."""
    columns = [list(column) for column in zip(*texts, strict=True)]
    return [len(ids) for ids in tokenizer(*columns, truncation=True, max_length=max_length)["input_ids"]]


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


def _time(model: nn.Module, tokenizer: Any, batch: list[tuple[str, ...]], max_length: int) -> float:
    device = next(model.parameters()).device
    columns = [list(column) for column in zip(*batch, strict=True)]
    _wait_for(device)
    start = time.perf_counter()
    with torch.inference_mode():
        inputs = tokenizer(*columns, truncation=True, max_length=max_length, padding=True, return_tensors="pt")
        output = model(**inputs.to(device))
        output["logits" if "logits" in output else "prediction_logits"].argmax(-1).tolist()
        _wait_for(device)
    return time.perf_counter() - start


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


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
