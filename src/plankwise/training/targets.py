"""Targets: what the frozen predecessor says of each training example, computed once, kept in memory or on disk by size."""

import math
import time
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from plankwise.context import Context
from plankwise.data.batch import sorted_batches
from plankwise.data.encode import Encoded
from plankwise.files import whole_file
from plankwise.task_kinds import Read

MEMORY_MB = 1024  # more than this is kept on disk
BATCH_SIZE = 64


class Targets:
    """Named arrays with a row for each training example."""

    def __init__(self, arrays: dict[str, np.ndarray], seconds: float, *, on_disk: bool) -> None:
        self.arrays = arrays
        self.seconds = seconds
        self.on_disk = on_disk

    def take(self, name: str, rows: torch.Tensor, like: torch.Tensor | None = None) -> torch.Tensor:
        """The rows of one array, on the device that the numbers of the rows are on; as wide as `like` if it is given."""
        sizes = self.arrays[name].shape[1:] if like is None else like.shape[1:]
        place: Any = (rows.cpu().numpy(), *(slice(size) for size in sizes))
        found = self.arrays[name][place]
        return torch.from_numpy(np.array(found)).to(rows.device)

    def to_json(self, passes: float) -> dict:
        """What the record says; `passes`: how often training asks for each example."""
        saved = max(0, math.ceil(passes) - 1)
        return {
            "names": list(self.arrays),
            "kept": "disk" if self.on_disk else "memory",
            "mb": sum(array.nbytes for array in self.arrays.values()) / 2**20,
            "seconds": self.seconds,
            "passes_saved": saved,
            "seconds_saved": saved * self.seconds,
        }


class KeptTargets:
    """The last targets that runs of one predecessor asked for, for the next of them; those on disk belong to their run."""

    def __init__(self) -> None:
        self._last: tuple[Encoded, Hashable, Targets] | None = None

    def get(self, train: Encoded, key: Hashable, compute: Callable[[], Targets]) -> Targets:
        """What `compute` gives, or gave the last time if that was for these very examples and an equal key."""
        if self._last is not None and self._last[0].dataset is train.dataset and self._last[1] == key:
            return self._last[2]
        found = compute()
        if not found.on_disk:
            self._last = train, key, found
        return found


def compute_targets(
    model: nn.Module, train: Encoded, tokenizer: Any, read: Read, folder: Path, context: Context
) -> Targets:
    """Runs the model in eval mode over all examples, the longest first, and keeps what `read` takes from each batch.

    Tensors of any shape, one row an example; where a batch's are as wide as its longest text (states, attention maps), they are
    padded with zeros to the widest of all. Every rank computes its own.

    Raises:
        RunError: the targets need the disk, and it is full.
    """
    started = time.monotonic()
    model.eval()
    device = next(model.parameters()).device
    arrays: dict[str, np.ndarray] = {}
    on_disk = False
    with torch.inference_mode():
        for rows, batch in sorted_batches(train, tokenizer, BATCH_SIZE):
            found = {name: value.float().cpu().numpy() for name, value in read(model, batch.to(device)).items()}
            if not arrays:
                shapes = {name: (len(train.lengths), *value.shape[1:]) for name, value in found.items()}
                on_disk = sum(4 * math.prod(shape) for shape in shapes.values()) > MEMORY_MB * 2**20
                rank = f".{context.rank}" if context.rank else ""
                arrays = {
                    name: _make_array(folder / f"{name}{rank}.npy", shape, on_disk) for name, shape in shapes.items()
                }
            for name, value in found.items():
                place: Any = (rows, *(slice(size) for size in value.shape[1:]))
                arrays[name][place] = value
    return Targets(arrays, time.monotonic() - started, on_disk=on_disk)


def _make_array(path: Path, shape: tuple[int, ...], on_disk: bool) -> np.ndarray:
    if not on_disk:
        return np.zeros(shape, np.float32)
    with whole_file(path) as part:
        np.lib.format.open_memmap(part, mode="w+", dtype=np.float32, shape=shape)
    return np.lib.format.open_memmap(path, mode="r+")


def read_logits(model: nn.Module, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    logits = logits_of(model(**inputs))
    assert logits is not None
    return {"logits": logits}


def logits_of(output: Any) -> torch.Tensor | None:
    """A model's logits; of spans in a text (B, 2, T): which token is the first, and which the last. None if it gives neither."""
    if output.get("start_logits") is not None:
        return torch.stack([output["start_logits"], output["end_logits"]], 1)
    return output.get("logits")
