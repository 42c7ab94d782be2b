"""Whatever is written is written whole or not at all: a temporary name beside the target, then a rename.

What is read back as JSON goes through `read_json`, or `read_as` where a class says what there must be: whatever is wrong with a
file is one sentence.
"""

import errno
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from plankwise.errors import RunError

Kind = TypeVar("Kind")
AGAIN = "delete it and run the same command again"
LONGEST_NUMBER = 300  # digits: what is longer is larger than any float
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
BARRED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)


def write_text(path: Path, text: str) -> None:
    """Writes a file that no reader ever sees half of.

    Raises:
        RunError: the disk is full, or the place is not for writing.
    """
    with whole_file(path) as part:
        part.write_text(text, "utf-8")


def read_json(path: Path, remedy: str = AGAIN) -> dict[str, Any]:
    """The JSON object in a file; `remedy` says in errors what to do about it.

    Raises:
        RunError: the file is not there, not JSON, or not an object; says which.
    """
    try:
        return _parse(path.read_text("utf-8"))
    except OSError as error:
        fault = error.strerror or str(error)
    except UnicodeDecodeError as error:
        fault = f"it is not utf-8 at byte {error.start}"
    except UnicodeEncodeError:
        fault = "it has half of a character that JSON writes as two (a surrogate)"
    except RecursionError:
        fault = "it is nested too deeply"
    except ValueError as error:
        fault = str(error)
    raise RunError(f"{path} cannot be read ({fault}); {remedy}")


def _parse(text: str) -> dict[str, Any]:
    if re.search(rf"\d{{{LONGEST_NUMBER + 1}}}", text):
        raise ValueError(f"it has a number of more than {LONGEST_NUMBER} digits")
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error}" if text.strip() else "it is empty") from None
    if not isinstance(data, dict):
        raise ValueError(f"it holds {type(data).__name__}, not an object with keys")
    if "\\ud" in text.lower():
        json.dumps(data, ensure_ascii=False).encode("utf-8")
    return data


def read_as(path: Path, kind: type[Kind], remedy: str = AGAIN) -> Kind:
    """The JSON object in a file as a dataclass, each of whose fields is there with a value of its type; others are left out.

    Raises:
        RunError: the file cannot be read, or a field is missing or of another type; says which.
    """
    from pydantic import TypeAdapter, ValidationError

    data = read_json(path, remedy)
    try:
        return TypeAdapter(kind).validate_python(data)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(step) for step in first["loc"])
        raise RunError(f"{path} cannot be read ({key}: {first['msg'].lower()}); {remedy}") from None


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
        number = _number_of(error)
        if number in FULL or "No space left" in str(error):
            raise RunError(
                f"the disk is full: {path} could not be written, and nothing half-written was left; "
                "free some space and run the same command again, it goes on from the last checkpoint"
            ) from error
        if number in BARRED:
            raise RunError(f"{path} cannot be written ({os.strerror(number)}); choose another place") from error
        raise


def _number_of(error: Exception) -> int | None:
    """The system's number of an error; safetensors has it in the text alone."""
    if isinstance(error, OSError):
        return error.errno
    found = re.search(r"\(os error ([0-9]+)\)", str(error))
    return int(found[1]) if found else None
