"""An export beside the models of its run: score and size, and its speed against the predecessor, both timed in turn."""

from pathlib import Path
from typing import Any

from rich.console import Console

from plankwise.context import Context
from plankwise.evaluation.latency import as_json, measure_latency
from plankwise.run.folders import read_config
from plankwise.run.inputs import read_run
from plankwise.run.speed import tell_speed
from plankwise.run.training import PREDECESSOR

EXPORTED = "exported"


def measure_export(folder: Path, record: dict, export: Path, console: Console) -> dict[str, Any]:
    """What `report.results` shows of an export of the run in `folder`."""
    config = read_config(folder)
    run = read_run(config, Context(console, folder, config.run.seed, "cpu"))
    models = {PREDECESSOR: run.open(record[PREDECESSOR]["path"]), EXPORTED: run.open(str(export))}
    score = run.task.score(models[EXPORTED])["score"]
    options = config.evaluation
    speed = measure_latency(
        models,
        run.task.timed(),
        batch_sizes=options.latency_batch_sizes[:1],
        predictions=options.latency_predictions,
    )
    tell_speed(speed, console, f"use `plankwise evaluate {export}`")
    size = str(options.latency_batch_sizes[0])
    return {
        "score": score,
        "retained": run.task.retained(score, record[PREDECESSOR]["score"]),
        "size_mb": models[EXPORTED].size_mb,
        "latency_ms": speed.latency[EXPORTED][size]["p50_ms"],
        "speedup": as_json(speed.speedups)[EXPORTED][size],
    }
