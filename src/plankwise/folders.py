"""A run's folder: claimed by one config, never shared by two."""

import tomllib
from pathlib import Path
from typing import Any

from plankwise.config import RunConfig
from plankwise.errors import RunError
from plankwise.files import is_leftover, sweep_leftovers, write_text
from plankwise.record import FILE

CONFIG = "config.toml"
AFTERWARDS = "analysis"  # the section that changes nothing of what a run trains


def is_finished(folder: Path, config: RunConfig) -> bool:
    """Whether the folder holds the finished run of this config.

    Raises:
        RunError: the folder holds something else.
    """
    if folder.is_file():
        raise RunError(f"run.folder is {folder}, which is a file; choose another run.folder")
    if not folder.is_dir() or all(is_leftover(path) for path in folder.iterdir()):
        return False
    if not (folder / CONFIG).is_file():
        raise RunError(f"{folder} holds files that are no run of plankwise; choose another run.folder, or empty it")
    before, now = _read(folder), tomllib.loads(config.to_toml())
    for data in (before, now):
        data.pop(AFTERWARDS, None)
    if before != now:
        raise RunError(
            f"{folder} holds another run ({_difference(before, now)}); choose another run.folder or run.name, or delete it"
        )
    return (folder / FILE).is_file()


def claim(folder: Path, config: RunConfig) -> None:
    """Makes the folder this run's own, and removes what a killed process had begun to write."""
    write_text(folder / CONFIG, config.to_toml())
    sweep_leftovers(folder)


def _read(folder: Path) -> dict:
    try:
        return tomllib.loads((folder / CONFIG).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(
            f"{folder / CONFIG} cannot be read ({error}), so whose run this is is not known; "
            "choose another run.folder, or delete it"
        ) from None


def _difference(before: Any, now: Any, path: str = "") -> str:
    """The first key on which two configs differ."""
    for key in [*before, *(key for key in now if key not in before)]:
        here = f"{path}{key}"
        if before.get(key) == now.get(key):
            continue
        if isinstance(before.get(key), dict) and isinstance(now.get(key), dict):
            return _difference(before[key], now[key], f"{here}.")
        return f"{here} is {before.get(key, 'absent')} there, {now.get(key, 'absent')} here"
    raise AssertionError("two equal configs were compared")
