"""Writes a model so that the door reads it back: safetensors, its config (with its plan if it needs one), its tokenizer."""

import tempfile
from pathlib import Path
from typing import Any

from plankwise.files import whole_folder
from plankwise.models.loading import resolve
from plankwise.models.quiet import quiet


def save(model: Any, folder: Path, tokenizer: Any = None) -> Path:
    """Writes the model's folder, whole or not at all; gives its path.

    Raises:
        RunError: the disk is full, or the place is not for writing.
    """
    with quiet(), whole_folder(folder) as part:
        model.save_pretrained(part)
        if tokenizer is not None:
            tokenizer.save_pretrained(part)
    return folder


def size_on_disk_mb(folder: Path) -> float:
    """The weights' files in a model's folder, in millions of bytes."""
    return sum(path.stat().st_size for path in folder.glob("*.safetensors")) / 1e6


def saved_size_mb(model: Any, path: str) -> float:
    """What the model takes on disk where it stands, or would take if it comes from a hub or in another format."""
    if size := size_on_disk_mb(Path(resolve(path))):
        return size
    with quiet(), tempfile.TemporaryDirectory() as part:
        model.save_pretrained(part)
        return size_on_disk_mb(Path(part))
