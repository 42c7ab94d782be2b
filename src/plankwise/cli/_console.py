"""The terminal: shows text as it is, so that brackets and colons in paths, names and data stay what they are."""

from rich.console import Console


def open_console() -> Console:
    return Console(markup=False, emoji=False)
