"""A run's folder: claimed by one config, written by one process at a time."""

import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from rich.console import Console

from plankwise.config import RunConfig, validate_config
from plankwise.context import count_processes
from plankwise.errors import ConfigError, PlankwiseError, RunError, shorten
from plankwise.files import is_leftover, read_as, sweep_leftovers, write_text
from plankwise.models.exported import FILE as EXPORTED
from plankwise.options import MOST_GIVEN
from plankwise.record import FILE
from plankwise.run.log import RunLog
from plankwise.toml import parse_toml

CONFIG = "config.toml"
LOCK = ".lock"
GIVEN = "given"  # examples and models that were given in memory; written before the run begins
CHANGES_NOTHING: Any = {"analysis": True, "run": {"patience"}}  # keys that change nothing of what a run trains
PROCESSES = Path("checkpoints") / "processes.json"  # how many have trained what is there; absent: one


@dataclass(frozen=True)
class KeptProcesses:
    """What PROCESSES holds."""

    processes: int


class FolderTakenError(RunError):
    """Another process writes to the folder."""


class FolderLock:
    """Keeps other processes from writing to a folder until this one ends, however it ends; who holds it writes the log.

    Several hold it together if each of them says that it is shared: workers that divide what is in the folder.
    """

    def __init__(self, folder: Path, console: Console, *, shared: bool = False) -> None:
        self.folder = folder
        self.console = console
        self.shared = shared
        self.log = RunLog(folder)
        self._file: IO[str] | None = None

    def acquire(self) -> None:
        """Takes the lock, unless it is held already; makes the folder if it is not there.

        Raises:
            FolderTakenError: another process holds it; says which.
        """
        if self._file is not None:
            return
        path = self.folder / LOCK
        while True:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                file = path.open("a+", encoding="utf-8")
            except OSError as error:
                raise RunError(
                    f"{self.folder} cannot be written ({error.strerror}); choose another run.folder"
                ) from None
            if not self._try(file, shared=self.shared):
                file.seek(0)
                holder = file.read().strip() or "another process"
                file.close()
                raise FolderTakenError(
                    f"{self.folder} is being written by {holder}; wait until it has ended, stop it, or choose another run.folder"
                )
            if path.exists() and os.fstat(file.fileno()).st_ino == path.stat().st_ino:
                break
            file.close()  # the one before was removing it
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}, since {datetime.now():%Y-%m-%d %H:%M}\n")
        file.flush()
        self._file = file
        if (self.folder / CONFIG).is_file():  # else it is not known yet whether the run can begin
            self.log.begin()

    def _try(self, file: IO[str], *, shared: bool) -> bool:
        try:
            import fcntl
        except ImportError:  # Windows
            return True
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            self.console.print(
                f"{self.folder} cannot be locked on this file system ({error.strerror}): start no second run in it",
                soft_wrap=True,
            )
        return True

    def __enter__(self) -> "FolderLock":
        self.console.push_render_hook(self.log)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.console.pop_render_hook()
        if self._file is not None:
            if error is not None:
                self.log.note(str(error) or type(error).__name__)
            if not self.shared or self._try(self._file, shared=False):  # else it is still others'
                (self.folder / LOCK).unlink(missing_ok=True)
            self._file.close()
            self._file = None


@contextmanager
def claimed(lock: FolderLock, config: RunConfig) -> Iterator[None]:
    """The folder is claimed; if what is found wrong inside could only be found there, a new folder goes again."""
    new = not lock.folder.exists() or all(path.name in (LOCK, GIVEN) for path in lock.folder.iterdir())
    lock.acquire()
    claim(lock.folder, config)
    lock.log.begin()
    try:
        yield
    except PlankwiseError:
        if new:
            shutil.rmtree(lock.folder, ignore_errors=True)
        raise


def discard_untrained(folder: Path) -> None:
    """Deletes the folder of a run that turns out to be impossible, unless something has been trained there."""
    if not _has_trained(folder):
        shutil.rmtree(folder, ignore_errors=True)


def _has_trained(folder: Path) -> bool:
    return any(path.is_dir() for path in [folder / "predecessor", *folder.glob("checkpoints/*")])


def claim(folder: Path, config: RunConfig) -> None:
    """Makes the folder this run's own, and removes what a killed process had begun to write."""
    write_text(folder / CONFIG, config.to_toml())
    if (processes := count_processes()) > 1:
        (folder / PROCESSES).parent.mkdir(parents=True, exist_ok=True)
        write_text(folder / PROCESSES, json.dumps({"processes": processes}))
    else:
        (folder / PROCESSES).unlink(missing_ok=True)
    sweep_leftovers(folder)


