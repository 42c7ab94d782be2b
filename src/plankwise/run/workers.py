"""The workers of a command that makes many cells: each was given the same command, and all divide its cells through a database.

What came of a cell stands in the cell's folder, which all workers see; the database says who is at it. So a folder that was deleted
is made again, whatever the database says, and one that was begun without workers goes on with them.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from rich.console import Console

from plankwise.context import count_processes
from plankwise.errors import ConfigError, PlankwiseError, RunError
from plankwise.files import read_json, sweep_leftovers, write_text
from plankwise.run.dividing import LONGEST, POLL, Claim, ClaimLostError, Division, open_engine
from plankwise.run.folders import FolderLock, FolderTakenError
from plankwise.training.interruption import InterruptedRunError

OPTION, HERE, DATABASE = "--workers", "here", "workers.db"
FAILURE = "failure.json"  # in a cell's folder
PATIENCE = 60.0  # seconds until a file that another machine has written must be there

Made = TypeVar("Made")


class Workers:
    """This process among the workers of one command."""

    def __init__(self, url: str, command: str, folder: Path, console: Console) -> None:
        """`url` is a database's, or `here` for one in the folder; all workers give the same, and the same command and folder."""
        self.url = f"sqlite:///{folder / DATABASE}" if url == HERE else url
        self.work = _short(f"{command} {folder.resolve().name}")
        self.folder, self.console = folder, console

    def check(self) -> None:
        """Looks whether there can be workers here; nothing is written.

        Raises:
            PlankwiseError: not with this database, or not in a process that has ranks beside it.
        """
        if count_processes() > 1:
            raise ConfigError(
                f"{OPTION} divides cells among processes of their own; start the same command several times instead of by torchrun"
            )
        if self.url != f"sqlite:///{self.folder / DATABASE}":
            open_engine(self.url, OPTION).dispose()

    def share(
        self,
        places: Mapping[str, Path],
        work: Callable[[str, Claim], object],
        is_made: Callable[[str], bool],
        *,
        locks: bool = False,
    ) -> dict[str, str]:
        """Has each cell made once, here or elsewhere, and waits until all are; gives by cell why some failed.

        `places` are the cells' folders, in the order in which they are begun; each is locked for `work`, unless that `locks` it
        itself. A cell that has failed is tried again by whoever comes when all others are there.

        Raises:
            RunError: another worker has made a cell that is not to be seen here.
        """
        items = {_short(cell): cell for cell in places}

        def attempt(claim: Claim) -> None:
            cell = items[claim.item]
            if is_made(cell):
                return
            try:
                with FolderLock(places[cell], self.console) as lock:
                    if not locks:
                        lock.acquire()
                        sweep_leftovers(places[cell])
                    work(cell, claim)
                (places[cell] / FAILURE).unlink(missing_ok=True)
            except (InterruptedRunError, ClaimLostError):
                raise
            except FolderTakenError as error:
                raise ClaimLostError(str(error)) from None
            except Exception as error:
                claim.check()
                self.say(f"{cell} failed: {reason(error)}")
                write_text(places[cell] / FAILURE, json.dumps({"reason": reason(error)}))

        self._reopen({item: cell for item, cell in items.items() if not is_made(cell)}, places)
        self._division.do(list(items), attempt, self.say)
        failed: dict[str, str] = {}
        for cell, place in places.items():
            if not self._wait_for(lambda cell=cell: is_made(cell), place):  # type: ignore[misc]
                failed[cell] = read_json(place / FAILURE)["reason"]
        return failed

    def in_turn(self, name: str, work: Callable[[], Made]) -> Made:
        """What `work` gives, called by one worker after the other: what the first one writes the others find."""
        told = ""
        while True:
            try:
                return self._division.in_turn(name, lambda claim: work(), self.say)
            except FolderTakenError as error:  # by a worker that has been silent for long, but is still there
                if str(error) != told:
                    self.say(str(error))
                told = str(error)
                time.sleep(POLL)

    def say(self, line: str) -> None:
        self.console.print(f"workers: {line}", soft_wrap=True)

    @cached_property
    def _division(self) -> Division:
        self.folder.mkdir(parents=True, exist_ok=True)
        return Division(open_engine(self.url, OPTION), self.work)

    def _reopen(self, missing: Mapping[str, str], places: Mapping[str, Path]) -> None:
        """What is not there has to be made, also if it was done before: its folder was deleted, or it failed then."""
        done = self._division.done()
        ended = all(item in done for item in missing)
        lost = [
            item for item, cell in missing.items() if item in done and (ended or not (places[cell] / FAILURE).is_file())
        ]
        self._division.reopen(lost)

    def _wait_for(self, is_made: Callable[[], bool], place: Path) -> bool:
        """Whether a cell that has ended is made, or else has failed; it may take a moment until either is to be seen here."""
        until = time.monotonic() + PATIENCE
        while not is_made():
            if (place / FAILURE).is_file():
                return False
            if time.monotonic() > until:
                raise RunError(
                    f"{place} is not there, though another worker has made it; let all workers see one --folder, "
                    "whose last part is that of no other in the database"
                )
            time.sleep(POLL)
        return True


def reason(error: Exception) -> str:
    """Why a cell failed, on one line; the class of an error that is not ours is named."""
    text = " ".join(str(error).split())
    if isinstance(error, PlankwiseError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _short(name: str) -> str:
    """A name that a database has room for, and that no other name is shortened to."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 17]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
