"""Sequences of tokens in one Arrow file, made chunk by chunk and read through a memory map: no corpus is too large.

A sequence has no special tokens except separators between packed documents; what makes batches adds the others.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset

from plankwise.data.corpus import Shard, read_shard
from plankwise.data.encode import CHUNK, TokenSequences
from plankwise.data.quotes import Tally
from plankwise.errors import ConfigError
from plankwise.files import whole_file

CHUNK_CHARACTERS = 1 << 20  # tokenised at once, however few texts they are
PIECE_CHARACTERS = 100_000  # a longer text is tokenised in pieces
BATCH_TOKENS = 1 << 20  # written at once, so that the file has few batches
LEAST = 2  # tokens of the last packed sequence, if it is to be kept
SAMPLES = ("a", "A", "the", "0", ".")
NO_TEXTS = np.zeros(0, dtype=bool)
SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|\n")

Form = Literal["packed", "single", "pair"]


@dataclass(frozen=True)
class Frame:
    """The special tokens that a tokenizer puts before, between and after texts."""

    prefix: list[int]
    middle: list[int]  # empty if the tokenizer cannot do pairs
    suffix: list[int]
    separator: int | None  # placed between packed documents


@dataclass(frozen=True)
class Written:
    """What has become of a corpus."""

    blocks: int  # sequences, under the name that records and run folders have for them
    texts: int  # that are in the sequences, some of them in part
    tokens: int  # in the sequences, without prefix, middle and suffix
    cut: int  # texts that lost their end
    dropped: int  # texts that gave nothing: no tokens, or a single sentence where two are needed
    complete: bool  # whether no limit ended it
    notes: tuple[str, ...] = ()  # what the user should know of how the files were read


@dataclass(frozen=True)
class _Tokens:
    """Token ids of several sequences or texts, one after another, and whether each begins a word."""

    ids: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray  # one for each sequence or text


@dataclass(frozen=True)
class _Made:
    """Sequences of one chunk of texts."""

    tokens: _Tokens
    texts: np.ndarray  # for each sequence, the last text of the chunk that is in it; -1: one of an earlier chunk
    lost: np.ndarray  # for each text, whether its end is in no sequence
    empty: np.ndarray  # for each text, whether it gives nothing
    cuts: np.ndarray | None = None  # for each sequence of a pair, the length of its first part

    def first(self, count: int) -> "_Made":
        """The first sequences, and no more texts than are in them."""
        if count > len(self.texts):
            return self
        size, seen = int(self.tokens.lengths[:count].sum()), int(self.texts[count - 1]) + 1
        tokens = _Tokens(self.tokens.ids[:size], self.tokens.starts[:size], self.tokens.lengths[:count])
        cuts = None if self.cuts is None else self.cuts[:count]
        return _Made(tokens, self.texts[:count], self.lost[:seen], self.empty[:seen], cuts)


def frame_of(tokenizer: Any) -> Frame:
    """The tokenizer's special tokens, found by what it adds to a short text and to two of them.

    The separator is what ends a text for a language model without a mask token, else what separates texts.

    Raises:
        ConfigError: the tokenizer has no token for a common word, or changes a text's tokens where it adds special ones.
    """
    contents = ((text, list(tokenizer(text, add_special_tokens=False)["input_ids"])) for text in SAMPLES)
    text, content = next(((text, ids) for text, ids in contents if ids), ("", []))
    around = _split_around(list(tokenizer(text)["input_ids"]), content)
    if not content or around is None:
        raise ConfigError(
            f"the tokenizer {type(tokenizer).__name__} does not show its special tokens on texts such as {', '.join(SAMPLES)}; "
            "use the tokenizer that the model was trained with"
        )
    prefix, suffix = around
    ends = [tokenizer.sep_token_id, tokenizer.eos_token_id][:: 1 if tokenizer.mask_token_id is not None else -1]
    separator = next((token for token in ends if token is not None), None)
    return Frame(prefix, _find_middle(tokenizer, text, [*prefix, *content], content), suffix, separator)


def _find_middle(tokenizer: Any, text: str, first: list[int], second: list[int]) -> list[int]:
    try:
        pair = list(tokenizer(text, text)["input_ids"])
    except Exception:  # a tokenizer of its own kind may refuse pairs in any way
        return []
    around = _split_around(pair[len(first) :], second) if pair[: len(first)] == first else None
    return around[0] if around else []


def _split_around(ids: list[int], content: list[int]) -> tuple[list[int], list[int]] | None:
    """What is before and after `content` in `ids`, where it occurs first."""
    for start in range(len(ids) - len(content) + 1):
        if ids[start : start + len(content)] == content:
            return ids[:start], ids[start + len(content) :]
    return None


def write_sequences(
    shards: Iterable[Shard],
    tokenizer: Any,
    file: Path,
    *,
    length: int,
    form: Form,
    keep: Callable[[str], bool],
    most_sequences: int | None = None,
    most_texts: int | None = None,
    progress: Callable[[int], None] = lambda sequences: None,
) -> Written:
    """Writes the shards' texts that `keep` wants as sequences of at most `length` tokens, special ones included.

    The file has the columns `input_ids` and `starts` (whether a token begins a word). Forms are "packed": all texts one after
    another, with separators, in sequences of exactly `length` except the last; "single": one sequence for each text, cut to
    `length`; "pair": several sentences of one text, with `cut`, the number of tokens of the first part, which ends where a
    sentence does, and `text`, the number of the text. At a limit it stops, and reads no further shard. `progress` gets the
    number of new sequences after each chunk.

    Raises:
        ConfigError: `length` leaves no room beside the special tokens.
        DataError: a shard cannot be read.
        RunError: the disk is full, or the place is not for writing.
    """
    frame = frame_of(tokenizer)
    special = len(frame.prefix) + len(frame.suffix) + (len(frame.middle) if form == "pair" else 0)
    room = length - special
    if room < LEAST:
        raise ConfigError(
            f"training.max_length is {length}, but the tokenizer adds {special} special tokens to a text; "
            f"choose at least {special + LEAST}"
        )
    packer, tally = _Packer(room, frame.separator), Tally()
    form_sequences: dict[str, Callable[[list[str], _Encode], _Made]] = {
        "packed": packer.make,
        "single": partial(_make_single, room),
        "pair": partial(_make_pairs, room),
    }
    stream = (text for shard in shards for text in read_shard(shard, tally.add) if keep(text))
    with whole_file(file) as part, pa.OSFile(str(part), "wb") as sink, _Writer(sink, form) as writer:
        while writer.sequences != most_sequences and writer.texts != most_texts:
            texts = _take(stream, CHUNK if most_texts is None else most_texts - writer.texts)
            if not texts:
                break
            made = form_sequences[form](texts, partial(_encode, tokenizer))
            made = made if most_sequences is None else made.first(most_sequences - writer.sequences)
            writer.add(made)
            progress(len(made.texts))
        complete = writer.sequences != most_sequences and writer.texts != most_texts
        if form == "packed" and writer.sequences != most_sequences and len(packer.rest.ids) >= LEAST:
            writer.add(_Made(packer.rest, np.array([-1]), NO_TEXTS, NO_TEXTS))
            progress(1)
    return Written(writer.sequences, writer.texts, writer.tokens, writer.cut, writer.dropped, complete, tally.notes)


def open_sequences(file: Path) -> TokenSequences:
    """The sequences of a file, read where they are needed; lengths are without special tokens, as an array of 32 bits each."""
    dataset = Dataset.from_file(str(file))
    lengths = pc.list_value_length(dataset.data["input_ids"]).to_numpy()
    return TokenSequences(dataset, lengths, 0)


class _Writer:
    """Gathers sequences until they are worth a batch of the Arrow file."""

    def __init__(self, sink: Any, form: Form) -> None:
        columns = [("input_ids", pa.list_(pa.int32())), ("starts", pa.list_(pa.bool_()))]
        self.schema = pa.schema([*columns, ("cut", pa.int32()), ("text", pa.int64())] if form == "pair" else columns)
        self.stream = pa.ipc.new_stream(sink, self.schema)
        self.waiting: list[pa.RecordBatch] = []
        self.flushed = self.sequences = self.texts = self.tokens = self.cut = self.dropped = 0

    def __enter__(self) -> "_Writer":
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self._flush()
        self.stream.close()

    def add(self, made: _Made) -> None:
        if len(made.texts):
            self.waiting.append(self._batch(made))
        self.sequences += len(made.texts)
        self.tokens += len(made.tokens.ids)
        self.texts += int((~made.empty).sum())
        self.dropped += int(made.empty.sum())
        self.cut += int(made.lost.sum())
        if self.tokens - self.flushed >= BATCH_TOKENS:
            self._flush()

    def _batch(self, made: _Made) -> pa.RecordBatch:
        offsets = pa.array(np.concatenate([[0], np.cumsum(made.tokens.lengths)]), pa.int32())
        columns = [
            pa.ListArray.from_arrays(offsets, pa.array(made.tokens.ids, pa.int32())),
            pa.ListArray.from_arrays(offsets, pa.array(made.tokens.starts, pa.bool_())),
        ]
        if made.cuts is not None:
            texts = self.texts + self.dropped + made.texts
            columns += [pa.array(made.cuts, pa.int32()), pa.array(texts, pa.int64())]
        return pa.record_batch(columns, schema=self.schema)

    def _flush(self) -> None:
        if self.waiting:
            self.stream.write_batch(pa.concat_batches(self.waiting))
        self.waiting, self.flushed = [], self.tokens


def _take(stream: Iterator[str], most: int) -> list[str]:
    """The next texts: as many as are tokenised together, and at most `most`."""
    texts, size = [], 0
    for text in itertools.islice(stream, min(CHUNK, most)):
        texts.append(text)
        size += len(text)
        if size >= CHUNK_CHARACTERS:
            break
    return texts


_Encode = Callable[[list[list[str]]], _Tokens]


def _encode(tokenizer: Any, texts: list[list[str]]) -> _Tokens:
    """The tokens of texts, each given as pieces that are tokenised by themselves; lengths are the pieces'."""
    stream, parts = itertools.chain.from_iterable(texts), []
    while pieces := _take(stream, CHUNK):
        encoding = tokenizer(
            pieces,
            add_special_tokens=False,
            padding=False,
            truncation=False,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,
        )
        parts.append(_flatten(encoding))
    return _Tokens(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("ids", "starts", "lengths")))


