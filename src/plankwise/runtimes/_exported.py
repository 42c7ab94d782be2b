"""What the runtimes of exported models share: threads as torch has them, tensors to arrays and back, chains of graphs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plankwise.errors import ConfigError
from plankwise.models.exported import Exported, read_exported
from plankwise.runtimes import Batch, Outputs, Predictor
from plankwise.runtimes._chain import run_chain

if TYPE_CHECKING:
    import numpy as np
    import torch

    Graph = Callable[[dict[str, np.ndarray]], list[np.ndarray]]  # inputs by name to outputs in their order

ZEROS = "token_type_ids"  # what a batch may leave out, since models take 0 for it


class ExportedPredictor(Predictor):
    """An exported model on the CPU, on as many threads as torch has."""

    def __init__(self, folder: Path, exported: Exported) -> None:
        import torch

        self.folder, self.exported = folder, exported
        self.device = torch.device("cpu")
        self.start()

    @abstractmethod
    def open_graph(self, file: Path) -> Graph:
        """A graph of the model, on `self.threads` threads."""

    def start(self) -> None:
        """Opens all graphs for as many threads as torch has now."""
        import torch

        self.threads = torch.get_num_threads()
        self.graphs = [self.open_graph(self.folder / name) for name in self.exported.graphs]

    def run(self, arrays: dict[str, Any]) -> list[Any]:
        """The outputs for a batch, as arrays in the export's order."""
        if self.exported.exits is None:
            return self.graphs[0](arrays)
        return run_chain(self.graphs, arrays, self.exported.exits)

    def __call__(self, inputs: Batch, chosen: torch.Tensor | None = None) -> Outputs:
        import torch

        if torch.get_num_threads() != self.threads:
            self.start()
        arrays = {name: self._array(name, inputs) for name in self.exported.inputs}
        found = {name: torch.from_numpy(one) for name, one in zip(self.exported.outputs, self.run(arrays), strict=True)}
        if chosen is not None:
            name = "prediction_logits" if "prediction_logits" in found else "logits"
            found = {**found, "logits": found[name][chosen.cpu()]}
        return found

    def _array(self, name: str, inputs: Batch) -> Any:
        import torch

        value = inputs[name] if name != ZEROS or name in inputs else torch.zeros_like(inputs["input_ids"])
        return value.cpu().numpy()

    @property
    def size_mb(self) -> float:
        return self.exported.size_mb(self.folder)


def find_export(path: str, runtime: str) -> tuple[Path, Exported]:
    """The export in a folder, which has to be one for this runtime.

    Raises:
        ConfigError: it is a checkpoint, or an export to another format; says what to do.
    """
    found = read_exported(path)
    if found is None:
        raise ConfigError(
            f"evaluation.runtime is {runtime!r}, which opens exported models only, but {path} is not one; "
            f"export it first: plankwise export {path} --to {runtime}"
        )
    if found.runtime != runtime:
        raise ConfigError(
            f"evaluation.runtime is {runtime!r}, but {path} was exported to {found.format}, which {found.runtime} opens; "
            f"leave evaluation.runtime out"
        )
    return Path(path).expanduser(), found
