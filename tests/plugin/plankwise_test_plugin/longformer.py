"""Longformer: each block attends within a window of its own, and the config lists the windows."""

from typing import Any


def shorten(config: Any, path: str, kept: list[int]) -> None:
    """The windows of the blocks that are kept; the general rule does not know them, since their key does not say "layer"."""
    if isinstance(config.attention_window, list):
        config.attention_window = [config.attention_window[index] for index in kept]
