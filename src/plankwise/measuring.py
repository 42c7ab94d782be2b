"""What a run measures of its models: scores, sizes, latencies, and how long that took."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from torch import nn

from plankwise.config import RunConfig
from plankwise.evaluation.latency import measure_latency
from plankwise.evaluation.metrics import retained
from plankwise.evaluation.size import count_parameters, size_on_disk_mb
from plankwise.examples._base import Examples
from plankwise.families._quiet import quiet
from plankwise.files import whole_folder


@dataclass(frozen=True)
class Workplace:
    """Where models are loaded, measured and saved."""

    config: RunConfig
    folder: Path
    console: Console
    tokenizer: Any
    examples: Examples
    seconds: dict[str, float] = field(default_factory=dict, compare=False)  # that measuring took, by what was measured

    def load(self, path: str) -> tuple[nn.Module, bool]:
        """The model with a head for the task, and whether that head came with it."""
        return self.examples.load(path, remote_code=self.config.predecessor.remote_code)

    def save(self, model: nn.Module, name: str) -> Path:
        with quiet(), whole_folder(self.folder / name) as part:
            model.save_pretrained(part)  # type: ignore[operator]
            self.tokenizer.save_pretrained(part)
        return self.folder / name

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.seconds[what] = self.seconds.get(what, 0.0) + time.monotonic() - started


def measure(place: Workplace, paths: dict[str, Path]) -> dict:
    """Scores, sizes and latencies of the checkpoints as a user would load them."""
    models = {name: place.load(str(path))[0] for name, path in paths.items()}
    record: dict[str, Any] = {name: weigh(place, model, paths[name]) for name, model in models.items()}
    before, after = record["predecessor"], record["successor"]
    for name in models.keys() - {"predecessor"}:
        record[name]["retained"] = retained(record[name]["score"], before["score"])
    record["retained"] = after["retained"]
    record["compression_ratio"] = before["parameters"] / after["parameters"]
    record["speedup"] = None
    if place.config.evaluation.latency:
        time_predictions(place, models, record)
    return record


def weigh(place: Workplace, model: nn.Module, path: Path) -> dict:
    """What the record says of one model."""
    with place.timed("evaluations"):
        metrics = place.examples.score(model)
    return {
        "path": str(path),
        "parameters": count_parameters(model),
        "size_mb": _size_mb(place, model, path),
        "score": metrics.pop("score"),
        "metrics": metrics,
        "latency_ms": None,
    }


def time_predictions(place: Workplace, models: dict[str, nn.Module], record: dict) -> None:
    """Adds each model's latencies to the record, and the speed-up if there is a predecessor to compare with."""
    options, length = place.config.evaluation, place.config.training.max_length
    place.console.print(f"latency: {options.latency_predictions} predictions a model and batch size")
    rounds = options.latency_predictions * len(options.latency_batch_sizes)
    with (
        place.timed("latency"),
        Progress(console=place.console, transient=True, disable=not place.console.is_terminal) as bar,
    ):
        task = bar.add_task("latency", total=rounds)
        latency = measure_latency(
            models,
            place.tokenizer,
            place.examples.texts(1000),
            max_length=length,
            batch_sizes=options.latency_batch_sizes,
            predictions=options.latency_predictions,
            progress=lambda: bar.advance(task),
        )
    for name in models:
        record[name]["latency"] = latency[name]
        record[name]["latency_ms"] = latency[name][str(options.latency_batch_sizes[0])]["p50_ms"]
    if "predecessor" in models:
        for name in models:
            record[name]["speedup"] = record["predecessor"]["latency_ms"] / record[name]["latency_ms"]
        record["speedup"] = record["successor"]["speedup"]


def memory_mb(key: str) -> float | None:
    """This process's VmRSS, its memory now, or VmHWM, the most it ever had, in millions of bytes; None off Linux."""
    try:
        lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(f"{key}:")), None)


def _size_mb(place: Workplace, model: nn.Module, path: Path) -> float:
    """On disk as plankwise writes it, so that predecessor and successor are counted alike."""
    if path.is_relative_to(place.folder):
        return size_on_disk_mb(path)
    with quiet(), tempfile.TemporaryDirectory(dir=place.folder, prefix=".weighed.", suffix=".part") as part:
        model.save_pretrained(part)  # type: ignore[operator]
        return size_on_disk_mb(Path(part))
