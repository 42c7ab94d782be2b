"""From token sequences to a batch for a language model: special tokens, masks, pairs, padding.

Which tokens are hidden depends only on the seed, the epoch and the sequence, not on the batch that it is in or on where a run was
resumed. For evaluation each sequence has one mask, always the same.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from transformers import BatchEncoding

from plankwise.data.encode import ROW
from plankwise.data.sequences import Frame, frame_of
from plankwise.models.language import PAIR

Aim = Literal["mlm", "mlm+nsp", "mlm+sop", "clm"]
IGNORED = -100  # the label of a token that is not predicted, as everywhere in transformers
EVALUATION = 2**31  # in place of the epoch
TRIES = 20  # draws of a sequence before one of the same text is accepted


@dataclass(frozen=True)
class Masking:
    """What is hidden of a text: `share` of its tokens, of which 80 % become [MASK], 10 % a random token, 10 % stay."""

    share: float = 0.15
    whole_words: bool = False
    seed: int = 0


@dataclass(frozen=True)
class Batcher:
    """Makes batches of sequences for one objective."""

    tokenizer: Any
    objective: Aim
    masking: Masking
    length: int  # tokens of a sequence at most, special ones included
    sequences: Any = None  # all of them, where a second part may come from another text
    epoch: Callable[[], int] | None = None  # none: for evaluation
    frame: Frame = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "frame", frame_of(self.tokenizer))
        special = np.zeros(len(self.tokenizer), dtype=bool)
        special[self.tokenizer.all_special_ids] = True
        object.__setattr__(self, "_special", special)
        object.__setattr__(self, "_words", np.flatnonzero(~special))

    def __call__(self, sequences: list[dict]) -> BatchEncoding:
        """The model's inputs and labels; each sequence has the columns of `data.sequences` and its `row`."""
        made = [self._make(sequence) for sequence in sequences]
        batch = _inputs(self.tokenizer, [item[0] for item in made], [item[2] for item in made])
        batch["labels"] = _pad([item[1] for item in made], IGNORED)
        if "+" in self.objective:
            batch[PAIR] = torch.tensor([item[3] for item in made])
        batch[ROW] = torch.tensor([sequence[ROW] for sequence in sequences])
        return batch

    def hide(self, ids: np.ndarray, row: int) -> tuple[np.ndarray, np.ndarray]:
        """A text's token ids, special ones among them, with some hidden; and the labels. For `mlm`."""
        chance = np.random.default_rng([self.masking.seed, EVALUATION if self.epoch is None else self.epoch(), row])
        hidden = self._choose(ids, np.ones(len(ids), dtype=bool), chance)
        return self._hide(ids, hidden, chance), np.where(hidden, ids, IGNORED)

    def _make(self, sequence: dict) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        """Token ids, labels, token types, and whether the second part does not follow the first."""
        epoch = EVALUATION if self.epoch is None else self.epoch()
        chance = np.random.default_rng([self.masking.seed, epoch, sequence[ROW]])
        parts, other = self._parts(sequence, chance)
        ids, starts, types = _framed(self.frame, parts)
        if self.objective == "clm":
            return ids, ids, types, other
        hidden = self._choose(ids, starts, chance)
        labels = np.where(hidden, ids, IGNORED)
        return self._hide(ids, hidden, chance), labels, types, other

    def _parts(self, sequence: dict, chance: np.random.Generator) -> tuple[list["Part"], int]:
        """One part, or two, each as token ids and word starts; and whether the second does not follow the first."""
        first, second = _split(sequence)
        if second is None:
            return [first], 0
        other = int(chance.random() < 0.5)
        if not other:
            return [first, second], 0
        if self.objective == "mlm+sop":
            return [second, first], 1
        for _ in range(TRIES):
            drawn = self.sequences[int(chance.integers(len(self.sequences)))]
            if drawn["text"] != sequence["text"]:
                break
        _, foreign = _split(drawn)
        assert foreign is not None
        frame = self.frame
        room = self.length - len(first[0]) - len(frame.prefix) - len(frame.middle) - len(frame.suffix)
        return [first, (foreign[0][:room], foreign[1][:room])], 1

    def _choose(self, ids: np.ndarray, starts: np.ndarray, chance: np.random.Generator) -> np.ndarray:
        """Which tokens are to be predicted: `share` of those that are not special, and at least one."""
        open_to = ~self._special[ids]  # type: ignore[attr-defined]
        count = max(1, round(self.masking.share * int(open_to.sum())))
        chosen = np.zeros(len(ids), dtype=bool)
        if not self.masking.whole_words:
            candidates = np.flatnonzero(open_to)
            chosen[chance.permutation(candidates)[:count]] = True
            return chosen
        words = np.cumsum(starts | ~open_to)
        for word in chance.permutation(np.unique(words[open_to])):
            inside = open_to & (words == word)
            if chosen.sum() + inside.sum() <= count or not chosen.any():
                chosen |= inside
            if chosen.sum() >= count:
                break
        return chosen

    def _hide(self, ids: np.ndarray, hidden: np.ndarray, chance: np.random.Generator) -> np.ndarray:
        fate = chance.random(len(ids))
        drawn = chance.choice(self._words, len(ids))  # type: ignore[attr-defined]
        ids = np.where(hidden & (fate < 0.8), self.tokenizer.mask_token_id, ids)
        return np.where(hidden & (fate >= 0.9), drawn, ids)


