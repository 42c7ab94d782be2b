"""Tensors on disk, with their checksum in the file's header: what is damaged is found when it is read, and never trained on."""

import hashlib
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from plankwise.errors import RunError
from plankwise.files import explain_full_disk

CHECKSUM = "sha256"  # in the header; files of earlier versions have none


def save_weights(tensors: dict[str, torch.Tensor], path: Path) -> None:
    """Writes a safetensors file.

    Raises:
        RunError: the disk is full.
    """
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    with explain_full_disk(path):
        save_file(plain, str(path), metadata={CHECKSUM: _digest(plain)})


def read_weights(path: Path, remedy: str) -> dict[str, torch.Tensor]:
    """The tensors of a file that `save_weights` wrote, by name; `remedy` says in errors what to do.

    Raises:
        RunError: the file is missing, or not what was written.
    """
    try:
        with safe_open(str(path), framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 it is not a dict
            written = (file.metadata() or {}).get(CHECKSUM)
    except Exception as error:
        raise RunError(f"{path} cannot be read ({error}); {remedy}") from None
    if written is not None and written != _digest(tensors):
        raise RunError(f"{path} is damaged: its tensors are not those that were written; {remedy}")
    return tensors


def load_weights(model: nn.Module, path: Path, remedy: str, names: set[str] | None = None) -> None:
    """Copies the tensors of a file into the model's of the same names: all of the model's, or those that are named.

    Raises:
        RunError: the file is damaged, or belongs to another model.
    """
    tensors, own = read_weights(path, remedy), model.state_dict()
    wanted = own.keys() if names is None else names
    other = sorted(wanted ^ tensors.keys()) or [
        name for name, value in tensors.items() if own[name].shape != value.shape
    ]
    if other:
        raise RunError(f"{path} belongs to another model: {other[0]} is not in both, or of another shape; {remedy}")
    with torch.no_grad():
        for name, value in tensors.items():
            own[name].copy_(value)


def _digest(tensors: dict[str, torch.Tensor]) -> str:
    """Of names, types, shapes and every bit."""
    found = hashlib.sha256()
    for name, value in sorted(tensors.items()):
        found.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        found.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()
