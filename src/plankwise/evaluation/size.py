"""How big a model is."""

from pathlib import Path

from torch import nn


def count_parameters(model: nn.Module) -> int:
    """All parameters, those that are shared counted once."""
    return sum(parameter.numel() for parameter in model.parameters())


def size_on_disk_mb(folder: Path) -> float:
    """The weights' files in a checkpoint's folder, in millions of bytes."""
    return sum(path.stat().st_size for path in folder.glob("*.safetensors")) / 1e6
