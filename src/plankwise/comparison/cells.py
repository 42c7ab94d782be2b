"""The files of a grid's cells: figures, outputs on dev, and the successor of a row's best seed."""

import json
import shutil
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from plankwise.errors import RunError
from plankwise.files import read_json, whole_file, write_text
from plankwise.task_kinds import Task

CELL, OUTPUTS, SUCCESSOR = "cell.json", "outputs.npz", "successor"


@dataclass(frozen=True)
class GridCell:
    """One variant with one seed on one task; `failure` says why there are no figures."""

    label: str
    seed: int
    score: float | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    steps: int = 0
    skipped_steps: int = 0
    seconds: float = 0.0
    parameters: int | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    failure: str | None = None
    beyond_constant: dict | None = None  # whether it knows more than one answer, as records have it
    held_back: dict | None = None  # what the half of dev says that did not choose its checkpoint
    outputs: dict[str, np.ndarray] = field(default_factory=dict, repr=False, compare=False)  # by dev set

    def to_json(self) -> dict:
        return asdict(replace(self, outputs={}))

    def described(self) -> dict[str, Any]:
        """What remarks are made of."""
        return {"beyond_constant": self.beyond_constant, "held_back": self.held_back}


def write_cell(folder: Path, cell: GridCell) -> None:
    """The JSON file comes last: with it the cell is finished."""
    with whole_file(folder / OUTPUTS) as part, part.open("wb") as file:
        np.savez(file, **{f"dev_{index}": values for index, values in enumerate(cell.outputs.values())})  # type: ignore[arg-type]
    write_text(folder / CELL, json.dumps({**cell.to_json(), "outputs": list(cell.outputs)}, indent=2))
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)


def find_cell(folder: Path, task: Task) -> GridCell | None:
    """The finished cell in a folder, if there is one.

    Raises:
        RunError: its files are damaged, or were measured on other dev examples.
    """
    if not (folder / CELL).is_file():
        return None
    data = read_kept(folder / CELL)
    try:
        with np.load(folder / OUTPUTS, allow_pickle=False) as arrays:
            outputs = {name: arrays[f"dev_{index}"] for index, name in enumerate(data["outputs"])}
        cell = GridCell(**{**data, "outputs": outputs})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{folder} cannot be read ({error}); delete it and run the same command again") from None
    wanted = {name: len(encoded.lengths) for name, encoded in task.dev.items()}
    measured = {name: len(values) for name, values in outputs.items()}
    if measured and measured != wanted:
        raise RunError(
            f"{folder} was measured on other dev examples ({measured} there, {wanted} here); "
            "delete it, or choose another --folder"
        )
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)  # killed just before this
    if outputs and "beyond_constant" not in data:  # written by an earlier version
        cell = replace(cell, beyond_constant=task.beyond_constant(outputs))
    return cell


def read_kept(path: Path) -> dict[str, Any]:
    """What was written to a file of a comparison's folder.

    Raises:
        RunError: it cannot be read.
    """
    return read_json(path, f"delete {path.parent} and run the same command again")


def keep_best(folder: Path, cell: GridCell) -> None:
    """Of a row's successors leaves the best one, and of equals the earlier; `cell` is new, its successor in `folder`."""
    others = [path for path in kept_successors(folder.parent) if path.parent != folder]
    if any(read_kept(path.parent / CELL)["score"] >= cell.score for path in others):
        others = [folder / SUCCESSOR]
    for path in others:
        shutil.rmtree(path, ignore_errors=True)


def keep_one(row: Path) -> None:
    """The same once all of a row's cells are there, of which workers may have left several: whoever is second finds one."""
    scores = {path: read_kept(path.parent / CELL)["score"] for path in kept_successors(row)}
    for path in scores.keys() - {max(scores, key=lambda path: scores[path], default=None)}:
        shutil.rmtree(path, ignore_errors=True)


def kept_successors(row: Path) -> list[Path]:
    """The successors of a row's finished cells."""
    return sorted(path for path in row.glob(f"seed-*/{SUCCESSOR}") if (path.parent / CELL).is_file())
