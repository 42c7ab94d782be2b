"""Matrices in 2, 3, 4 or 8 bits a weight: what rounds them while a model is trained, and how they are stored.

Rows of a matrix (N, M) that form a group share a scale s; a weight is s times an integer from −(2^(b−1) − 1) to 2^(b−1) − 1. Scales
have the 8 significant bits of bfloat16, so that their products with integers are exact in float32: scales and integers are found
again from the rounded matrix. So a model in memory is one of plain float32 matrices, and packing is a matter of its files:

    NAME.codes    uint8 (N, b·⌈M / 8⌉): integers, made positive, eight of a row in b bytes, the first in the lowest bits
    NAME.scales   bfloat16, one for each group of rows
    NAME.form     int32: b, rows in a group, N, M

Only what comes back to the bit is packed: a matrix that was trained further after it was rounded is stored as it is.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

BITS = (2, 3, 4, 8)
EIGHT, WORD = 8, np.dtype("<u4")  # so many integers of 4 bits at most make a word
CODES, SCALES, FORM = ".codes", ".scales", ".form"
# Step between values, in root mean squares of a group, that errs least on the matrices of a trained encoder; the largest weights
# are cut off by it. With 8 bits none is.
STEPS = {2: 1.25, 3: 0.7, 4: 0.4}


def largest_code(bits: int) -> int:
    """The largest integer that a weight becomes."""
    return 2 ** (bits - 1) - 1


def round_matrix(weight: torch.Tensor, bits: int, rows: int, *, cut: bool) -> torch.Tensor:
    """A matrix (N, M) rounded to so many bits; each group of `rows` rows has a scale. Gradients pass as if it were not rounded.

    `cut`: the scale errs least on the group as a whole, and larger weights are cut off; else it is that of the largest weight.
    """
    values = weight.float()
    scales = _by_row(_scales(values.detach(), bits, rows, cut=cut), rows, len(values))
    rounded: torch.Tensor = _Straight.apply(values, scales, largest_code(bits))
    return rounded.to(weight.dtype)


class _Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, scales: torch.Tensor, largest: int) -> torch.Tensor:
        return _codes(values, scales, largest).mul_(scales)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:  # type: ignore[override]
        return gradient, None, None


def _codes(values: torch.Tensor, scales: torch.Tensor, largest: int) -> torch.Tensor:
    """Integers, none of them the 0 below zero, which is not stored."""
    return (values / scales).round_().clamp_(-largest, largest).add_(0.0)


def _scales(values: torch.Tensor, bits: int, rows: int, *, cut: bool) -> torch.Tensor:
    """One for each group of rows of a float32 matrix; of zeros alone 1."""
    scales = _by_group(values.abs().amax(1), rows).amax(1) / largest_code(bits)
    if cut and bits in STEPS:
        squares = _by_group(values.square().sum(1), rows).sum(1)
        weights = _by_group(torch.full_like(values[:, 0], values.shape[1]), rows).sum(1)
        scales = torch.minimum(scales, STEPS[bits] * (squares / weights).sqrt())
    scales = scales.bfloat16().float()
    return torch.where(scales < torch.finfo(torch.float32).tiny, 1.0, scales)


def _by_group(values: torch.Tensor, rows: int) -> torch.Tensor:
    """Values (N) of rows as (groups, rows); zeros fill the last group."""
    return torch.nn.functional.pad(values, (0, -len(values) % rows)).view(-1, rows)


def _by_row(scales: torch.Tensor, rows: int, height: int) -> torch.Tensor:
    """The scales of groups as a column (N, 1)."""
    return scales.repeat_interleave(rows)[:height, None]


def pack(weight: torch.Tensor, bits: int, rows: int) -> dict[str, torch.Tensor] | None:
    """What is stored of a matrix, by the end of its name; None if it does not come back from that to the bit."""
    if weight.dtype != torch.float32 or weight.dim() != 2:
        return None
    values, largest = weight.detach().cpu(), largest_code(bits)
    scales = _scales(values, bits, rows, cut=False)
    codes = _codes(values, _by_row(scales, rows, len(values)), largest) + largest
    packed = {
        CODES: torch.from_numpy(pack_codes(codes.to(torch.uint8).numpy(), bits)),
        SCALES: scales.bfloat16(),
        FORM: torch.tensor([bits, rows, *values.shape], dtype=torch.int32),
    }
    return packed if torch.equal(unpack(packed), values) else None


def unpack(packed: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The matrix that `pack` was given."""
    bits, rows, height, width = packed[FORM].tolist()
    codes = torch.from_numpy(unpack_codes(packed[CODES].numpy(), bits, width)).float() - largest_code(bits)
    return codes * _by_row(packed[SCALES].float(), rows, height)


def pack_codes(codes: np.ndarray, bits: int) -> np.ndarray:
    """Integers (N, M) from 0 to 2^bits − 1 as bytes (N, bits · ⌈M / 8⌉)."""
    if bits == 8:
        return codes
    eights = np.pad(codes, ((0, 0), (0, -codes.shape[1] % EIGHT))).reshape(len(codes), -1, EIGHT)
    words = np.zeros(eights.shape[:2], WORD)
    for place in range(EIGHT):
        words |= eights[..., place].astype(WORD) << (bits * place)
    return words[..., None].view(np.uint8)[..., :bits].reshape(len(codes), -1)


def unpack_codes(stored: np.ndarray, bits: int, width: int) -> np.ndarray:
    """The integers (N, width) that `pack_codes` was given."""
    if bits == 8:
        return stored
    eights = stored.reshape(len(stored), -1, bits)
    words = np.pad(eights, ((0, 0), (0, 0), (0, 4 - bits))).view(WORD)[..., 0]
    found = np.empty((*words.shape, EIGHT), np.uint8)
    for place in range(EIGHT):
        found[..., place] = words >> (bits * place) & (2**bits - 1)
    return found.reshape(len(stored), -1)[:, :width]


def pack_state(state: Mapping[str, torch.Tensor], forms: Mapping[str, tuple[int, int]]) -> dict[str, torch.Tensor]:
    """A model's tensors as they are stored; `forms`: bits and rows in a group of the matrices to pack, by name."""
    stored: dict[str, torch.Tensor] = {}
    for name, value in state.items():
        packed = pack(value, *forms[name]) if name in forms else None
        stored |= {name: value} if packed is None else {name + end: part for end, part in packed.items()}
    return stored


def unpack_state(stored: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors of a model from what is stored of them, by name."""
    state: dict[str, torch.Tensor] = {}
    for key, value in stored.items():
        name, dot, end = key.rpartition(".")
        if f"{name}{FORM}" not in stored or dot + end not in (CODES, SCALES, FORM):
            state[key] = value
        elif dot + end == CODES:
            state[name] = unpack({part: stored[name + part] for part in (CODES, SCALES, FORM)})
    return state
