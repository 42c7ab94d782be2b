"""What int8 does to a run's models without any training: scores and paired speed-ups, all measured in one go.

Weights of linear layers as int8, quantised by torch, activations quantised as they come (dynamic quantisation); embeddings stay as
they are. The run is one that `plankwise demo` or `plankwise compress` left.

    python examples/int8.py runs/demo
"""

import argparse
import copy
import warnings
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from plankwise.config import RunConfig
from plankwise.context import open_context
from plankwise.evaluation.latency import measure_latency
from plankwise.evaluation.speedup import SAME
from plankwise.record import read_record
from plankwise.run.folders import read_config
from plankwise.run.inputs import read_run
from plankwise.runtimes import Batch, Outputs, Predictor
from plankwise.runtimes.torch import TorchPredictor

BATCH_SIZES = [1, 32]
PREDICTIONS = 50


class Int8Predictor(Predictor):
    """A copy of a module with linear layers in int8; its multiply-adds are not those of float32, so they are not counted."""

    module = None

    def __init__(self, module: nn.Module) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that this way to quantise will be replaced by another package's
            quantised = torch.ao.quantization.quantize_dynamic(copy.deepcopy(module).eval(), {nn.Linear}, torch.qint8)
        self.inside = TorchPredictor(quantised)
        self.device = self.inside.device

    def __call__(self, inputs: Batch, chosen: torch.Tensor | None = None) -> Outputs:
        return self.inside(inputs, chosen)

    @property
    def size_mb(self) -> float:
        return sum(map(_num_bytes, self.inside.module.state_dict().values())) / 1e6


def _num_bytes(value: Any) -> int:
    if isinstance(value, tuple):  # a quantised layer's weight and bias
        return sum(map(_num_bytes, value))
    return value.numel() * value.element_size() if isinstance(value, torch.Tensor) else 0


def main(folder: Path) -> None:
    config = read_config(folder)
    console = Console(markup=False, width=110)
    record = read_record(folder)
    run = read_run(_with_model(config, folder / "successor"), open_context(console, folder, config.run.seed))
    predictors: dict[str, Predictor] = {}
    for name in ("predecessor", "truncated", "successor"):
        if name in record:  # a predecessor that was given lies elsewhere
            one = run.open(record[name]["path"])
            assert one.module is not None
            predictors |= {name: one, f"{name}, int8": Int8Predictor(one.module)}
    speed = measure_latency(predictors, run.task.timed(), batch_sizes=BATCH_SIZES, predictions=PREDICTIONS)
    table = Table(title=f"{run.task.name}: score on dev, speed-up with its 95 % interval", box=None)
    for column in ("model", "score", "MB", *(f"speed-up @{size}" for size in BATCH_SIZES)):
        table.add_column(column, justify="left" if column == "model" else "right", no_wrap=True)
    for name, one in predictors.items():
        found = [speed.speedups.get(name, {}).get(str(size), SAME) for size in BATCH_SIZES]
        shown = [f"{it.median:.2f}× ({it.low:.2f}–{it.high:.2f}){'' if it.steady else ' unsteady'}" for it in found]
        table.add_row(name, f"{run.task.score(one)['score']:.4f}", f"{one.size_mb:.1f}", *shown)
    console.print(table)
    print({key: speed.conditions[key] for key in ("threads", "cpus", "load_before", "load_after", "rounds")})


def _with_model(config: RunConfig, path: Path) -> RunConfig:
    """The same with a model whose classes are named and ordered as the run's models are."""
    return config.model_copy(update={"predecessor": config.predecessor.model_copy(update={"path": str(path)})})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a finished run")
    main(parser.parse_args().run)
