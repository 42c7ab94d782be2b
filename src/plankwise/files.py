"""Whatever is written is written whole or not at all: a temporary name beside the target, then a rename."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from plankwise.errors import RunError


def write_text(path: Path, text: str) -> None:
    """Writes a file that no reader ever sees half of.

    Raises:
        RunError: the disk is full.
    """
    with explain_full_disk(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Gives a temporary folder to fill; it takes the name `path` when all of it has been written.

    Raises:
        RunError: the disk is full.
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
            if path.exists():
                old = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part"))
                os.replace(path, old)
                os.replace(temporary, path)
                shutil.rmtree(old)
            else:
                os.replace(temporary, path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def sweep_leftovers(folder: Path) -> None:
    """Removes what a killed process had begun to write in `folder` or below."""
    for leftover in list(folder.rglob(".*.part")):
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


@contextmanager
def explain_full_disk(path: Path) -> Iterator[None]:
    """Turns the errors of a full disk into a sentence.

    Raises:
        RunError: no space is left, or a quota is used up.
    """
    try:
        yield
    except Exception as error:
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or "No space left" in str(error):
            raise RunError(
                f"the disk is full: {path} could not be written, and nothing half-written was left; "
                "free some space and run the same command again, it goes on from the last checkpoint"
            ) from error
        raise
