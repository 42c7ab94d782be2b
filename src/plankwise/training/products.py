"""Products of float32 matrices on the CPU by oneDNN, where torch's own choice leaves half of the processor's speed unused.

torch hands them to MKL, which on processors that are not Intel's does not use the widest registers. oneDNN, which torch also has,
does: on an AMD EPYC with AVX-512 a block's forward and backward pass is 1.7 to 1.9 times as fast (`benchmarks/products.py`).
torch asks oneDNN once float32 products are allowed to be less exact; whether they then are is tried out, and only where they are
not is it done. Attention is computed by its formula meanwhile: torch's fused kernel calls oneDNN for each small block, which is
slower.

What is measured for users (latency, speed-ups) runs as torch runs it.
"""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from plankwise.training.processor import is_intel

CPU = torch.device("cpu")
WIDTH = 256  # of the products that are tried out
EXACT = 1e-5  # error that float32 may have there, relative to the largest number


@contextmanager
def fast_products(switch: Literal["auto"] | bool = "auto", device: torch.device = CPU) -> Iterator[None]:
    """While open, float32 products on the CPU are oneDNN's; "auto": where they are as exact as torch's own, and faster.

    On other devices nothing changes.
    """
    if device.type != "cpu" or not (is_faster() if switch == "auto" else switch):
        yield
        return
    with sdpa_kernel(SDPBackend.MATH), _by_onednn():
        yield


@functools.cache
def is_faster() -> bool:
    """Whether oneDNN is worth asking here: by its processor, not by a clock, so that a resumed run does the same."""
    widest = torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    return widest and not is_intel() and _settings() is not None and _is_exact()


def _is_exact() -> bool:
    generator = torch.Generator().manual_seed(0)
    one, other = (torch.randn(WIDTH, WIDTH, generator=generator) for _ in range(2))
    expected = one.double() @ other.double()
    with _by_onednn():
        return bool((one @ other - expected).abs().max() <= EXACT * expected.abs().max())


@contextmanager
def _by_onednn() -> Iterator[None]:
    settings = _settings()
    if settings is None:
        yield
        return
    before = settings.fp32_precision
    settings.fp32_precision = "bf16"
    try:
        yield
    finally:
        settings.fp32_precision = before


def _settings() -> Any:
    """torch's switch for float32 products of oneDNN; None where this version has none."""
    found = getattr(torch.backends.mkldnn, "matmul", None)
    return found if hasattr(found, "fp32_precision") else None