def is_finished(folder: Path, config: RunConfig) -> bool:
    """Whether the folder holds the finished run of this config.

    Raises:
        RunError: the folder holds something else.
    """
    try:
        is_file, is_folder = folder.is_file(), folder.is_dir()
    except OSError as error:  # a name that is too long, a folder above that may not be read
        raise RunError(f"run.folder is {folder} ({error.strerror}); choose another run.folder") from None
    if is_file:
        raise RunError(f"run.folder is {folder}, which is a file; choose another run.folder")
    if not is_folder or all(is_leftover(path) or path.name in (LOCK, GIVEN) for path in folder.iterdir()):
        return False
    if not (folder / CONFIG).is_file():
        raise RunError(f"{folder} holds files that are not a run of plankwise; choose another run.folder, or empty it")
    finished = (folder / FILE).is_file()
    _check_same(folder, config, begun=not finished and _has_trained(folder))
    return finished


def _check_same(folder: Path, config: RunConfig, *, begun: bool) -> None:
    """Refuses a folder with another run in it; the same run goes on with other processes if its steps keep their size.

    Raises:
        RunError: it is another, or its steps would be of another size.
    """
    before, now = (one.model_dump(mode="json", exclude=CHANGES_NOTHING) for one in (read_config(folder), config))
    processes, ours = _read_processes(folder), count_processes()
    if before == now and (processes == ours or not begun):
        return
    if processes != ours:
        sizes, our_sizes = _steps_taken_out(before, processes), _steps_taken_out(now, ours)
    if before != now:
        raise RunError(
            f"{folder} holds another run ({_difference(before, now)}); choose another run.folder or run.name, or delete it"
        )
    wrong = {key: size for key, size in sizes.items() if size != our_sizes[key]}
    if not wrong:
        return
    fits = " and ".join(f"{key} = {size // ours}" for key, size in wrong.items() if size % ours == 0)
    taken, would = (" and ".join(str(one[key]) for key in wrong) for one in (sizes, our_sizes))
    raise RunError(
        f"{folder} was begun by {tell_processes(processes)} in steps of {taken} examples ({', '.join(wrong)} on each), and "
        f"{tell_processes(ours)} would take {would}: {f'set {fits}, ' if fits else ''}start {tell_processes(processes)}, or choose "
        "another run.folder"
    )


def _steps_taken_out(config: dict[str, Any], processes: int) -> dict[str, int]:
    """Takes out of a config how processes and micro-batches share a step, and gives the examples of whole steps, by key."""
    sections = {"predecessor.training": config["predecessor"]["training"], "training": config["training"]}
    for section in sections.values():
        section.pop("accumulation")
    return {f"{name}.batch_size": section.pop("batch_size") * processes for name, section in sections.items()}


def _read_processes(folder: Path) -> int:
    if not (folder / PROCESSES).is_file():
        return 1
    return read_as(folder / PROCESSES, KeptProcesses, f"delete {folder} to begin anew").processes


def tell_processes(count: int) -> str:
    """A number of processes in words."""
    return f"{count} process{'es' * (count != 1)}"


def find_config(model: str) -> Path | None:
    """The config of the run that a model's folder lies in; None if it lies in none.

    Raises:
        ConfigError: it is the folder of a run, not of a model.
    """
    folder = Path(model).expanduser()
    if (folder / CONFIG).is_file() and not (folder / "config.json").is_file():
        raise ConfigError(f"{model} is the folder of a run; give one of its models, for example {folder / 'successor'}")
    above = folder.resolve().parents
    places = above[: 2 if (folder / EXPORTED).is_file() else 1]  # exports are in a folder of their own inside a run's
    found = [place / CONFIG for place in places if (place / CONFIG).is_file()]
    return found[0] if folder.is_dir() and found else None


def refer_to_predecessor(config: RunConfig, recipe: Path) -> RunConfig:
    """A config for one of a run's models, whose recipe is given: where a task compares with another model and none is named, with
    the run's predecessor."""
    task: Any = config.task
    if getattr(task, "reference", "") is not None:
        return config
    path = read_config(recipe.parent).predecessor.path
    return config.model_copy(update={"task": task.model_copy(update={"reference": path})})


def read_config(folder: Path) -> RunConfig:
    """The config of the run in a folder; a key that its version did not have yet has its default.

    Raises:
        RunError: it cannot be read, or not any more.
    """
    try:
        return validate_config(parse_toml((folder / CONFIG).read_text("utf-8")))
    except (OSError, ValueError) as error:
        if isinstance(error, ConfigError):
            error = ConfigError(str(error).partition("\n")[0])
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
        there, wanted = ("absent" if value is None else value for value in (before.get(key), now.get(key)))
        return f"{here} is {shorten(str(there), MOST_GIVEN)} there, {shorten(str(wanted), MOST_GIVEN)} here"
    raise AssertionError("two equal configs were compared")
