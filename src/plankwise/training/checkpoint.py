"""Checkpoints for exact resuming: safetensors and JSON only, written whole or not at all."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from plankwise.errors import RunError
from plankwise.files import explain_full_disk

WEIGHTS, MODULES, OPTIMISER, STATE = "weights.safetensors", "modules.safetensors", "optimiser.safetensors", "state.json"


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


def save_weights(tensors: dict[str, torch.Tensor], path: Path) -> None:
    with explain_full_disk(path):
        save_file({name: value.detach().cpu().contiguous() for name, value in tensors.items()}, str(path))


def load_weights(model: nn.Module, path: Path) -> None:
    """Copies the tensors of a file into the model's of the same names.

    Raises:
        RunError: the file is damaged, or belongs to another model.
    """
    try:
        tensors = load_file(str(path))
    except Exception as error:
        raise RunError(
            f"{path} cannot be read ({error}); delete the folder it is in to start that stage anew"
        ) from None
    own = model.state_dict()
    with torch.no_grad():
        for name, value in tensors.items():
            if name not in own or own[name].shape != value.shape:
                raise RunError(f"{path} holds {name} for another model; delete the run's folder and start anew")
            own[name].copy_(value)


def save_state(folder: Path, tensors: dict[str, torch.Tensor], optimiser: Any, scheduler: Any, scaler: Any) -> None:
    """Fills a checkpoint's folder with weights, optimiser, learning-rate schedule and random states."""
    save_weights(tensors, folder / WEIGHTS)
    state = optimiser.state_dict()
    flat = {
        f"{index}.{key}": value
        for index, entry in state["state"].items()
        for key, value in entry.items()
        if isinstance(value, torch.Tensor)
    }
    numpy_state: Any = np.random.get_state()
    _, keys, position, has_gauss, gauss = numpy_state
    rng = {"rng.cpu": torch.random.get_rng_state(), "rng.numpy": torch.from_numpy(keys.astype(np.int64))}
    rng |= {f"rng.cuda.{index}": value for index, value in enumerate(_cuda_states())}
    save_weights(flat | rng, folder / OPTIMISER)
    data = {
        "groups": state["param_groups"],
        "scheduler": scheduler.state_dict(),
        "scaler": scaler.state_dict() if scaler is not None else None,
        "python_rng": random.getstate(),
        "numpy_rng": [position, has_gauss, gauss],
    }
    (folder / STATE).write_text(json.dumps(data), "utf-8")


def _cuda_states() -> list[torch.Tensor]:
    return torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []


def _read_state(folder: Path) -> dict:
    try:
        return json.loads((folder / STATE).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{folder / STATE} cannot be read ({error}); delete {folder} to start that stage anew") from None


def load_optimiser(folder: Path, optimiser: Any, scheduler: Any, scaler: Any) -> None:
    data = _read_state(folder)
    entries: dict[int, dict] = {}
    for name, value in load_file(str(folder / OPTIMISER)).items():
        index, _, key = name.partition(".")
        if index != "rng":
            entries.setdefault(int(index), {})[key] = value
    optimiser.load_state_dict({"state": entries, "param_groups": data["groups"]})
    scheduler.load_state_dict(data["scheduler"])
    if scaler is not None and data["scaler"]:
        scaler.load_state_dict(data["scaler"])


def load_rng(folder: Path) -> None:
    data = _read_state(folder)
    tensors = load_file(str(folder / OPTIMISER))
    version, internal, gauss_next = data["python_rng"]
    random.setstate((version, tuple(internal), gauss_next))
    position, has_gauss, gauss = data["numpy_rng"]
    np.random.set_state(("MT19937", tensors["rng.numpy"].numpy().astype(np.uint32), position, has_gauss, gauss))
    torch.random.set_rng_state(tensors["rng.cpu"])
    for index in range(len(_cuda_states())):
        torch.cuda.set_rng_state(tensors[f"rng.cuda.{index}"], index)


def list_checkpoints(folder: Path) -> list[Path]:
    """The folder's checkpoints, oldest first."""
    found = [path for path in folder.glob("checkpoint-*") if path.name.partition("-")[2].isdigit()]
    return sorted(found, key=lambda path: int(path.name.partition("-")[2]))


def prune_checkpoints(folder: Path, keep: int) -> None:
    for path in list_checkpoints(folder)[:-keep]:
        shutil.rmtree(path, ignore_errors=True)
