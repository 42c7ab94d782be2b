"""The tokens of texts from the tokens of their words: each different word is tokenised only once in a chunk of texts.

Only for single texts, and for tokenizers that look at one word at a time, as BERT's do: the tokens of "a b" are then those of "a"
and those of "b", with the special ones around them. Without this, `benchmarks/many_rows.py` takes more than twice as long.
"""

import itertools
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

NORMALIZERS = (None, "BertNormalizer", "Lowercase")
PRE_TOKENIZERS = ("BertPreTokenizer", "Whitespace", "WhitespaceSplit")
MODELS = ("WordPiece", "WordLevel")
PROCESSORS = (None, "TemplateProcessing", "BertProcessing")


@dataclass(frozen=True)
class Words:
    """A backend that works word by word, and what it puts around a text."""

    backend: Any
    prefix: np.ndarray
    suffix: np.ndarray
    room: int  # tokens of a text that are kept

    def encode(self, texts: pa.Array) -> tuple[pa.ListArray, np.ndarray]:
        """Each text's token ids, and whether it lost its end."""
        split = pc.split_pattern(texts, " ")
        words = split.flatten().dictionary_encode()
        encodings = self.backend.encode_batch(words.dictionary.to_pylist(), add_special_tokens=False)
        known = np.fromiter(map(len, encodings), np.int64, len(encodings))
        pieces = np.fromiter(itertools.chain.from_iterable(item.ids for item in encodings), np.int32, int(known.sum()))

        which = words.indices.to_numpy()
        sizes = known[which]
        content = _sum_runs(sizes, pc.list_value_length(split).to_numpy())
        places = _spread(np.cumsum(known)[which] - sizes, sizes)
        kept = np.minimum(content, self.room)
        ids = pieces[places[_ramp(content) < np.repeat(kept, content)]]
        return self._frame(ids, kept), content > kept

    def _frame(self, ids: np.ndarray, kept: np.ndarray) -> pa.ListArray:
        """The texts' ids, given one text after another, with the special ones around each text."""
        before, after = len(self.prefix), len(self.suffix)
        bounds = np.zeros(len(kept) + 1, dtype=np.int32)
        np.cumsum(kept + before + after, out=bounds[1:])
        framed = np.empty(bounds[-1], dtype=np.int32)
        framed[_spread(bounds[:-1] + before, kept)] = ids
        framed[bounds[:-1, None] + np.arange(before)] = self.prefix
        framed[bounds[1:, None] - after + np.arange(after)] = self.suffix
        return pa.ListArray.from_arrays(pa.array(bounds), pa.array(framed))


def find_words(backend: Any, max_length: int, probe: Any) -> Words | None:
    """The backend as one that works word by word, if it is; `probe` is its encoding of any single text, special tokens included."""
    parts = json.loads(backend.to_str())
    kinds = {
        name: parts[name] and parts[name]["type"] for name in ("normalizer", "pre_tokenizer", "model", "post_processor")
    }
    word_by_word = (
        kinds["normalizer"] in NORMALIZERS
        and kinds["pre_tokenizer"] in PRE_TOKENIZERS
        and kinds["model"] in MODELS
        and kinds["post_processor"] in PROCESSORS
        and all(_within_a_word(token) for token in parts["added_tokens"])
        and parts["truncation"]["direction"] == "Right"
    )
    own = [place for place, sequence in enumerate(probe.sequence_ids) if sequence is not None]
    room = max_length - (len(probe.ids) - len(own))
    if not word_by_word or not own or room < 1:
        return None
    ids = np.array(probe.ids, dtype=np.int32)
    return Words(backend, ids[: own[0]], ids[own[-1] + 1 :], room)


def _within_a_word(token: dict) -> bool:
    """Whether an added token contains no white space, removes none, and does not depend on what is beside it."""
    plain = not any(token[name] for name in ("lstrip", "rstrip", "single_word"))
    return plain and not any(character.isspace() for character in token["content"])


def _sum_runs(values: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The sums of consecutive runs of values, whose lengths are `sizes`."""
    sums = np.concatenate([[0], np.cumsum(values)])
    ends = np.cumsum(sizes)
    return sums[ends] - sums[ends - sizes]


def _ramp(sizes: np.ndarray) -> np.ndarray:
    """0, 1, 2 and so on up to each size."""
    ends = np.cumsum(sizes, dtype=np.int64)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - sizes, sizes)


def _spread(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The places of runs that begin at `starts`, one run after another."""
    return np.repeat(starts, sizes) + _ramp(sizes)