def _flatten(encoding: Any) -> _Tokens:
    lengths = np.array([len(ids) for ids in encoding["input_ids"]], dtype=np.int64)
    ids = np.fromiter(itertools.chain.from_iterable(encoding["input_ids"]), np.int32, int(lengths.sum()))
    starts = np.ones(len(ids), dtype=bool)
    if encoding.encodings is not None:
        words = itertools.chain.from_iterable(item.word_ids for item in encoding.encodings)
        word = np.fromiter((-1 if number is None else number for number in words), np.int64, len(ids))
        starts[1:] = (word[1:] != word[:-1]) | (word[1:] < 0)
        first = (np.cumsum(lengths) - lengths)[lengths > 0]
        starts[first] = True
    return _Tokens(ids, starts, lengths)


def _pieces(text: str) -> list[str]:
    """The text in pieces of a size that a tokenizer can take, cut before white space where there is any."""
    pieces, start = [], 0
    while len(text) - start > PIECE_CHARACTERS:
        end = start + PIECE_CHARACTERS
        space = max(text.rfind(" ", start + 1, end), text.rfind("\n", start + 1, end))
        end = space if space > start else end
        pieces.append(text[start:end])
        start = end
    return [*pieces, text[start:]]


def _encode_whole(texts: list[str], encode: _Encode) -> _Tokens:
    """The texts' tokens, one length a text."""
    pieces = [_pieces(text) for text in texts]
    tokens = encode(pieces)
    first = np.cumsum([0, *map(len, pieces[:-1])])
    return _Tokens(tokens.ids, tokens.starts, np.add.reduceat(tokens.lengths, first))


