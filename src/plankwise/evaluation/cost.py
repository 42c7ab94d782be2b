"""What models cost to run: time by batch size, loading, memory, size, parameters by component, multiply-adds."""

import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from plankwise.errors import PlanError
from plankwise.evaluation.latency import count_tokens, measure_latency
from plankwise.evaluation.latency import threads as use_threads
from plankwise.evaluation.size import count_by_component, size_on_disk_mb
from plankwise.families._loading import resolve
from plankwise.families._quiet import quiet
from plankwise.families._rule import chains_of

LOADS = 3
PROBE_SECONDS = 600  # after which a process that measures memory is given up

# VmHWM first: on Linux ru_maxrss also counts what the process that started this one held.
PROBE = """
import json, sys, torch, transformers
given = json.load(sys.stdin)
torch.set_num_threads(given["threads"])
inputs = {name: torch.tensor(rows) for name, rows in given["inputs"].items()}
kind = getattr(transformers, given["kind"])
if given["folder"] is not None:
    config = kind.config_class.from_dict(json.loads(given["config"]))
    model = kind.from_pretrained(given["folder"], config=config, use_safetensors=True).eval()
    with torch.inference_mode():
        model(**inputs)
try:
    with open("/proc/self/status") as status:
        peak = 1024 * next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
except (OSError, StopIteration):
    import resource
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(peak)
"""


def measure_cost(
    paths: dict[str, Path],
    load: Callable[[str], nn.Module],
    tokenizer: Any,
    texts: list[tuple[str, ...]],
    *,
    max_length: int,
    batch_sizes: list[int],
    predictions: int,
    threads: int | None,
    progress: Callable[[], None] = lambda: None,
    device: str | None = None,
) -> dict:
    """What each of the models at `paths` costs, all measured on the same texts, as JSON.

    `device` None is the GPU if there is one. `peak_mb` is of a process of its own on the CPU that loads the model and predicts
    one batch of the largest size, less what the same process takes without a model; weights that are mapped from disk and not
    read (most words' embeddings) take none. It is None if that process fails.
    """
    target = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    with use_threads(threads) as num_threads:
        models, load_seconds = _load_in_turn(paths, load)
        for model in models.values():
            model.to(target).eval()
        latency = measure_latency(
            models,
            tokenizer,
            texts,
            max_length=max_length,
            batch_sizes=batch_sizes,
            predictions=predictions,
            progress=progress,
        )
        middle = _middle_text(tokenizer, texts, max_length)
        multiply_adds = {name: count_multiply_adds(model, middle) for name, model in models.items()}
    largest = list(itertools.islice(itertools.cycle(texts), max(batch_sizes)))
    chains = _chains(models)
    return {
        "device": target.type,
        "threads": num_threads,
        "latency": latency,
        "speedup": _speedup(latency),
        "load_seconds": load_seconds,
        "peak_mb": measure_peaks(models, paths, tokenizer, largest, max_length=max_length, threads=num_threads),
        "peak_batch_size": max(batch_sizes),
        "size_mb": {name: _size_mb(model, str(paths[name])) for name, model in models.items()},
        "parameters": {name: count_by_component(model, chains) for name, model in models.items()} if chains else {},
        "multiply_adds": {
            name: {"tokens": middle["input_ids"].shape[1], "count": count} for name, count in multiply_adds.items()
        },
    }


def count_multiply_adds(model: nn.Module, inputs: Any) -> int:
    """The multiplications, each with its addition, in all matrix products and convolutions of one forward pass.

    Attention counts in full, also where a mask hides half of it. The model is put in eval mode and left there.
    """
    model.eval()
    device = next(model.parameters()).device
    moved = {name: value.to(device) for name, value in inputs.items()}
    # The counter does not know every fused attention kernel (the CPU's for one); the plain one is made of products it knows.
    with _frozen(model), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(**moved)
    return counter.get_total_flops() // 2


@contextmanager
def _frozen(model: nn.Module) -> Iterator[None]:
    """No parameter requires a gradient: under `no_grad` alone the counter stumbles over modules that are given one (DeBERTa)."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        for parameter in trained:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)


def measure_peaks(
    models: dict[str, nn.Module],
    paths: dict[str, Path],
    tokenizer: Any,
    batch: list[tuple[str, ...]],
    *,
    max_length: int,
    threads: int,
) -> dict[str, float | None]:
    """For each model the megabytes that it adds to the peak of a process that loads it and predicts the batch."""
    columns = [list(column) for column in zip(*batch, strict=True)]
    inputs = tokenizer(*columns, truncation=True, max_length=max_length, padding=True)
    bare: dict[str, int | None] = {}
    peaks: dict[str, float | None] = {}
    for name, model in models.items():
        kind, config = type(model).__name__, model.config.to_json_string(use_diff=False)  # type: ignore[operator, union-attr]
        given = {"kind": kind, "config": config, "inputs": dict(inputs), "threads": threads}
        if kind not in bare:
            bare[kind] = _probe({**given, "folder": None})
        without, peak = bare[kind], _probe({**given, "folder": resolve(str(paths[name]))})
        peaks[name] = None if without is None or peak is None else (peak - without) / 1e6
    return peaks


def _probe(given: dict) -> int | None:
    """The peak memory in bytes of a process of its own; None if it fails."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", PROBE],
            input=json.dumps(given),
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            text=True,
            check=True,
            timeout=PROBE_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return int(done.stdout.split()[-1])


def _load_in_turn(
    paths: dict[str, Path], load: Callable[[str], nn.Module]
) -> tuple[dict[str, nn.Module], dict[str, float]]:
    """The models, and for each the median time of its loads."""
    models: dict[str, nn.Module] = {}
    seconds: dict[str, list[float]] = {name: [] for name in paths}
    for _ in range(LOADS):
        for name, path in paths.items():
            models.pop(name, None)
            start = time.perf_counter()
            models[name] = load(str(path))
            seconds[name].append(time.perf_counter() - start)
    return {name: models[name] for name in paths}, {name: statistics.median(taken) for name, taken in seconds.items()}


def _speedup(latency: dict[str, dict[str, dict[str, float]]]) -> dict[str, float]:
    if not {"predecessor", "successor"} <= latency.keys():
        return {}
    after = latency["successor"]
    return {size: before["mean_ms"] / after[size]["mean_ms"] for size, before in latency["predecessor"].items()}


def _middle_text(tokenizer: Any, texts: list[tuple[str, ...]], max_length: int) -> Any:
    """The inputs of the text of median length."""
    lengths = count_tokens(tokenizer, texts, max_length)
    text = texts[lengths.index(statistics.median_low(lengths))]
    return tokenizer(*([part] for part in text), truncation=True, max_length=max_length, return_tensors="pt")


def _chains(models: dict[str, nn.Module]) -> set[str]:
    """The paths of all chains: one that a plan has cut to a single block is only seen in the predecessor."""
    found: set[str] = set()
    for model in models.values():
        with suppress(PlanError):
            found |= {chain.path for chain in chains_of(model)}
    return found


def _size_mb(model: nn.Module, path: str) -> float:
    """On disk where it stands, or as it would be saved if it comes from a hub or in another format."""
    if size := size_on_disk_mb(Path(resolve(path))):
        return size
    with quiet(), tempfile.TemporaryDirectory() as part:
        model.save_pretrained(part)  # type: ignore[operator]
        return size_on_disk_mb(Path(part))
