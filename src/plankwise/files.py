"""Whatever is written is written whole or not at all: a temporary name beside the target, then a rename."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from plankwise.errors import RunError

BARRED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)


def write_text(path: Path, text: str) -> None:
    """Writes a file that no reader ever sees half of.

    Raises:
        RunError: the disk is full, or the place is not for writing.
    """
    with whole_file(path) as part:
        part.write_text(text, "utf-8")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Gives a temporary path to write; what is there takes the name `path` in one step.

    Raises:
        RunError: the disk is full, or the place is not for writing.
    """
    with explain_full_disk(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Gives a temporary folder to fill; it takes the name `path` when all of it has been written.

    Raises:
        RunError: the disk is full, or the place is not for writing.
    """
    with explain_full_disk(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part"))
        try:
            yield temporary
            for file in temporary.rglob("*"):
                if file.is_file():
                    with file.open("rb") as handle:
                        os.fsync(handle.fileno())
            os.chmod(temporary, 0o755)
            _swap(temporary, path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def _swap(new: Path, path: Path) -> None:
    """Gives `new` the name `path`; a folder cannot be replaced in one step, so the old one steps aside first."""
    if not path.exists():
        os.replace(new, path)
        return
    old = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part"))
    os.replace(path, old)
    try:
        os.replace(new, path)
    except BaseException:
        os.replace(old, path)
        raise
    shutil.rmtree(old)


def is_leftover(path: Path) -> bool:
    """Whether a killed process had begun to write this."""
    return path.name.startswith(".") and path.name.endswith(".part")


def sweep_leftovers(folder: Path) -> None:
    """Removes what a killed process had begun to write in `folder` or below."""
    for leftover in filter(is_leftover, list(folder.rglob("*.part"))):
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


@contextmanager
def explain_full_disk(path: Path) -> Iterator[None]:
    """Turns the errors of a disk that is full, or of a place that cannot be written to, into a sentence.

    Raises:
        RunError: no space is left, a quota is used up, or the place is not for writing.
    """
    try:
        yield
    except Exception as error:
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or "No space left" in str(error):
            raise RunError(
                f"the disk is full: {path} could not be written, and nothing half-written was left; "
                "free some space and run the same command again, it goes on from the last checkpoint"
            ) from error
        if isinstance(error, OSError) and error.errno in BARRED:
            raise RunError(f"{path} cannot be written ({error.strerror}); choose another place") from error
        raise
