"""Tokens: each word of a text has a tag (named entities, parts of speech).

A word's tag stands at its first piece; its other pieces, special tokens and padding have none. The score is F1 over entities where
tags mark them (`evaluation.entities`), and else the share of words whose tag is right. Words that were cut off count as tagged with
nothing, so that a short `max_length` does not flatter.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import torch
from rich.console import Console
from transformers import AutoModelForTokenClassification, DataCollatorForTokenClassification

from plankwise.config import RunConfig
from plankwise.data.encode import Encoded
from plankwise.data.masking import IGNORED
from plankwise.data.split import kept_out_share
from plankwise.data.tagged import Tagged, read_tagged
from plankwise.errors import ConfigError, DataError
from plankwise.evaluation.entities import NOTHING, are_entities, count_entities, f1_of
from plankwise.evaluation.error_view import ErrorView
from plankwise.evaluation.errors import MODELS
from plankwise.evaluation.guards import MAJORITY, enforce
from plankwise.models.labels import NEW_HEAD, check_labels
from plankwise.models.loading import Loaded, Loader
from plankwise.record import Shown
from plankwise.runtimes import Predictor
from plankwise.task_kinds import Answers, Draw, Task
from plankwise.task_kinds._encoding import tell_encoded
from plankwise.task_kinds._token_errors import compare_tags
from plankwise.task_kinds._token_predictions import predict_table, predict_tests
from plankwise.task_kinds._words import Pieces, encode_words, tag_words

__all__ = ["Tokens", "auto_class", "predict_table", "predict_tests", "read"]

DEV = "dev"


class Tokens(Task):
    """Tagged texts for one tokenizer."""

    kind = "tokens"
    needs_tokens = None

    def __init__(self, config: RunConfig, tokenizer: Any, console: Console) -> None:
        self.options: Any = config.task
        self.config, self.console = config, console
        self.tokenizer = tokenizer
        self.name = Path(self.options.train).stem
        self.max_length = config.training.max_length
        self.batch_size = config.evaluation.batch_size
        self.dropped = {"duplicates": 0, "overlap": 0}
        self.train_texts, self.dev_texts = self._read()
        self.tags = self._find_tags()
        metric = self.options.metric or ("f1" if are_entities(self.tags) else "accuracy")
        if metric == "f1" and not are_entities(self.tags):
            raise ConfigError(
                f"task.metric is 'f1', which is over entities, but not all tags mark them ({', '.join(self.tags[:20])}); choose "
                "accuracy"
            )
        self.score_names = (metric,)
        self.shown = Shown(metric, unit="texts", pipeline="token-classification")
        self.dev_pieces = self._encode(DEV, self.dev_texts)
        self.dev = {DEV: self.dev_pieces.encoded}
        self.own_pieces = WeakKeyDictionary[Any, Pieces]()  # by tokenizer of a model with other tokens
        if config.evaluation.choose_on == "train":
            kept_out = self._keep_out(config.run.seed_of_data + 1)
            pieces = self._encode("choosing", kept_out)
            self.choosing = self.with_held_out(
                dev_texts=kept_out, dev_pieces=pieces, dev={DEV: pieces.encoded}, own_pieces=WeakKeyDictionary()
            )

    def _keep_out(self, seed: int) -> list[Tagged]:
        """Takes a tenth of the training texts, drawn by the seed, out of them."""
        texts = self.train_texts
        count = max(1, round(kept_out_share(len(texts)) * len(texts)))
        taken = set(np.random.default_rng(seed).permutation(len(texts))[:count].tolist())
        found = [text for row, text in enumerate(texts) if row in taken]
        if count == len(texts) or (self.score_names == ("f1",) and all({NOTHING} >= set(one.tags) for one in found)):
            raise DataError(
                f"{count} of {len(texts)} training texts would be kept out to choose by (evaluation.choose_on = 'train'), and none "
                "would be left, or they have no entity; add texts, or set evaluation.choose_on = 'dev'"
            )
        self.train_texts = [text for row, text in enumerate(texts) if row not in taken]
        return found

    @cached_property
    def train(self) -> Encoded:  # type: ignore[override]
        """Encoded when it is first asked for: scoring never does."""
        return self._encode("train", self.train_texts).encoded

    def training_texts(self) -> pa.ChunkedArray:
        return pa.chunked_array([pa.array([" ".join(text.words) for text in self.train_texts], pa.large_string())])

    def load(self, loader: Loader, path: str) -> Loaded:
        def adjust(config: Any) -> None:
            config.num_labels = len(self.tags)
            config.id2label = dict(enumerate(self.tags))
            config.label2id = {tag: index for index, tag in enumerate(self.tags)}

        return loader.model(path, AutoModelForTokenClassification, adjust=adjust, new_head=True)

    def collate(self, epoch: Any) -> DataCollatorForTokenClassification:
        return DataCollatorForTokenClassification(self.tokenizer, label_pad_token_id=IGNORED)

    def weigh(self, batch: Mapping[str, torch.Tensor]) -> float:
        """The words that have a tag: the loss is a mean over them."""
        return float((batch["labels"] != IGNORED).sum())

    def outputs(self, predictor: Predictor) -> Answers:
        """The tag that each word is given, (texts, words), as a class; IGNORED where a text has no more words."""
        tokenizer = self.tokenizer if predictor.tokenizer is None else predictor.tokenizer
        pieces = self._pieces_for(predictor.tokenizer)
        return {DEV: tag_words(predictor, pieces, tokenizer, self.batch_size, otherwise=self._nothing)}

    def held_out_for(self, tokenizer: Any) -> Encoded:
        return self._pieces_for(tokenizer).encoded

    def _pieces_for(self, tokenizer: Any) -> Pieces:
        """Dev as a tokenizer encodes it, once for each; None stands for the task's."""
        if tokenizer is None:
            return self.dev_pieces
        if tokenizer not in self.own_pieces:
            self.own_pieces[tokenizer] = self._encode(DEV, self.dev_texts, tokenizer)
        return self.own_pieces[tokenizer]

    @property
    def _nothing(self) -> int:
        """The class of words that were cut off; wrong where every word has a tag of its own."""
        return self.tags.index(NOTHING) if NOTHING in self.tags else len(self.tags)

    def score(self, predictor: Predictor) -> dict[str, float]:
        return self.score_outputs(self.outputs(predictor))

    def score_outputs(self, outputs: Answers) -> dict[str, float]:
        right, words = self._count_words(outputs[DEV]).sum(0)
        found = {"accuracy": float(right / words)}
        if are_entities(self.tags):
            found = {**f1_of(*self._count_entities(outputs[DEV]).sum(0)), **found}
        return {**found, "score": found[self.score_names[0]]}

    def score_samples(self, outputs: Answers, draw: Draw) -> np.ndarray:
        shares = self._shares(outputs[DEV])
        return np.asarray(_divide(draw(len(shares)) @ shares))

    def differences(self, first: Sequence[Answers], second: Sequence[Answers], masks: Answers) -> np.ndarray:
        swapped = masks[DEV].astype(float)
        found = []
        for ours, theirs in zip(first, second, strict=True):
            one, other = self._shares(ours[DEV]), self._shares(theirs[DEV])
            moved = swapped @ (other - one)
            found.append(_divide(one.sum(0) + moved) - _divide(other.sum(0) - moved))
        return np.mean(found, axis=0)

    def _shares(self, predicted: np.ndarray) -> np.ndarray:
        """Two figures of each text (N, 2), whose sums over texts divide to the score."""
        if self.score_names == ("accuracy",):
            return self._count_words(predicted)
        found, given, there = self._count_entities(predicted).T
        return np.stack([2 * found, given + there], axis=1)

    def _count_words(self, predicted: np.ndarray) -> np.ndarray:
        """Of each text how many words are tagged rightly, and how many there are, (N, 2)."""
        known = self._truth != IGNORED
        return np.stack([((predicted == self._truth) & known).sum(1), known.sum(1)], axis=1)

    def _count_entities(self, predicted: np.ndarray) -> np.ndarray:
        return count_entities(self._name_tags(predicted), [text.tags for text in self.dev_texts])

    def _name_tags(self, predicted: np.ndarray) -> list[list[str]]:
        """The tags of each text's words, by what `outputs` gives."""
        names = (*self.tags, NOTHING)
        return [[names[tag] for tag in row if tag != IGNORED] for row in predicted]

    @cached_property
    def _truth(self) -> np.ndarray:
        """The right tags of dev, as `outputs` has them."""
        truth = np.full((len(self.dev_texts), max(len(text.words) for text in self.dev_texts)), IGNORED)
        places = {tag: index for index, tag in enumerate(self.tags)}
        for row, text in zip(truth, self.dev_texts, strict=True):
            row[: len(text.tags)] = [places[tag] for tag in text.tags]
        return truth

    def texts(self, most: int) -> list[tuple[str, ...]]:
        return [(" ".join(text.words),) for text in self.dev_texts[:most]]

    def view_errors(self, open_model: Callable[[str], Predictor]) -> ErrorView:
        before, after = (self._name_tags(self.outputs(open_model(name))[DEV]) for name in MODELS)
        return compare_tags(self.dev_texts, before, after, entities=are_entities(self.tags))

    def check_config(self, config: RunConfig) -> None:
        if config.method.name == "exits":
            raise ConfigError(
                "method.name is 'exits', which is for classes of whole texts, but the task is on tags of words; choose another "
                "method"
            )
        if config.plan.solving.head == "labels":
            raise ConfigError(
                "plan.solving.head is 'labels', which is for classes of whole texts, but the task is on tags of words; leave it "
                "at 'kept'"
            )

    def check_head(self, config: Any, path: str, *, otherwise: str | None = None) -> None:
        if any("ForTokenClassification" in name for name in config.architectures or ()):
            check_labels(config, self.tags, path, otherwise=NEW_HEAD if otherwise is None else otherwise)

    def check_predecessor(self, predictor: Predictor, path: str, *, given: bool = False) -> dict[str, str]:
        score = self.score(predictor)["score"]
        words = self._truth[self._truth != IGNORED]
        always = 0.0 if self.score_names == ("f1",) else np.bincount(words).max() / len(words)
        if score > always:
            return {}
        fault = (
            f"the predecessor {path} scores {score:.4f} on dev, no better than one tag for every word ({always:.4f}); there is "
            "nothing to keep: train it on the task (predecessor.finetune = true), longer (predecessor.training.epochs), or with "
            "another predecessor.training.learning_rate"
        )
        return enforce({MAJORITY: fault}, self.config.evaluation.ignore_guards)

    def to_json(self) -> dict:
        return {
            "name": self.name,
            "score": list(self.score_names),
            "labels": list(self.tags),
            "train": len(self.train_texts),
            "dev": {DEV: len(self.dev_texts)},
            "facts": [["tags", ", ".join(self.tags)]],
            "dropped": {"train": self.dropped},
            "cut": {"train": self.train.num_cut, DEV: self.dev[DEV].num_cut},
        }

    def _encode(self, name: str, texts: Sequence[Tagged], own: Any = None) -> Pieces:
        """By a model's own tokenizer, if one is given."""
        places = {tag: index for index, tag in enumerate(self.tags)}
        tags = [[places[tag] for tag in text.tags] for text in texts]
        pieces = encode_words(
            [text.words for text in texts], tags, self.tokenizer if own is None else own, self.max_length
        )
        more = "" if own is None else f", {len(own)} tokens of a model's own"
        tell_encoded(name, pieces.encoded, self.max_length, self.console, more)
        return pieces

    def _read(self) -> tuple[list[Tagged], list[Tagged]]:
        """The texts of train and of dev; of train, none twice and none that is in dev, too."""
        options, random = self.options, np.random.default_rng(self.config.run.seed_of_data)
        train = self._read_file("train")
        if options.dev is not None:
            dev = self._read_file("dev")
        else:
            train = list(dict.fromkeys(train))
            if len(train) < 2:
                raise DataError("train has 1 text, too few to split dev off; add texts, or give task.dev")
            order = random.permutation(len(train))
            count = min(max(1, round(len(train) * options.dev_share)), len(train) - 1)
            dev, train = ([train[row] for row in sorted(some)] for some in (order[:count], order[count:]))
        if options.dev_limit is not None and len(dev) > options.dev_limit:
            dev = [dev[row] for row in sorted(random.permutation(len(dev))[: options.dev_limit])]
        known, before = {text.words for text in dev}, len(train)
        train = list(dict.fromkeys(train))
        kept = [text for text in train if text.words not in known]
        self.dropped = {"duplicates": before - len(train), "overlap": len(train) - len(kept)}
        if any(self.dropped.values()):
            told = f"{self.dropped['duplicates']} duplicates, {self.dropped['overlap']} that are in dev too"
            self.console.print(f"train: dropped {told}", soft_wrap=True)
        if not kept:
            raise DataError("every text of train is in dev too, so that none is left; give other texts in task.train")
        if options.train_limit is not None and len(kept) > options.train_limit:
            kept = [kept[row] for row in sorted(random.permutation(len(kept))[: options.train_limit])]
        return kept, dev

    def _read_file(self, which: str) -> list[Tagged]:
        options = self.options
        path, key = getattr(options, which), f"task.{which}"
        return read_tagged(path, options.words, options.tags, options.labels, key=key, encoding=options.encoding)

    def _find_tags(self) -> tuple[str, ...]:
        """The tags in the order of classes."""
        found = {tag for texts in (self.train_texts, self.dev_texts) for text in texts for tag in text.tags}
        if self.options.labels is None:
            if len(found) < 2:
                raise DataError(f"every tag is {next(iter(found))!r}; at least two are needed, so check task.tags")
            return (*([NOTHING] if NOTHING in found else []), *sorted(found - {NOTHING}))
        if unknown := sorted(found - set(self.options.labels)):
            raise DataError(
                f"tag {unknown[0]!r} is not in task.labels ({', '.join(self.options.labels)}); add it, or fix the files"
            )
        return tuple(self.options.labels)


def _divide(sums: np.ndarray) -> Any:
    """The score of sums (…, 2) over texts; 0 where there is nothing to divide by."""
    return sums[..., 0] / np.maximum(sums[..., 1], 1)


def auto_class(options: Any) -> Any:
    return AutoModelForTokenClassification


def read(config: RunConfig, tokenizer: Any, console: Console) -> Tokens:
    """Reads, splits and encodes the tagged texts, and says what was dropped or cut.

    Raises:
        DataError: they cannot be read.
    """
    return Tokens(config, tokenizer, console)
