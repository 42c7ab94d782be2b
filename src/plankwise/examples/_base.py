"""What a run asks of its examples, whatever the task."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import nn

from plankwise.config import RunConfig
from plankwise.data.encode import Encoded
from plankwise.training.stage import Collate
from plankwise.training.trainer import Objective


@dataclass(frozen=True)
class HeadAlone:
    """A new head is trained with all else frozen, before the model is trained as a whole."""

    share: float  # of the steps
    learning_rate: float


class Examples(ABC):
    """What a run trains and measures on."""

    name: str
    score_names: tuple[str, ...]
    train: Encoded
    held_out: Encoded  # texts that are not trained on, labels or none
    objective: Objective | None = None  # the loss, if not the model's own
    collate: Collate | None = None  # how batches are made, if not by padding alone
    head_alone: HeadAlone | None = None  # how a new head begins
    on_disk: bool = False  # nothing can be scored before `lay_out` has written them

    @abstractmethod
    def load(self, path: str, *, remote_code: bool) -> tuple[nn.Module, bool]:
        """The model with a head for the task, and whether that head came with it.

        Raises:
            ConfigError: nothing can be loaded from there.
        """

    @abstractmethod
    def score(self, model: nn.Module) -> dict[str, float]:
        """The task's metrics on dev, and `score`: higher is better."""

    @abstractmethod
    def texts(self, most: int) -> list[tuple[str, ...]]:
        """Up to `most` dev texts (or pairs) as they stand in the data."""

    @abstractmethod
    def to_json(self) -> dict:
        """What the record says of them."""

    def check_config(self, config: RunConfig) -> None:
        """Looks whether what the config asks for can be done on such examples.

        Raises:
            ConfigError: it cannot.
        """
        return

    def check_head(self, given: Any, path: str) -> None:
        """Compares the head of a model that was given, by its config, with the task.

        Raises:
            ConfigError: it is for another task.
        """
        return

    @abstractmethod
    def check_predecessor(self, model: nn.Module, path: str, *, given: bool = False) -> None:
        """Looks at what a predecessor that was trained here, or given, has learnt.

        Raises:
            RunError: nothing that could be kept.
        """

    def lay_out(self, folder: Path, console: Console) -> None:
        """Writes into the folder what is too large for memory; called once the folder belongs to the run."""
        return
