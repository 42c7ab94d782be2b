"""When a text leaves a model with early exits: once its answer has been the same for long enough; for any runtime."""

from typing import Any

from plankwise.errors import ConfigError


# The types are quoted since exports hold this function's text, in a predict.py that has numpy alone.
def count_same(counts: "Any", logits: "Any", before: "Any", tolerance: float) -> "Any":
    """How often in a row each text's answer was the same, (B,), given a head's logits (B, C) and the one before's."""
    if logits.shape[-1] == 1:
        return (counts + 1) * (abs(logits - before)[:, 0] < tolerance)
    return (counts + 1) * (logits.argmax(-1) == before.argmax(-1))


def exit_blocks(logits: Any, patience: int, tolerance: float) -> list[int]:
    """After which block, from 1, each text leaves whose heads answer these logits (B, blocks, C)."""
    last = logits.shape[1]
    blocks, counts = [last] * len(logits), 0
    for block in range(2, last):
        counts = count_same(counts, logits[:, block - 1], logits[:, block - 2], tolerance)
        leaving = (counts >= patience).tolist()
        blocks = [min(found, block) if leaves else found for leaves, found in zip(leaving, blocks, strict=True)]
    return blocks


def check_patience(value: Any) -> int:
    """A patience that counts.

    Raises:
        ConfigError: it is not a whole number of 1 or more.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(
            f"patience is {value!r}; give a whole number of 1 or more: how many answers in a row have to be the same"
        )
    return value
