"""The option --workers, which commands of many cells have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from plankwise.run.workers import Workers

WORKERS = "share the cells with others of this command: a database, or `here`"


def open_workers(url: str | None, command: str, folder: Path, console: Console) -> Workers | None:
    """The workers that were asked for, of which this process is one."""
    if url is None:
        return None
    from plankwise.run.workers import Workers

    return Workers(url, command, folder, console)
