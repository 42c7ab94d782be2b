"""The terminal: shows text as it is, so that brackets and colons in paths, names and data stay what they are."""

from rich.console import Console

from plankwise.context import is_main_process


def open_console() -> Console:
    """Of several processes that were started together, rank 0 alone prints."""
    return Console(markup=False, emoji=False, quiet=not is_main_process())
