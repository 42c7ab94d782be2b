"""What a run leaves behind, to and from JSON: every measurement, versions, machine, seed, wall time."""

import json
import os
import platform
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from plankwise.errors import RunError
from plankwise.files import write_text

FILE = "record.json"
PACKAGES = ("plankwise", "torch", "transformers", "accelerate", "datasets", "tokenizers", "numpy", "scikit-learn")
SCORE = "score"
# Where records of earlier versions call the truncated model `floor`; "*" is any key.
OLD_NAME, NEW_NAME = "floor", "truncated"
OLD_PLACES = ((), ("stages",), ("analysis", "cost", "*"), ("estimate", "phases"), ("estimate", "memory", "phase"))
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


def read_record(folder: Path) -> dict:
    """The record of a finished run, in today's form even if an earlier version wrote it.

    Raises:
        RunError: there is none, or it cannot be read.
    """
    try:
        return upgrade_record(json.loads((folder / FILE).read_text("utf-8")))
    except FileNotFoundError:
        raise RunError(
            f"{folder} has no {FILE}: it is not a finished run; run `plankwise compress` to finish it"
        ) from None
    except (OSError, ValueError) as error:
        raise RunError(f"{folder / FILE} cannot be read ({error}); delete it and run the same command again") from None


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
