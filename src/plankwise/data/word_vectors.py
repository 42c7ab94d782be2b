"""Vectors of words, by which the words nearest to a word are found: from a text file, or from a model's embeddings of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from plankwise.errors import DataError

CHUNK = 256  # words whose neighbours are looked for together
KEY = "method.augmentation.vectors"


class WordVectors:
    """Words with vectors of length 1."""

    def __init__(self, words: Sequence[str], vectors: np.ndarray) -> None:
        lengths = np.linalg.norm(vectors, axis=1)
        some = np.flatnonzero(lengths)
        self.words = [words[place] for place in some.tolist()]
        self.vectors = (vectors[some] / lengths[some, None]).astype(np.float32)
        self.places = {word: place for place, word in enumerate(self.words)}

    def nearest(self, words: Sequence[str], most: int) -> list[list[str]]:
        """For each word, at most so many others by the angle between vectors, the nearest first; none of a word without one.

        A word is no neighbour of itself, whatever the case of its letters, and none is in a list twice.
        """
        places = [self.places.get(word, self.places.get(word.lower())) for word in words]
        known = [(row, place) for row, place in enumerate(places) if place is not None]
        found: list[list[str]] = [[] for _ in words]
        for start in range(0, len(known), CHUNK):
            some = known[start : start + CHUNK]
            likeness = self.vectors[[place for _, place in some]] @ self.vectors.T
            for (row, _), one in zip(some, likeness, strict=True):
                found[row] = different(words[row], (self.words[place] for place in _largest(one, 3 * most)), most)
        return found


def _largest(values: np.ndarray, most: int) -> np.ndarray:
    """The places of the largest values, the largest first; of equal ones the first."""
    some = np.arange(len(values))
    if most < len(values):
        some = np.flatnonzero(values >= np.partition(values, -most)[-most])
    return some[np.argsort(-values[some], kind="stable")][:most]


def different(word: str, others: Any, most: int) -> list[str]:
    """The first so many words that differ from the word, and from each other, in more than the case of letters."""
    seen, kept = {word.casefold()}, []
    for other in others:
        key = other.casefold()
        if key not in seen:
            seen.add(key)
            kept.append(other)
            if len(kept) == most:
                break
    return kept


def mean_of_tokens(words: Sequence[str], tokenizer: Any, embeddings: np.ndarray) -> WordVectors:
    """Words by the mean of their tokens' rows in a table; a word that the tokenizer does not know is left out."""
    if not words:
        return WordVectors([], np.zeros((0, embeddings.shape[1]), np.float32))
    encoded = tokenizer([f" {word}" for word in words], add_special_tokens=False)["input_ids"]
    known = [(word, ids) for word, ids in zip(words, encoded, strict=True) if ids and tokenizer.unk_token_id not in ids]
    means = np.array([embeddings[ids].mean(0) for _, ids in known], np.float32).reshape(-1, embeddings.shape[1])
    return WordVectors([word for word, _ in known], means)


def read_vectors(path: str) -> WordVectors:
    """The vectors in a text file with a word and its numbers on each line; words of more than letters are left out.

    Raises:
        DataError: the file cannot be read, or a line is something else.
    """
    words: list[str] = []
    rows: list[np.ndarray] = []
    width = None
    try:
        with Path(path).expanduser().open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                word, _, numbers = line.strip().partition(" ")
                if (
                    number == 1 and word.isdigit() and numbers.isdigit()
                ):  # how many there are, as some programs write it
                    continue
                if not word.isalpha():
                    continue
                row = _parse(numbers)
                if row is None and width is not None and _parse(" ".join(line.split()[-width:])) is not None:
                    continue  # published files have tokens with blanks in them
                if row is None or (width is not None and len(row) != width):
                    expected = "numbers" if width is None else f"{width} numbers, as before,"
                    raise DataError(
                        f"{KEY} is {path}, where line {number} has no {expected} after the word; give a text file with a word and "
                        "its numbers on each line, with spaces between them"
                    )
                width = len(row)
                words.append(word)
                rows.append(row)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{KEY} is {path}, which cannot be read ({error}); give a utf-8 text file") from None
    if not rows:
        raise DataError(
            f"{KEY} is {path}, which has no words; give a text file with a word and its numbers on each line"
        )
    return WordVectors(words, np.array(rows))


def _parse(numbers: str) -> np.ndarray | None:
    try:
        row = np.array(numbers.split(), np.float32)
    except ValueError:
        return None
    return row if len(row) and np.isfinite(row).all() else None
