"""What a run leaves behind, to and from JSON: every measurement, versions, machine, seed, wall time."""

import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from plankwise.errors import RunError
from plankwise.files import write_text

FILE = "record.json"
PACKAGES = ("plankwise", "torch", "transformers", "accelerate", "datasets", "tokenizers", "numpy", "scikit-learn")


def describe_machine() -> dict:
    """Where the figures were measured."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def write_record(folder: Path, record: dict) -> None:
    write_text(folder / FILE, json.dumps(record, indent=2, ensure_ascii=False))


def read_record(folder: Path) -> dict:
    """The record of a finished run.

    Raises:
        RunError: there is none, or it cannot be read.
    """
    try:
        return json.loads((folder / FILE).read_text("utf-8"))
    except FileNotFoundError:
        raise RunError(
            f"{folder} has no {FILE}: it is no finished run; run `plankwise compress` to finish it"
        ) from None
    except (OSError, ValueError) as error:
        raise RunError(f"{folder / FILE} cannot be read ({error}); delete it and run the same command again") from None
