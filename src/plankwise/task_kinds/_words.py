"""Words and the pieces that a tokenizer makes of them: tags stand at first pieces."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import Dataset

from plankwise.data.batch import sorted_batches
from plankwise.data.encode import Encoded
from plankwise.data.masking import IGNORED
from plankwise.errors import ConfigError
from plankwise.runtimes import Predictor


@dataclass(frozen=True)
class Pieces:
    """Texts of words, encoded: `labels` has each word's tag at its first piece, and IGNORED elsewhere."""

    encoded: Encoded
    words: list[list[int]]  # of each text, the words that have pieces, in their order
    counts: list[int]  # of each text, all of its words


def encode_words(
    texts: Sequence[Sequence[str]], tags: Sequence[Sequence[int]], tokenizer: Any, max_length: int
) -> Pieces:
    """Texts as token ids, at most `max_length` of them.

    Raises:
        ConfigError: the tokenizer does not say which piece is of which word.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise ConfigError(
            f"{type(tokenizer).__name__} does not say which of its pieces belong to which word; use a model that has a "
            "tokenizer.json"
        )
    _divide_words(tokenizer)
    given = [list(words) for words in texts]
    whole = tokenizer(given, is_split_into_words=True, verbose=False)["input_ids"]
    tokens = tokenizer(given, is_split_into_words=True, truncation=True, max_length=max_length)
    ids = tokens["input_ids"]
    firsts = [_first_pieces(tokens.word_ids(row)) for row in range(len(given))]
    labels = [
        [IGNORED if word is None else some[word] for word in words] for words, some in zip(firsts, tags, strict=True)
    ]
    num_cut = sum(len(some) < len(all_of_it) for some, all_of_it in zip(ids, whole, strict=True))
    dataset = Dataset.from_dict({"input_ids": ids, "labels": labels})
    encoded = Encoded(dataset, np.array([len(row) for row in ids]), num_cut)
    words = [[word for word in row if word is not None] for row in firsts]
    return Pieces(encoded, words, [len(some) for some in given])


def _divide_words(tokenizer: Any) -> None:
    """Lets a tokenizer of bytes (RoBERTa's, ModernBERT's) see a blank before each word, without which words run into each other."""
    before = tokenizer.backend_tokenizer.pre_tokenizer
    if getattr(before, "add_prefix_space", True) is False:
        before.add_prefix_space = True
        tokenizer.add_prefix_space = True  # what is saved beside the successor


def _first_pieces(words: list[int | None]) -> list[int | None]:
    """For each token the word whose first piece it is, or None."""
    return [None if word == before else word for word, before in zip(words, [None, *words[:-1]], strict=True)]


def tag_words(predictor: Predictor, pieces: Pieces, tokenizer: Any, batch_size: int, *, otherwise: int) -> np.ndarray:
    """The class that a model gives each word, (texts, words); IGNORED behind a text's last word.

    `otherwise`: of a word without pieces, because it was cut off or the tokenizer drops it.
    """
    found = np.full((len(pieces.counts), max(pieces.counts)), IGNORED)
    for row, count in zip(found, pieces.counts, strict=True):
        row[:count] = otherwise
    labels = pieces.encoded.dataset["labels"]
    for rows, batch in sorted_batches(pieces.encoded, tokenizer, batch_size):
        predicted = predictor(batch)["logits"].argmax(-1).cpu().numpy()
        for row, tags in zip(rows.tolist(), predicted, strict=True):
            own = np.array(labels[row])
            # Where padding stands on the left, the text's own tokens are the last ones.
            tags = tags[-len(own) :] if tokenizer.padding_side == "left" else tags[: len(own)]
            found[row, pieces.words[row]] = tags[own != IGNORED]
    return found
