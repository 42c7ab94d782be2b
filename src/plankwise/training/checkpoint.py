"""Checkpoints for exact resuming: safetensors and JSON only, written whole or not at all, with a checksum for every file.

A stage keeps its last two: where the last one was damaged since, it goes on from the one before.
"""

import hashlib
import json
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers.trainer import TRAINER_STATE_NAME

from plankwise.errors import RunError
from plankwise.files import explain_full_disk, read_json
from plankwise.training.weights import load_weights, read_weights, save_weights

WEIGHTS, MODULES, OPTIMISER, STATE = "weights.safetensors", "modules.safetensors", "optimiser.safetensors", "state.json"
CHECKSUMS = "checksums.json"
NEEDED = (WEIGHTS, OPTIMISER, STATE, TRAINER_STATE_NAME)
KEPT = 2
NAME = re.compile(r"checkpoint-([0-9]+)")


def trained_tensors(model: nn.Module, names: set[str]) -> dict[str, torch.Tensor]:
    """What training may change: the named parameters and all buffers that a checkpoint holds."""
    state = model.state_dict()
    parameters = {name for name, _ in model.named_parameters()}
    return {
        name: value
        for name, value in state.items()
        if name in names or (name not in parameters and _is_buffer(model, name))
    }


def _is_buffer(model: nn.Module, name: str) -> bool:
    parent, _, last = name.rpartition(".")
    return last in model.get_submodule(parent)._buffers


def load_trained(model: nn.Module, trained: set[str], path: Path) -> None:
    """Copies what training has changed from a file of the stage's folder, or of a checkpoint in it, into the model.

    Raises:
        RunError: the file is damaged, or belongs to another model.
    """
    load_weights(model, path, to_train_anew(path), set(trained_tensors(model, trained)))


def to_train_anew(path: Path) -> str:
    """What to do if a file of a stage, or of a checkpoint of it, cannot be used."""
    folder = path.parent.parent if NAME.fullmatch(path.parent.name) else path.parent
    return f"delete {folder} to train that stage anew"


def save_state(
    folder: Path,
    tensors: dict[str, torch.Tensor],
    optimiser: Any,
    scheduler: Any,
    scaler: Any,
    logged: dict[str, Any],
    randoms: list[dict[str, Any]],
) -> None:
    """Fills a checkpoint's folder with weights, optimiser, learning-rate schedule, random states, and the losses not yet logged.

    `randoms`: what `random_states` gave on each rank.
    """
    save_weights(tensors, folder / WEIGHTS)
    state = optimiser.state_dict()
    flat = {
        f"{index}.{key}": value
        for index, entry in state["state"].items()
        for key, value in entry.items()
        if isinstance(value, torch.Tensor)
    }
    rng = {
        f"{_prefix(rank)}.{name}": one for rank, found in enumerate(randoms) for name, one in found["tensors"].items()
    }
    save_weights(flat | rng, folder / OPTIMISER)
    first, *others = [{name: found[name] for name in ("python_rng", "numpy_rng")} for found in randoms]
    data = {
        "groups": state["param_groups"],
        "scheduler": scheduler.state_dict(),
        "scaler": scaler.state_dict() if scaler is not None else None,
        **first,
        "other_ranks": others,
        "logged": logged,
    }
    (folder / STATE).write_text(json.dumps(data), "utf-8")


def random_states() -> dict[str, Any]:
    """What decides this process's dropout from here on: batches of other lengths have drawn other numbers on each rank."""
    numpy_state: Any = np.random.get_state()
    _, keys, position, has_gauss, gauss = numpy_state
    tensors = {"cpu": torch.random.get_rng_state(), "numpy": torch.from_numpy(keys.astype(np.int64))}
    tensors |= {f"cuda.{index}": value for index, value in enumerate(_cuda_states())}
    return {"tensors": tensors, "python_rng": random.getstate(), "numpy_rng": [position, has_gauss, gauss]}


def _prefix(rank: int) -> str:
    return f"rng{rank or ''}"


def _cuda_states() -> list[torch.Tensor]:
    return torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []


def load_optimiser(folder: Path, optimiser: Any, scheduler: Any, scaler: Any) -> None:
    data = _read_state(folder)
    entries: dict[int, dict] = {}
    for name, value in _read_optimiser(folder).items():
        index, _, key = name.partition(".")
        if not index.startswith("rng"):
            entries.setdefault(int(index), {})[key] = value
    optimiser.load_state_dict({"state": entries, "param_groups": data["groups"]})
    scheduler.load_state_dict(data["scheduler"])
    if scaler is not None and data["scaler"]:
        scaler.load_state_dict(data["scaler"])


def load_rng(folder: Path, rank: int) -> None:
    """The random state that a rank had; where there were fewer ranks, one of theirs."""
    data, tensors = _read_state(folder), _read_optimiser(folder)
    known = [data, *data.get("other_ranks", [])]
    rank %= len(known)
    version, internal, gauss_next = known[rank]["python_rng"]
    random.setstate((version, tuple(internal), gauss_next))
    position, has_gauss, gauss = known[rank]["numpy_rng"]
    prefix = _prefix(rank)
    np.random.set_state(("MT19937", tensors[f"{prefix}.numpy"].numpy().astype(np.uint32), position, has_gauss, gauss))
    torch.random.set_rng_state(tensors[f"{prefix}.cpu"])
    for index in range(len(_cuda_states())):
        torch.cuda.set_rng_state(tensors[f"{prefix}.cuda.{index}"], index)


def load_logged(folder: Path) -> dict[str, Any]:
    """What `save_state` was given of the losses."""
    return _read_state(folder)["logged"]


def _read_state(folder: Path) -> dict:
    return read_json(folder / STATE, to_train_anew(folder / STATE))


def _read_optimiser(folder: Path) -> dict[str, torch.Tensor]:
    return read_weights(folder / OPTIMISER, to_train_anew(folder / OPTIMISER))


def seal(folder: Path) -> None:
    """Writes the checksums of all files in a checkpoint's folder."""
    sums = {file.name: _checksum(file) for file in sorted(folder.iterdir())}
    (folder / CHECKSUMS).write_text(json.dumps(sums, indent=2), "utf-8")


def _checksum(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def find_fault(folder: Path) -> str | None:
    """What is wrong with a checkpoint; None if every file is what was written."""
    if not folder.is_dir():
        return "it is a file, not a folder"
    if not (folder / CHECKSUMS).is_file():
        return f"it has no {CHECKSUMS}: it is not whole, or of an earlier version"
    try:
        sums = read_json(folder / CHECKSUMS)
        for name in {**dict.fromkeys(NEEDED), **sums}:
            if name not in sums or not (folder / name).is_file():
                return f"{name} is missing"
            if _checksum(folder / name) != sums[name]:
                return f"{name} is not what was written: its checksum differs"
    except RunError:
        return f"{CHECKSUMS} is damaged"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    return None


def find_whole(folder: Path, tell: Callable[[str], None]) -> Path | None:
    """The last checkpoint that is whole; None if there is no checkpoint at all.

    Later ones, which are damaged, are set aside under another name, and `tell` is told.

    Raises:
        RunError: there are checkpoints, and none is whole.
    """
    faults: dict[Path, str] = {}
    for path in reversed(list_checkpoints(folder)):
        if (fault := find_fault(path)) is not None:
            faults[path] = fault
            continue
        for damaged, fault in faults.items():
            aside = damaged.with_name(f"damaged-{damaged.name}")
            with explain_full_disk(aside):
                _remove(aside)
                os.replace(damaged, aside)
            tell(f"{damaged} is damaged ({fault}) and is now called {aside.name}; going on from {path.name} instead")
        return path
    if faults:
        told = "; ".join(f"{path.name}: {fault}" for path, fault in faults.items())
        raise RunError(
            f"no checkpoint in {folder} can be used ({told}); delete that folder and run the same command again: that stage is "
            "trained anew, and what was done before it is kept"
        )
    return None


def list_checkpoints(folder: Path) -> list[Path]:
    """What is called a checkpoint in the folder, oldest first."""
    found = {path: int(name[1]) for path in folder.glob("checkpoint-*") if (name := NAME.fullmatch(path.name))}
    return sorted(found, key=found.__getitem__)


def prune_checkpoints(folder: Path, keep: int = KEPT) -> None:
    """Leaves the last ones."""
    found = list_checkpoints(folder)
    for path in found[: len(found) - keep]:
        _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
