"""Changed copies of texts (TinyBERT's Algorithm 1, arXiv:1909.10351): some words replaced by others that may stand there.

A word that is one token of a masked language model may be replaced by the words that the model finds most likely in its place; a
word of several tokens by the nearest ones by word vectors. What may stand where is found once for each text; copies are drawn
from that, each word by itself.

Unlike the published code: the model does not see the hidden word in a second sentence beside the first, and the word itself is
not one of those that replace it; a copy keeps everything else of its text as it was written, and stays if it is equal to another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from plankwise.data.word_vectors import WordVectors, different

TOKENS = 2048  # that the model reads at once
CHUNK = 2000  # texts that are tokenised together
SPARE = 5  # more words than wanted are asked for: a vocabulary has a word in several forms
WORD = re.compile(r"\w+(?:['’]\w+)*")
# What says how the other words of a sentence belong together, and negation, which labels depend on; and single letters.
LISTED = """
    an the this that these those such same each every either neither both all any some no none few many much more most less least
    other another own and or nor but if unless although though because since while whereas than as so too very just only even also
    not never cannot of at by for from in into on onto off out over under up down to toward towards with within without about above
    across after against along among around before behind below beneath beside besides between beyond despite during except near
    through throughout until upon via per be am is are was were been being have has had having do does did doing done can could will
    would shall should may might must me my mine myself we us our ours ourselves you your yours yourself yourselves he him his
    himself she her hers herself it its itself they them their theirs themselves who whom whose which what when where why how there
    here then now again once yet still
"""
FUNCTION_WORDS = frozenset(LISTED.split()) | frozenset("abcdefghijklmnopqrstuvwxyz")


class Masked(NamedTuple):
    """A text's tokens, and the place of the one that is hidden."""

    ids: np.ndarray
    place: int


class Word(NamedTuple):
    """A word of a text that may be replaced."""

    text: int  # its number
    start: int
    end: int
    place: int | None  # of its token; None if it is several


@dataclass(frozen=True)
class Candidates:
    """What may stand in the place of which words of N texts, P words in all: no text, but what copies of it are drawn from."""

    bounds: np.ndarray  # (N + 1,): words bounds[i] to bounds[i + 1] are those of text i
    spans: np.ndarray  # (P, 2): first character and the one behind the last
    choices: np.ndarray  # (P, M): numbers of `words`, -1 behind the last
    words: list[str]

    def of(self, text: int) -> tuple[np.ndarray, list[list[str]]]:
        """The places of a text's words (p, 2), and what may stand in each."""
        some = slice(self.bounds[text], self.bounds[text + 1])
        return self.spans[some], [[self.words[one] for one in row if one >= 0] for row in self.choices[some]]


class MaskedModel:
    """A masked language model as a source of words, those of its tokens that are whole words of letters alone."""

    def __init__(self, model: Any, tokenizer: Any, max_length: int) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.max_length = max_length
        whole = whole_words(tokenizer)
        self.ids = torch.tensor(list(whole), dtype=torch.long)
        self.words = list(whole.values())
        self.whole = whole.keys()
        self.device = next(model.parameters()).device

    def find_words(self, texts: Sequence[str], keep: frozenset[str]) -> tuple[list[np.ndarray], list[Word]]:
        """The tokens of each text, and the words that may be replaced, as far as the model reads."""
        tokens: list[np.ndarray] = []
        words: list[Word] = []
        special = set(self.tokenizer.all_special_ids)
        for first in range(0, len(texts), CHUNK):
            some = list(texts[first : first + CHUNK])
            encoded = self.tokenizer(some, truncation=True, max_length=self.max_length)
            for text, encoding in zip(some, encoded.encodings, strict=True):
                for start, end in replaceable(text, keep):
                    begin, last = encoding.char_to_token(start), encoding.char_to_token(end - 1)
                    if begin is None or last is None or encoding.ids[begin] in special:
                        continue
                    whole = begin == last and encoding.ids[begin] in self.whole
                    words.append(Word(len(tokens), start, end, begin if whole else None))
                tokens.append(np.array(encoding.ids, np.int32))
        return tokens, words

    @torch.inference_mode()
    def predict(self, rows: Sequence[Masked], most: int) -> list[list[str]]:
        """The likeliest words in each hidden place, the likeliest first."""
        ids = nn.utils.rnn.pad_sequence([torch.from_numpy(row.ids).long() for row in rows], batch_first=True)
        mask = torch.zeros_like(ids)
        places = torch.tensor([row.place for row in rows])
        for row, one in enumerate(rows):
            mask[row, : len(one.ids)] = 1
            ids[row, len(one.ids) :] = self.tokenizer.pad_token_id or 0
            ids[row, one.place] = self.tokenizer.mask_token_id
        with only_at(self.model, places.to(self.device)):
            logits = self.model(input_ids=ids.to(self.device), attention_mask=mask.to(self.device)).logits
        if logits.shape[1] > 1:
            logits = logits[torch.arange(len(rows)), places]
        found = logits.reshape(len(rows), -1)[:, self.ids.to(logits.device)].topk(min(most, len(self.words))).indices
        return [[self.words[place] for place in row] for row in found.tolist()]

    def embeddings(self) -> np.ndarray:
        """A row for each token."""
        return self.model.get_input_embeddings().weight.detach().float().cpu().numpy()


