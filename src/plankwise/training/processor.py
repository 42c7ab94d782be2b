"""Whose processor this is: MKL, which torch computes with, is at its best on Intel's alone."""

import functools
from pathlib import Path


@functools.cache
def is_intel() -> bool:
    """Whether MKL is at its best here; True where the system does not say."""
    try:
        return "GenuineIntel" in Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        return True
