"""What a run leaves behind, to and from JSON: every measurement, versions, machine, seed, wall time."""

import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from plankwise.errors import PlankwiseError, RunError
from plankwise.files import AGAIN, read_json, write_text

FILE = "record.json"
PACKAGES = ("plankwise", "torch", "transformers", "accelerate", "datasets", "tokenizers", "numpy", "scikit-learn")
SCORE = "score"
# Where records of earlier versions call the truncated model `floor`; "*" is any key.
OLD_NAME, NEW_NAME = "floor", "truncated"
OLD_PLACES = ((), ("stages",), ("analysis", "cost", "*"), ("estimate", "phases"), ("estimate", "memory", "phase"))
DAMAGED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, StopIteration, RecursionError)
OLD_PIPELINES = {"mlm": "fill-mask", "clm": "text-generation"}  # by a text task's objective


@dataclass(frozen=True)
class Shown:
    """How a task's results are shown: the kind of task writes it to the record's `task.shown`."""

    metric: str  # the name of the figure to show
    key: str = SCORE  # where a model's record has it: "score", or a key of its `metrics`
    digits: int = 4
    lower_is_better: bool = False
    unit: str = "examples"  # what the held-out pieces are called
    pipeline: str = "text-classification"  # the hub's name for what the model does

    def value(self, model: dict) -> Any:
        """The figure of one of the record's models; None if it was not measured."""
        return model.get(SCORE) if self.key == SCORE else (model.get("metrics") or {}).get(self.key)

    def to_json(self) -> dict:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict) -> "Shown":
        return cls(**{field.name: data[field.name] for field in fields(cls) if field.name in data})

    @classmethod
    def of(cls, record: dict) -> "Shown":
        return cls.from_json(record["task"]["shown"])


def describe_machine() -> dict:
    """Where the figures were measured."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def write_record(folder: Path, record: dict) -> None:
    write_text(folder / FILE, json.dumps(record, indent=2, ensure_ascii=False))


def read_record(folder: Path) -> dict[str, Any]:
    """The record in a folder, in today's form even if an earlier version wrote it.

    Raises:
        RunError: there is none, or it cannot be read.
    """
    file = folder / FILE
    if not file.exists():
        raise RunError(f"{folder} has no {FILE}: it is not a finished run; run `plankwise compress` to finish it")
    record = read_json(file)
    if not record:
        raise RunError(f"{file} cannot be read (nothing is in it); {AGAIN}")
    return upgrade_record(record)


def read_run_record(folder: Path) -> dict[str, Any]:
    """The record of a finished run: it has the run's models, stages, task and config.

    Raises:
        RunError: there is none, it cannot be read, or it lacks one of these.
    """
    record = read_record(folder)
    models = ("model",) if "model" in record else ("predecessor", "successor")
    wanted = ("stages", "task", *models, *(("config",) if "config" in record else ()))
    lacking = [key for key in wanted if not isinstance(record.get(key), dict)]
    if not lacking and not isinstance(record.get("config", {}).get("run", {}), dict):
        lacking = ["config.run"]
    if lacking:
        raise RunError(f"{folder / FILE} is damaged: {', '.join(lacking)} is missing or not a section; {AGAIN}")
    return record


@contextmanager
def explain_damage(file: Path) -> Iterator[None]:
    """Turns an error in showing what a file holds into a sentence that names the file.

    Raises:
        RunError: the file lacks something that it must have, or has it in another form.
    """
    try:
        yield
    except DAMAGED as error:
        if isinstance(error, PlankwiseError):
            raise
        raise RunError(
            f"{file} is damaged: it cannot be shown ({type(error).__name__}: {error}); "
            "run the command that wrote it again, in another folder"
        ) from error


def upgrade_record(record: Any) -> Any:
    """A record of an earlier version in today's form; today's records, and what is not a record, come back as they are."""
    if not isinstance(record, dict):
        return record
    for path in OLD_PLACES:
        record = _rename(record, path)
    if isinstance(record.get("task"), dict):
        record["task"] = {**_describe_old_task(record["task"]), **record["task"]}
    return record


def _rename(tree: Any, path: tuple[str, ...]) -> Any:
    """The tree with the old name replaced by the new one at the end of the path, as a key or as a value."""
    if not path and tree == OLD_NAME:
        return NEW_NAME
    if not isinstance(tree, dict):
        return tree
    if not path:
        return {NEW_NAME if key == OLD_NAME else key: value for key, value in tree.items()}
    return {key: _rename(value, path[1:]) if path[0] in (key, "*") else value for key, value in tree.items()}


def _describe_old_task(task: dict) -> dict:
    """What records of earlier versions do not say of their task."""
    objective, score = task.get("objective"), task.get("score")
    if objective is None:
        metric = " and ".join(map(str, score)) if isinstance(score, list) and score else SCORE
        return {"kind": "labels", "shown": Shown(metric).to_json(), "facts": []}
    pipeline = OLD_PIPELINES.get(str(objective).split("+")[0], Shown.pipeline)
    shown = Shown("perplexity", "perplexity", 2, True, "pieces of text", pipeline)
    return {"kind": "text", "shown": shown.to_json(), "facts": [["objective", objective]]}