def pad_sequences(tokenizer: Any, frame: Frame, sequences: list[dict]) -> BatchEncoding:
    """The sequences as they are, as a model's inputs; a pair's second part follows its first."""
    made = [_framed(frame, [part for part in _split(sequence) if part is not None]) for sequence in sequences]
    batch = _inputs(tokenizer, [ids for ids, _, _ in made], [types for _, _, types in made])
    if ROW in sequences[0]:
        batch[ROW] = torch.tensor([sequence[ROW] for sequence in sequences])
    return batch


Part = tuple[np.ndarray, np.ndarray]  # token ids, and whether each begins a word


def _framed(frame: Frame, parts: list[Part]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Token ids with the special tokens around them, whether each begins a word, and its token type."""
    pieces: list[tuple[Any, Any, int]] = [(frame.prefix, True, 0), (*parts[0], 0)]
    if len(parts) == 2:
        pieces += [(frame.middle, True, 0), (*parts[1], 1)]
    pieces.append((frame.suffix, True, len(parts) - 1))
    ids = np.concatenate([np.asarray(ids, np.int64) for ids, _, _ in pieces])
    starts = np.concatenate([np.broadcast_to(starts, len(ids)) for ids, starts, _ in pieces]).astype(bool)
    types = np.concatenate([np.full(len(ids), kind) for ids, _, kind in pieces])
    return ids, starts, types


def _inputs(tokenizer: Any, ids: list[np.ndarray], types: list[np.ndarray]) -> BatchEncoding:
    batch = {
        "input_ids": _pad(ids, tokenizer.pad_token_id),
        "attention_mask": _pad([np.ones_like(row) for row in ids], 0),
    }
    if "token_type_ids" in tokenizer.model_input_names:
        batch["token_type_ids"] = _pad(types, 0)
    return BatchEncoding(batch)


def _split(sequence: dict) -> tuple[Part, Part | None]:
    ids, starts = np.asarray(sequence["input_ids"], np.int64), np.asarray(sequence["starts"], bool)
    if "cut" not in sequence:
        return (ids, starts), None
    cut = sequence["cut"]
    return (ids[:cut], starts[:cut]), (ids[cut:], starts[cut:])


def _pad(rows: list[np.ndarray], filling: int) -> torch.Tensor:
    width = max(map(len, rows))
    padded = np.full((len(rows), width), filling, dtype=np.int64)
    for row, values in zip(padded, rows, strict=True):
        row[: len(values)] = values
    return torch.from_numpy(padded)
