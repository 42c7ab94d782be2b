"""What predicts, one file each; `evaluation.runtime = "torch"` is `runtimes/torch.py`.

A file offers:

    open(path, load)    a Predictor of the model at `path`; `load(path)` gives that model as a torch module, for a runtime that
                        needs one
    TOLERANCE           how far its outputs may be from torch's, as a share of the largest of them
    FORMAT              optional: the format (a file of `export/`) whose folders it opens; without it, it opens checkpoints

Scores, times, costs and errors are measured against the Predictor alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from plankwise.kinds import load_kind
from plankwise.models.exported import read_exported

if TYPE_CHECKING:
    import torch
    from torch import nn

Batch: TypeAlias = "Mapping[str, torch.Tensor]"
Outputs: TypeAlias = "Mapping[str, torch.Tensor]"
Load: TypeAlias = "Callable[[str], nn.Module]"


class Predictor(ABC):
    """A model at work: a batch in, named outputs out."""

    device: torch.device  # that outputs are on
    module: nn.Module | None = None  # the torch module behind it, if there is one: what is in it can be counted
    tokenizer: Any = None  # the model's own, if it has other tokens than the task's tokenizer

    @abstractmethod
    def __call__(self, inputs: Batch, chosen: torch.Tensor | None = None) -> Outputs:
        """The outputs for a batch, from any device.

        `chosen` (B, T): the only tokens whose logits are asked for, so that `logits` is (N, C), one row for each of them.
        """

    @property
    @abstractmethod
    def size_mb(self) -> float:
        """What its files take on disk, in millions of bytes."""

    def wait(self) -> None:
        """Returns once all work that was begun is done."""
        if self.device.type == "cuda":
            import torch

            torch.cuda.synchronize(self.device)


def chain_source() -> str:
    """The lines of Python, with numpy as np alone, that run a model with early exits as a chain of graphs: `run_chain`."""
    from plankwise.runtimes._chain import chain_source

    return chain_source()


def open_predictor(runtime: str, path: str, load: Load) -> Predictor:
    """The model at `path`, run by a runtime; an export is run by its own where the runtime asked for opens checkpoints.

    Raises:
        ConfigError: there is no such runtime.
        PlankwiseError: the model cannot be loaded.
    """
    opener: Any = load_kind("runtimes", runtime, key="evaluation.runtime")
    exported = read_exported(path)
    if exported is not None and not hasattr(opener, "FORMAT"):
        opener = load_kind("runtimes", exported.runtime, key="evaluation.runtime")
    return opener.open(path, load)