class _Packer:
    """Joins texts and cuts them into sequences; what does not fill one is kept for the next texts."""

    def __init__(self, room: int, separator: int | None) -> None:
        self.room = room
        self.separator = separator
        self.begun = False
        self.rest = _one_sequence(np.zeros(0, dtype=np.int32), np.zeros(0, dtype=bool))

    def make(self, texts: list[str], encode: _Encode) -> _Made:
        tokens = _encode_whole(texts, encode)
        filled = np.flatnonzero(tokens.lengths)
        first = (np.cumsum(tokens.lengths) - tokens.lengths)[filled]
        ids, starts = tokens.ids, tokens.starts
        if self.separator is not None:
            places = first if self.begun else first[1:]
            ids, starts = np.insert(ids, places, self.separator), np.insert(starts, places, True)
            first = first + np.arange(len(first)) + self.begun
        self.begun = self.begun or len(filled) > 0
        first = first + len(self.rest.ids)
        ids, starts = np.concatenate([self.rest.ids, ids]), np.concatenate([self.rest.starts, starts])
        full = len(ids) - len(ids) % self.room
        self.rest = _one_sequence(ids[full:].copy(), starts[full:].copy())
        lengths = np.full(full // self.room, self.room, dtype=np.int64)
        num_begun = np.searchsorted(first, np.cumsum(lengths))  # texts whose tokens begin before a sequence's end
        last = np.concatenate([[-1], filled])[num_begun]
        return _Made(
            _Tokens(ids[:full], starts[:full], lengths), last, np.zeros(len(texts), dtype=bool), tokens.lengths == 0
        )


def _one_sequence(ids: np.ndarray, starts: np.ndarray) -> _Tokens:
    return _Tokens(ids, starts, np.array([len(ids)], dtype=np.int64))


def _make_single(room: int, texts: list[str], encode: _Encode) -> _Made:
    tokens = _encode_whole(texts, encode)
    place = np.arange(len(tokens.ids)) - np.repeat(np.cumsum(tokens.lengths) - tokens.lengths, tokens.lengths)
    lengths, within = np.minimum(tokens.lengths, room), place < room
    filled = lengths > 0
    kept = _Tokens(tokens.ids[within], tokens.starts[within], lengths[filled])
    return _Made(kept, np.flatnonzero(filled), tokens.lengths > room, ~filled)


def _make_pairs(room: int, texts: list[str], encode: _Encode) -> _Made:
    sentences = [[part[:PIECE_CHARACTERS] for part in SENTENCE_END.split(text) if part.strip()] for text in texts]
    tokens = encode(sentences)
    ends = np.cumsum(tokens.lengths)
    spans = zip((ends - tokens.lengths).tolist(), ends.tolist(), strict=True)
    sequences: list[list[_Span]] = []
    owners: list[int] = []
    for owner, own in enumerate(sentences):
        found = _gather([span for span in itertools.islice(spans, len(own)) if _size(span)], room)
        sequences += found
        owners += [owner] * len(found)
    chosen = [slice(*span) for sequence in sequences for span in sequence]
    kept = _Tokens(
        np.concatenate([tokens.ids[:0], *(tokens.ids[span] for span in chosen)]),
        np.concatenate([tokens.starts[:0], *(tokens.starts[span] for span in chosen)]),
        np.array([sum(map(_size, sequence)) for sequence in sequences], dtype=np.int64),
    )
    empty = np.ones(len(texts), dtype=bool)
    empty[owners] = False
    cuts = np.array([_find_cut(sequence) for sequence in sequences], dtype=np.int64)
    return _Made(kept, np.array(owners, dtype=np.int64), np.zeros(len(texts), dtype=bool), empty, cuts)


_Span = tuple[int, int]


def _size(span: _Span) -> int:
    return span[1] - span[0]


def _gather(sentences: list[_Span], room: int) -> list[list[_Span]]:
    """Sequences of two sentences or more; two neighbours that are too long are cut, and a single last one is left out."""
    sequences: list[list[_Span]] = []
    sequence: list[_Span] = []
    size = 0
    for span in sentences:
        if sequence and size + _size(span) > room:
            alone = len(sequence) == 1
            sequences.append(_fit(sequence[0], span, room) if alone else sequence)
            sequence, size = [], 0
            if alone:
                continue
        sequence.append(span)
        size += _size(span)
    return [*sequences, sequence] if len(sequence) > 1 else sequences


def _fit(first: _Span, second: _Span, room: int) -> list[_Span]:
    """Both sentences cut to fill the room: half of it is left to each, or more if the other is shorter."""
    size = min(_size(first), max(room - _size(second), room // 2))
    return [(first[0], first[0] + size), (second[0], second[0] + room - size)]


def _find_cut(sequence: list[_Span]) -> int:
    """The end of the sentence that ends nearest to the sequence's middle, in tokens."""
    ends = np.cumsum([_size(span) for span in sequence])
    return int(ends[np.abs(2 * ends[:-1] - ends[-1]).argmin()])
