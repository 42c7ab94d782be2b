"""Translation, and any other task in which a model reads a text and writes another: encoder and decoder, each a chain of its own.

The loss is the model's own on the right translation, each token after the right ones before it (teacher forcing). The score is
BLEU of what the model writes by itself, as a share of 100; chrF stands beside it. What is timed is one pass over a text and a
translation of the same length, not writing.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from transformers import AutoModelForSeq2SeqLM, DataCollatorForSeq2Seq

from plankwise.config import RunConfig
from plankwise.data.batch import plain_collator
from plankwise.data.encode import TextPairs
from plankwise.data.masking import IGNORED
from plankwise.data.parallel import Pair, read_pairs
from plankwise.errors import ConfigError, DataError
from plankwise.evaluation.error_view import ErrorView
from plankwise.evaluation.errors import MODELS
from plankwise.evaluation.guards import MAJORITY, enforce
from plankwise.evaluation.translations import bleu_of, count_ngrams, score_translations
from plankwise.models.loading import Loaded, Loader
from plankwise.record import Shown
from plankwise.runtimes import Predictor
from plankwise.task_kinds import Answers, Draw, Task
from plankwise.task_kinds._encoding import tell_encoded
from plankwise.task_kinds._translation_errors import compare_translations
from plankwise.task_kinds._translation_predictions import predict_table, predict_tests
from plankwise.task_kinds._unlabelled import refuse_choosing, refuse_solved_head
from plankwise.task_kinds._writing import encode_pairs, find_ends, write_texts

__all__ = ["Translation", "auto_class", "predict_table", "predict_tests", "read"]

DEV = "dev"
# What needs the logits of a class for each text.
REFUSED = ("exits", "kd", "pkd", "distilbert", "pd", "tinybert", "minilm", "mobilebert", "heads", "layerdrop")


class Translation(Task):
    """Texts with their translations for one tokenizer."""

    kind = "translation"
    gives_classes = False
    needs_torch = "an exported model cannot write texts here"
    needs_tokens = "texts are read and written with the tokens of the predecessor alone, the one that a translation begins with too"

    def __init__(self, config: RunConfig, tokenizer: Any, console: Console) -> None:
        self.options: Any = config.task
        self.config, self.console, self.tokenizer = config, console, tokenizer
        path = config.predecessor.path
        self.ends = find_ends(Loader(config.predecessor.remote_code).config(path), path)
        first = self.options.train if isinstance(self.options.train, str) else self.options.train[0]
        self.name = Path(first).name.split(".")[0]
        self.max_length = config.training.max_length
        self.score_names, self.beside = ("bleu",), ("chrf",)
        self.shown = Shown("BLEU", "bleu", 2, unit="texts", pipeline="translation")
        self.dropped = {"empty": 0, "duplicates": 0, "overlap": 0}
        self.train_pairs, self.dev_pairs = self._read()
        self.dev_texts = self._encode(DEV, self.dev_pairs)
        self.dev = {DEV: self.dev_texts}

    @cached_property
    def train(self) -> TextPairs:  # type: ignore[override]
        """Encoded when it is first asked for: scoring never does."""
        return self._encode("train", self.train_pairs)

    def training_texts(self) -> pa.ChunkedArray:
        return pa.chunked_array([pa.array([text for pair in self.train_pairs for text in pair], pa.large_string())])

    def load(self, loader: Loader, path: str) -> Loaded:
        return loader.model(path, AutoModelForSeq2SeqLM)

    def collate(self, epoch: Any) -> Any:
        pad = DataCollatorForSeq2Seq(self.tokenizer, label_pad_token_id=IGNORED)

        def collate(examples: list[dict]) -> Any:
            # The family itself makes of the labels what its decoder reads.
            return pad([{name: example[name] for name in ("input_ids", "labels")} for example in examples])

        return collate

    def weigh(self, batch: Any) -> float:
        """The tokens to write: the loss is a mean over them."""
        return float((batch["labels"] != IGNORED).sum())

    def outputs(self, predictor: Predictor) -> Answers:
        """What is written for each text."""
        return {DEV: np.array(self._write(predictor), dtype=np.str_)}

    def score(self, predictor: Predictor) -> dict[str, float]:
        return self.score_outputs(self.outputs(predictor))

    def score_outputs(self, outputs: Answers) -> dict[str, float]:
        found = score_translations(outputs[DEV].tolist(), self._references)
        return {**found, "score": found["bleu"] / 100}

    def score_samples(self, outputs: Answers, draw: Draw) -> np.ndarray:
        sums = draw(len(self.dev_pairs)) @ count_ngrams(outputs[DEV].tolist(), self._references)
        return np.array([bleu_of(some) for some in sums]) / 100

    def as_shown(self, score: float) -> float:
        return 100 * score

    def differences(self, first: Sequence[Answers], second: Sequence[Answers], masks: Answers) -> np.ndarray:
        swapped = masks[DEV].astype(np.int64)
        found = []
        for ours, theirs in zip(first, second, strict=True):
            one, other = (count_ngrams(side[DEV].tolist(), self._references) for side in (ours, theirs))
            moved = swapped @ (other - one)
            found.append([bleu_of(one.sum(0) + some) - bleu_of(other.sum(0) - some) for some in moved])
        return np.mean(found, axis=0) / 100

    @property
    def _references(self) -> list[str]:
        return [pair.target for pair in self.dev_pairs]

    def _write(self, predictor: Predictor) -> list[str]:
        return write_texts(
            predictor,
            self.dev_texts,
            self.tokenizer,
            self.config.evaluation.batch_size,
            max_length=self.max_length,
            beams=self.options.beams,
        )

    def texts(self, most: int) -> list[tuple[str, ...]]:
        return [(pair.source,) for pair in self.dev_pairs[:most]]

    def encode(self, texts: list[tuple[str, ...]], tokenizer: Any = None) -> Any:
        """A padded batch of texts, each with as many tokens for the decoder to read."""
        own = self.tokenizer if tokenizer is None else tokenizer
        sources = [text for (text,) in texts]
        pairs = encode_pairs(sources, sources, own, self.max_length, self.ends)
        return plain_collator(pairs, own)([{k: v for k, v in row.items() if k != "labels"} for row in pairs.dataset])

    def view_errors(self, open_model: Callable[[str], Predictor]) -> ErrorView:
        before, after = (self._write(open_model(name)) for name in MODELS)
        return compare_translations(self.dev_pairs, before, after)

    def check_config(self, config: RunConfig) -> None:
        method: Any = config.method
        if method.name in REFUSED or getattr(method, "alpha", False):
            raise ConfigError(
                f"method.name is {method.name!r}, which is not offered for translation (nor is replacing with alpha); use "
                "replacing, finetune, drop, solve, magnitude or movement"
            )
        for key, texts in {"fitting": config.plan.fitting.texts, "solving": config.plan.solving.texts}.items():
            if texts is not None:
                raise ConfigError(f"plan.{key}.texts is given, but a decoder needs translations too; take it out")
        refuse_solved_head(config, "translation")
        why = "where each evaluation writes all texts anew, and the search would have one method alone to compare"
        refuse_choosing(config, "translation", why)

    def check_predecessor(self, predictor: Predictor, path: str, *, given: bool = False) -> dict[str, str]:
        found = self.score(predictor)["bleu"]
        copied = score_translations([pair.source for pair in self.dev_pairs], self._references)["bleu"]
        if found > copied:
            return {}
        fault = (
            f"the predecessor {path} has BLEU {found:.2f} on dev, no better than the texts themselves, untranslated "
            f"({copied:.2f}); there is nothing to keep: train it on the task (predecessor.finetune = true), longer "
            "(predecessor.training.epochs), or give one that translates"
        )
        return enforce({MAJORITY: fault}, self.config.evaluation.ignore_guards)

    def to_json(self) -> dict:
        return {
            "name": self.name,
            "score": list(self.score_names),
            "train": len(self.train_pairs),
            "dev": {DEV: len(self.dev_pairs)},
            "facts": [["beams", str(self.options.beams)]],
            "dropped": {"train": self.dropped},
            "cut": {"train": self.train.num_cut, DEV: self.dev[DEV].num_cut},
        }

    def _encode(self, name: str, pairs: Sequence[Pair]) -> TextPairs:
        sources, targets = zip(*pairs, strict=True)
        encoded = encode_pairs(sources, targets, self.tokenizer, self.max_length, self.ends)
        tell_encoded(name, encoded, self.max_length, self.console)
        return encoded

    def _read(self) -> tuple[list[Pair], list[Pair]]:
        """The pairs of train and of dev; of train, none twice and none whose text is in dev, too."""
        options, random = self.options, np.random.default_rng(self.config.run.seed_of_data)

        def draw(pairs: list[Pair], most: int | None) -> list[Pair]:
            if most is None or len(pairs) <= most:
                return pairs
            return [pairs[row] for row in sorted(random.permutation(len(pairs))[:most])]

        given, empty = self._read_files("train")
        train = list(dict.fromkeys(given))
        if options.dev is not None:
            dev, _ = self._read_files("dev")
        else:
            if len(train) < 2:
                raise DataError("train has 1 text, too few to split dev off; add texts, or give task.dev")
            order = random.permutation(len(train))
            count = min(max(1, round(len(train) * options.dev_share)), len(train) - 1)
            dev, train = ([train[row] for row in sorted(some)] for some in (order[:count], order[count:]))
        dev = draw(dev, options.dev_limit)
        known = {pair.source for pair in dev}
        kept = [pair for pair in train if pair.source not in known]
        self.dropped = {
            "empty": empty,
            "duplicates": len(given) - len(set(given)),
            "overlap": len(train) - len(kept),
        }
        if any(self.dropped.values()):
            told = "{empty} with an empty side, {duplicates} duplicates, {overlap} that are in dev too"
            self.console.print(f"train: dropped {told.format(**self.dropped)}", soft_wrap=True)
        if not kept:
            raise DataError("every text of train is in dev too, so that none is left; give other texts in task.train")
        return draw(kept, options.train_limit), dev

    def _read_files(self, which: str) -> tuple[list[Pair], int]:
        options = self.options
        given, key = getattr(options, which), f"task.{which}"
        return read_pairs(given, options.source, options.target, key=key, encoding=options.encoding)


def auto_class(options: Any) -> Any:
    return AutoModelForSeq2SeqLM


def read(config: RunConfig, tokenizer: Any, console: Console) -> Translation:
    """Reads, splits and encodes the pairs, and says what was dropped or cut.

    Raises:
        PlankwiseError: they cannot be read, or the model does not write texts.
    """
    return Translation(config, tokenizer, console)
