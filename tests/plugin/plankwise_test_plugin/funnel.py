"""Funnel: layers stand in blocks, between which the text is made shorter, and the config lists how many each block has."""

from typing import Any


def shorten(config: Any, path: str, kept: list[int]) -> bool:
    """The number of layers in the block at `path`; the depth of the whole follows from it, and cannot be set."""
    place = int(path.rpartition(".")[2])
    config.block_sizes = [len(kept) if index == place else size for index, size in enumerate(config.block_sizes)]
    return True
