"""What this machine's CPU can do with int8."""

import platform
from pathlib import Path

CPU_INFO = Path("/proc/cpuinfo")
SAFE = ("avx512_vnni", "avx_vnni", "avx512vnni", "avxvnni", "amx_int8")


def has_vnni() -> bool:
    """Whether products of 8-bit numbers are added up without overflow; False where the system does not say.

    Without VNNI, x86 adds pairs of products in 16 bits, which overflow, so that weights may only have 7. ARM has no such step.
    """
    if platform.machine().lower() in ("aarch64", "arm64"):
        return True
    try:
        words = CPU_INFO.read_text("utf-8").split()
    except OSError:
        return False
    return any(flag in words for flag in SAFE)
