"""What a run measures of its models: scores, sizes, latencies, and how long that took."""

from pathlib import Path
from typing import Any

from rich.progress import Progress

from plankwise.evaluation.latency import measure_latency
from plankwise.evaluation.size import count_parameters
from plankwise.models.exits import counted_exits, describe_exits
from plankwise.models.planned_config import PlannedConfig
from plankwise.run.inputs import Run
from plankwise.run.speed import enter_speed, tell_speed
from plankwise.run.training import EVALUATIONS, PREDECESSOR, SUCCESSOR
from plankwise.runtimes import Predictor

LATENCY = "latency"


def measure(run: Run, paths: dict[str, str]) -> dict:
    """Scores, sizes and latencies of the checkpoints as a user would load them."""
    models = {name: run.open(path) for name, path in paths.items()}
    record: dict[str, Any] = {name: measure_one(run, model, paths[name]) for name, model in models.items()}
    before, after = record[PREDECESSOR], record[SUCCESSOR]
    for name in models.keys() - {PREDECESSOR}:
        record[name]["retained"] = run.task.retained(record[name]["score"], before["score"])
    record["retained"] = after["retained"]
    record["compression_ratio"] = before["parameters"] / after["parameters"]
    record["speedup"] = None
    if run.config.evaluation.latency:
        time_predictions(run, models, record)
    return record


def measure_one(run: Run, model: Predictor, path: str) -> dict:
    """What the record says of one model."""
    with run.timed(EVALUATIONS), counted_exits() as counts:
        metrics, beyond_constant, _ = run.task.examine(model)
    module = model.module if model.module is not None else run.load(path)
    return {
        "path": path,
        "planned": isinstance(getattr(module, "config", None), PlannedConfig),  # loads once plankwise is imported
        "parameters": count_parameters(module),
        "size_mb": model.size_mb,
        "score": metrics.pop("score"),
        "metrics": metrics,
        **({} if beyond_constant is None else {"beyond_constant": beyond_constant}),
        **({"exits": describe_exits(module, counts)} if counts else {}),
        "latency_ms": None,
        "device": model.device.type,
        "runtime": run.config.evaluation.runtime,
    }


def time_predictions(run: Run, models: dict[str, Predictor], record: dict) -> None:
    """Adds each model's latencies to the record, and the speed-up if there is a predecessor to compare with."""
    options, console = run.config.evaluation, run.context.console
    device = next(iter(models.values())).device.type
    console.print(f"latency: {options.latency_predictions} predictions a model and batch size, on {device}")
    with run.timed(LATENCY), Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("latency", total=None)
        speed = measure_latency(
            models,
            run.task.timed(),
            batch_sizes=options.latency_batch_sizes,
            predictions=options.latency_predictions,
            progress=lambda done, expected: bar.update(task, completed=done, total=expected),
        )
    enter_speed(record, speed)
    tell_speed(speed, console, f"use `plankwise analyse {run.folder} --only cost`")


def memory_mb(key: str) -> float | None:
    """This process's VmRSS, its memory now, or VmHWM, the most it ever had, in millions of bytes; None off Linux."""
    try:
        lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(f"{key}:")), None)
