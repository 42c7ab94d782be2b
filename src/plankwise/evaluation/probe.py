"""A process of its own that measures peak memory; see `cost.measure_peaks`.

Once everything that any model needs is imported, a child of it is forked for each model: it loads the model, reads all its
weights, predicts one batch and tells its peak. So libraries are imported once, and count for no model.
"""

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import nn
from transformers import activations, modeling_layers, modeling_utils  # noqa: F401  what models of transformers import

from plankwise.models.loading import Loader
from plankwise.runtimes import open_predictor


def main() -> None:
    given = json.load(sys.stdin)
    pairs = zip(given["paths"], given["inputs"], strict=True)
    print(json.dumps([in_a_child(partial(predict, given, path, inputs)) for path, inputs in pairs]))


def predict(given: dict, path: str | None, batch: dict[str, list]) -> int:
    """Loads the model at `path`, if one is given, and predicts a batch; the peak in bytes."""
    torch.set_num_threads(given["threads"])
    inputs = {name: torch.tensor(rows) for name, rows in batch.items()}
    if path is not None:
        loader = Loader(given["remote_code"])
        predictor = open_predictor(given["runtime"], path, loader.trained)
        if predictor.module is not None:
            read_weights(predictor.module)
        predictor(inputs)
    return peak_bytes()


def read_weights(module: nn.Module) -> None:
    """Brings every weight into memory.

    Weights are mapped from disk, and a page that is read brings in as many of its neighbours as the system has cached: without
    this, two files of one shape take different amounts, by who has read them lately.
    """
    for weight in module.state_dict().values():
        weight.sum()


def in_a_child(work: Callable[[], int]) -> int | None:
    """What `work` gives in a process forked from this one; None if it fails there."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(write, str(work()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read) as pipe:
        found = pipe.read()
    os.waitpid(child, 0)
    return int(found) if found else None


def peak_bytes() -> int:
    try:
        # VmHWM first: on Linux ru_maxrss also counts what the process that started this one held.
        lines = Path("/proc/self/status").read_text("utf-8").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


if __name__ == "__main__":
    main()
