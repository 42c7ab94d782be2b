"""Changed copies of a stage's training examples, with their labels; what may replace which word is computed once and kept.

What a masked language model says of words depends a little on the machine, so that it is written to a file, which every rank and a
run that is resumed take. Copies are drawn from it by the run's seed alone.
"""

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from rich.progress import Progress

from plankwise.augmentation_options import AugmentationOptions
from plankwise.data.augment import Candidates, MaskedModel, draw_copies, find_candidates, masked_rows, replaceable
from plankwise.data.encode import Encoded, encode
from plankwise.data.word_vectors import WordVectors, mean_of_tokens, read_vectors
from plankwise.errors import RunError
from plankwise.files import read_as, whole_file, write_text
from plankwise.models.limits import token_limit
from plankwise.training.fitting import join
from plankwise.training.stage import KeptResult, Stage, StageResult
from plankwise.training.weights import read_weights, save_weights

NAME = "augmentation"
CHUNK = 10_000  # texts whose copies are Python's at a time
CANDIDATES, RESULT = "candidates.safetensors", "candidates.json"
DIGEST = "digest"  # of the texts, in the notes that are kept


@dataclass(frozen=True)
class Material:
    """What copies are made of beside a stage's examples."""

    table: Callable[[], pa.Table]  # the training examples as they stand: `text`, `text_pair`, `label`
    open_model: Callable[[str | None], tuple[Any, Any]]  # a masked language model and its tokenizer


@dataclass(frozen=True)
class Augmented:
    """A stage's examples with the copies behind them, and what the record says."""

    examples: Encoded
    stage: StageResult
    notes: dict[str, Any]


@dataclass(frozen=True)
class Found:
    candidates: Candidates
    whole: bool  # whether they are those of all words
    memory: dict[str, int]  # bytes, by what they are for


def augment(stage: Stage, material: Material, options: AugmentationOptions, max_length: int) -> Augmented:
    """The stage's examples, then `options.copies` changed copies of each; `stage` is one for this alone.

    Raises:
        ConfigError: the task has no texts to copy, or there is no masked language model.
        DataError: the word vectors cannot be read.
        RunError: what was kept is damaged or of other texts, or the disk is full.
    """
    context, file = stage.context, stage.folder / RESULT
    table = material.table()
    columns = [table[name].to_pylist() for name in ("text", "text_pair") if name in table.column_names]
    numbers: dict[str, int] = {}
    places = [[numbers.setdefault(text, len(numbers)) for text in column] for column in columns]
    texts = list(numbers)
    digest = hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()

    def write() -> None:
        if file.exists():
            return
        started = time.monotonic()
        stage.folder.mkdir(parents=True, exist_ok=True)
        found = _compute(stage, material, options, texts, max_length)
        if found is None or not found.whole:
            return
        candidates, seconds = found.candidates, time.monotonic() - started
        with whole_file(stage.folder / CANDIDATES) as part:
            save_weights(_to_tensors(candidates), part)
        notes = {
            DIGEST: digest,
            "copies": options.copies,
            "texts": len(texts),
            "words": len(candidates.spans),
            "candidates_per_word": float((candidates.choices >= 0).sum(1).mean()) if len(candidates.spans) else 0.0,
        }
        context.console.print(
            f"{NAME}: {notes['words']} words of {len(texts)} texts may be replaced; {options.copies} copies of each example"
        )
        result = StageResult(NAME, 0, 0, seconds, seconds, 0, 0.0)
        write_text(file, json.dumps(asdict(KeptResult(result, notes))))

    context.on_main(write)
    count = len(stage.train.lengths)
    if not context.on_main(file.exists):  # a rehearsal: as many examples, as long
        rows = np.tile(np.arange(count), 1 + options.copies)
        return Augmented(stage.train.take(rows), StageResult(NAME, 0, 0, 0.0, 0.0, 0, 0.0), {})
    remedy = f"delete {stage.folder.parent} and run the same command again"
    found = read_as(file, KeptResult, remedy)
    candidates = _from_tensors(read_weights(stage.folder / CANDIDATES, remedy))
    notes = dict(found.notes)
    if notes.pop(DIGEST, None) != digest or table.num_rows != count:
        raise RunError(f"{stage.folder} is of other texts than the task's; {remedy}")
    more = {
        name: _copy(own, kept, candidates, options, np.random.default_rng((context.seed, number)))
        for number, (name, own, kept) in enumerate(zip(("text", "text_pair"), columns, places, strict=False))
    }
    more["label"] = table["label"].take(pa.array(np.repeat(np.arange(count), options.copies)))
    copies = encode(pa.table(more), stage.tokenizer, max_length)
    return Augmented(join(stage.train, copies), found.stage, notes)


def _compute(
    stage: Stage, material: Material, options: AugmentationOptions, texts: list[str], max_length: int
) -> Found | None:
    """What may replace which word; None, or only some of it, in a rehearsal."""
    language_model, tokenizer = material.open_model(options.model)
    limit = token_limit(language_model, tokenizer)
    model = MaskedModel(language_model, tokenizer, max_length if limit is None else min(max_length, limit))
    tokens, words = model.find_words(texts, frozenset(word.lower() for word in options.keep))
    rows = masked_rows(tokens, words)
    ends = np.cumsum([len(row.ids) for _, row in rows]) if rows else np.zeros(1)
    total = int(ends[-1])
    if rows:
        model.predict([row for _, row in rows[:1]], 1)  # what takes longer the first time is not timed

    def vectors() -> WordVectors:
        if options.vectors is not None:
            return read_vectors(options.vectors)
        known = dict.fromkeys(text[start:end] for text in texts for start, end in replaceable(text))
        plain_first = sorted(known, key=lambda word: word[0].isupper())  # of two that are alike, the first is taken
        return mean_of_tokens(plain_first, tokenizer, model.embeddings())

    def work(amount: int) -> Found:
        whole = amount >= total
        some = rows if whole else rows[: int(np.searchsorted(ends, amount)) + 1]
        with Progress(
            console=stage.context.console, transient=True, disable=not (whole and stage.context.console.is_terminal)
        ) as bar:
            task = bar.add_task(f"{NAME}: words", total=total)
            found = find_candidates(
                model, vectors, texts, words, some, options.candidates, lambda read: bar.advance(task, read)
            )
        weights = sum(one.nbytes for one in language_model.parameters())
        return Found(found, whole, {"weights": weights, "candidates": found.choices.nbytes})

    return stage.compute(work, total)


def _copy(
    texts: list[str],
    numbers: list[int],
    candidates: Candidates,
    options: AugmentationOptions,
    generator: np.random.Generator,
) -> pa.ChunkedArray:
    """All copies of one column's texts, those of a text one after another."""
    chunks = [pa.array([], pa.string())]
    for first in range(0, len(texts), CHUNK):
        some = slice(first, first + CHUNK)
        drawn = draw_copies(
            texts[some],
            numbers[some],
            candidates,
            copies=options.copies,
            probability=options.probability,
            generator=generator,
        )
        chunks.append(pa.array([copy for copies in drawn for copy in copies], pa.string()))
    return pa.chunked_array(chunks)


def _to_tensors(candidates: Candidates) -> dict[str, torch.Tensor]:
    words = np.frombuffer("\n".join(candidates.words).encode(), np.uint8)
    arrays = {"bounds": candidates.bounds, "spans": candidates.spans, "choices": candidates.choices, "words": words}
    return {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}


def _from_tensors(tensors: dict[str, torch.Tensor]) -> Candidates:
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    words = bytes(arrays.pop("words")).decode()
    return Candidates(words=words.split("\n"), **arrays)
