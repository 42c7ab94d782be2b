"""One predecessor for many runs: read, trained if it has to be, then compressed by any number of configs."""

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from rich.console import Console
from torch import nn

from plankwise.config import RunConfig
from plankwise.context import open_context
from plankwise.files import read_as, write_text
from plankwise.models.plans import make_plan
from plankwise.run.compress import begin
from plankwise.run.dividing import Claim, held_by
from plankwise.run.folders import FolderLock
from plankwise.run.inputs import Inputs, Run, read_inputs
from plankwise.run.training import make_ready, train
from plankwise.run.workers import Workers
from plankwise.training.job import Outcome
from plankwise.training.stage import StageResult

READY = "ready.json"  # in the folder that workers' predecessor was made in


@dataclass(frozen=True)
class ReadyPredecessor:
    """A predecessor that has learnt its task."""

    run: Run  # that it was made ready in
    path: str
    stages: dict[str, StageResult] = field(default_factory=dict)  # its training, if it was trained here
    ignored_guards: dict[str, str] = field(default_factory=dict)  # what is wrong with it, by guard

    def load(self) -> nn.Module:
        return self.run.load(self.path)

    def at(self, config: RunConfig) -> Run:
        """A run on the same task; of its config, task, predecessor and the length of texts are not read again."""
        return replace(
            self.run,
            config=config,
            context=self.run.context.at(Path(config.run.folder), config.run.seed),
            seconds={},
            tokenizers={},
        )

    def held_by(self, claim: Claim | None) -> "ReadyPredecessor":
        """The same for a cell that a worker has a claim on."""
        return replace(self, run=replace(self.run, context=held_by(self.run.context, claim)))


def open_inputs(config: RunConfig, console: Console) -> Inputs:
    """What `make_predecessor` starts from, read and checked; nothing is written.

    Raises:
        PlankwiseError: anything that the user can fix.
    """
    return read_inputs(
        config, open_context(console, Path(config.run.folder), config.run.seed, config.run.patience_seconds)
    )


def make_predecessor(inputs: Inputs) -> ReadyPredecessor:
    """The predecessor, trained in `run.folder` if it has to be.

    Raises:
        PlankwiseError: anything that the user can fix.
    """
    with FolderLock(inputs.run.folder, inputs.run.context.console) as lock:
        begin(inputs, lock)
        stages = make_ready(inputs.predecessor)
    inputs.predecessor.model = None
    return ReadyPredecessor(inputs.run, inputs.predecessor.path, stages, inputs.predecessor.ignored_guards)


@dataclass(frozen=True)
class _Ready:
    """What one worker tells the others of the predecessor that it has made."""

    path: str
    stages: dict[str, StageResult]
    ignored_guards: dict[str, str]


def share_predecessor(inputs: Inputs, workers: Workers | None) -> ReadyPredecessor:
    """The same, made by one of several workers.

    Raises:
        PlankwiseError: anything that the user can fix.
    """
    if workers is None:
        return make_predecessor(inputs)
    run = inputs.run
    file = run.folder / READY

    def make() -> ReadyPredecessor:
        if file.is_file():
            found = read_as(file, _Ready)
            run.task.lay_out(run.folder, run.context.console)  # what the worker that made it has written
            inputs.predecessor.model = None
            return ReadyPredecessor(run, found.path, found.stages, found.ignored_guards)
        ready = make_predecessor(inputs)
        write_text(file, json.dumps(asdict(_Ready(ready.path, ready.stages, ready.ignored_guards))))
        return ready

    return workers.in_turn(str(run.folder.relative_to(workers.folder)), make)


def train_successor(config: RunConfig, predecessor: ReadyPredecessor) -> Outcome:
    """Trains by the config's method in `run.folder`; goes on where an earlier call was stopped."""
    model = predecessor.load()
    return train(predecessor.at(config), make_plan(model, config.plan), model)
