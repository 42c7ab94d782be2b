"""When a text leaves a model with early exits: once its answer has been the same for long enough; numpy alone, for any runtime."""

from typing import Any

from plankwise.errors import ConfigError


class Patience:
    """Counts for each text how often in a row its answer was the same as the one before; logits are numpy's or torch's."""

    def __init__(self, patience: int, tolerance: float) -> None:
        self.patience, self.tolerance = patience, tolerance
        self.answers: list[float] = []
        self.counts: list[int] = []

    def leaving(self, logits: Any) -> list[bool]:
        """Whether each text leaves, given the next head's logits (B, C)."""
        number = logits.shape[-1] == 1
        answers = (logits[:, 0] if number else logits.argmax(-1)).tolist()
        if not self.answers:
            self.counts = [0] * len(answers)
        else:
            pairs = zip(self.answers, answers, self.counts, strict=True)
            self.counts = [
                count + 1 if (abs(old - new) < self.tolerance if number else old == new) else 0
                for old, new, count in pairs
            ]
        self.answers = answers
        return [count >= self.patience for count in self.counts]

    def keep(self, rows: list[int]) -> None:
        """Forgets all texts but those."""
        self.answers = [self.answers[row] for row in rows]
        self.counts = [self.counts[row] for row in rows]


def exit_blocks(logits: Any, patience: int, tolerance: float) -> list[int]:
    """After which block, from 1, each text leaves whose heads answer these logits (B, blocks, C)."""
    counting, last = Patience(patience, tolerance), logits.shape[1]
    blocks = [last] * len(logits)
    for block in range(1, last):
        leaving = counting.leaving(logits[:, block - 1])
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