def whole_words(tokenizer: Any) -> dict[int, str]:
    """Those tokens that are a word of letters alone by themselves: no part of a word, nothing special or unused."""
    ids = sorted(set(tokenizer.get_vocab().values()) - set(tokenizer.all_special_ids))
    texts = [text.strip() for text in tokenizer.batch_decode([[one] for one in ids])]
    words = {one: text for one, text in zip(ids, texts, strict=True) if text.isalpha()}
    again = tokenizer([f" {word}" for word in words.values()], add_special_tokens=False)["input_ids"] if words else []
    return {one: words[one] for one, found in zip(words, again, strict=True) if found == [one]}


@contextmanager
def only_at(model: Any, places: torch.Tensor) -> Iterator[None]:
    """While open, the map onto the vocabulary is given one state of each text, so that no other token's logits are computed.

    Where a model has no such map of its own, nothing changes.
    """
    head = model.get_output_embeddings()

    def select(module: nn.Module, given: tuple) -> tuple:
        states = given[0]
        return (states[torch.arange(len(states), device=states.device), places][:, None], *given[1:])

    handle = None if head is None else head.register_forward_pre_hook(select)
    try:
        yield
    finally:
        if handle is not None:
            handle.remove()


def replaceable(text: str, keep: frozenset[str] = frozenset()) -> list[tuple[int, int]]:
    """Where the words are that may be replaced: of letters alone, no function word, none of those to keep (in lower case)."""
    return [
        found.span()
        for found in WORD.finditer(text)
        if found[0].isalpha() and found[0].lower() not in FUNCTION_WORDS and found[0].lower() not in keep
    ]


def masked_rows(tokens: list[np.ndarray], words: Sequence[Word]) -> list[tuple[int, Masked]]:
    """Each word that is one token, by its number, with its text as the model reads it, longer texts first."""
    rows = [
        (number, Masked(tokens[word.text], word.place)) for number, word in enumerate(words) if word.place is not None
    ]
    return sorted(rows, key=lambda row: -len(row[1].ids))


def find_candidates(
    model: MaskedModel,
    vectors: Callable[[], WordVectors],
    texts: Sequence[str],
    words: Sequence[Word],
    rows: Sequence[tuple[int, Masked]],
    most: int,
    progress: Callable[[int], None] = lambda tokens: None,
) -> Candidates:
    """What may stand in the place of words: for `rows`, as `masked_rows` gives them, by the model, for the others by vectors.

    A word for which there is nothing is left out. `progress` gets the number of new tokens that the model has read.
    """
    found: dict[int, list[str]] = {}

    def spelt(number: int) -> str:
        return texts[words[number].text][words[number].start : words[number].end]

    first = 0
    while first < len(rows):
        count = max(1, TOKENS // len(rows[first][1].ids))
        some = rows[first : first + count]
        for (number, _), likely in zip(some, model.predict([row for _, row in some], most + SPARE), strict=True):
            found[number] = different(spelt(number), likely, most)
        progress(sum(len(row.ids) for _, row in some))
        first += count
    others = [number for number, word in enumerate(words) if word.place is None]
    if others:
        distinct = list(dict.fromkeys(map(spelt, others)))
        near = dict(zip(distinct, vectors().nearest(distinct, most), strict=True))
        found |= {number: near[spelt(number)] for number in others}
    return _pack(len(texts), words, found, most)


def _pack(num_texts: int, words: Sequence[Word], found: dict[int, list[str]], most: int) -> Candidates:
    kept = [number for number in range(len(words)) if found.get(number)]
    names: dict[str, int] = {}
    choices = np.full((len(kept), most), -1, np.int32)
    for row, number in enumerate(kept):
        numbers = [names.setdefault(word, len(names)) for word in found[number]]
        choices[row, : len(numbers)] = numbers
    counts = np.bincount([words[number].text for number in kept], minlength=num_texts) if kept else np.zeros(num_texts)
    bounds = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    spans = np.array([words[number][1:3] for number in kept], np.int32).reshape(-1, 2)
    return Candidates(bounds, spans, choices, list(names))


def draw_copies(
    texts: Sequence[str],
    numbers: Sequence[int],
    candidates: Candidates,
    *,
    copies: int,
    probability: float,
    generator: np.random.Generator,
) -> Iterator[list[str]]:
    """So many copies of each text, one text after another; `numbers` are those of the texts among the candidates.

    Each word that has candidates is replaced with the probability, by one of them, each as likely as the others; its first letter
    is a capital where that of the word was.
    """
    for text, number in zip(texts, numbers, strict=True):
        spans, choices = candidates.of(number)
        between = [text[a:b] for a, b in zip([0, *spans[:, 1]], [*spans[:, 0], len(text)], strict=True)]
        originals = [text[start:end] for start, end in spans]
        replaced = generator.random((copies, len(spans))) < probability
        drawn = generator.integers(0, np.array([len(words) for words in choices], np.int64), (copies, len(spans)))
        yield [
            "".join(_weave(between, originals, choices, *row))
            for row in zip(replaced.tolist(), drawn.tolist(), strict=True)
        ]


def _weave(
    between: list[str], originals: list[str], choices: list[list[str]], replaced: list[bool], drawn: list[int]
) -> Iterator[str]:
    yield between[0]
    for word, words, is_new, place, after in zip(originals, choices, replaced, drawn, between[1:], strict=True):
        yield _capitalised(words[place], word) if is_new else word
        yield after


def _capitalised(word: str, like: str) -> str:
    return word[0].upper() + word[1:] if like[0].isupper() else word
