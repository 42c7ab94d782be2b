"""Word tags: each word of a text has a tag; "O" is for words that are nothing in particular.

A word's tag stands at its first piece; its other pieces, special tokens and padding have none. The score is F1 over the words
that have, or are given, another tag than "O".
"""

from typing import Any

import numpy as np
from datasets import Dataset
from rich.console import Console
from transformers import AutoModelForTokenClassification, DataCollatorForTokenClassification

from plankwise.config import RunConfig
from plankwise.data.batch import sorted_batches
from plankwise.data.encode import Encoded
from plankwise.errors import RunError
from plankwise.kinds import load_kind
from plankwise.models.labels import NEW_HEAD, check_labels
from plankwise.models.loading import Loaded, Loader
from plankwise.record import Shown
from plankwise.runtimes import Predictor
from plankwise.task_kinds import Answers, Task

NOTHING = "O"
IGNORED = -100  # the label of a token without a tag, as transformers has it


class WordTags(Task):
    """Tagged texts for one tokenizer."""

    kind = "word_tags"
    score_names = ("f1",)
    shown = Shown("f1", unit="texts", pipeline="token-classification")

    def __init__(self, config: RunConfig, tokenizer: Any) -> None:
        source: Any = load_kind("tasks", config.task.name, key="task.name")
        train, dev = source.read(config.task)
        self.name = config.task.name
        self.tokenizer = tokenizer
        self.max_length = config.training.max_length
        self.batch_size = config.evaluation.batch_size
        found = {tag for rows in (train, dev) for _, tags in rows for tag in tags}
        self.tags = (NOTHING, *sorted(found - {NOTHING}))
        self.dev_texts = [" ".join(words) for words, _ in dev]
        self.train = self._encode(train)
        self.dev = {"dev": self._encode(dev)}

    def _encode(self, rows: list[tuple[list[str], list[str]]]) -> Encoded:
        words = [words for words, _ in rows]
        tokens = self.tokenizer(words, is_split_into_words=True, truncation=True, max_length=self.max_length)
        whole = self.tokenizer(words, is_split_into_words=True)["input_ids"]
        labels = [self._align(tokens.word_ids(index), tags) for index, (_, tags) in enumerate(rows)]
        ids = tokens["input_ids"]
        lengths = np.array([len(row) for row in ids])
        num_cut = sum(len(row) < len(all_of_it) for row, all_of_it in zip(ids, whole, strict=True))
        return Encoded(Dataset.from_dict({"input_ids": ids, "labels": labels}), lengths, num_cut)

    def _align(self, places: list[int | None], tags: list[str]) -> list[int]:
        """Each token's label, from the word that it is a piece of."""
        befores = [None, *places[:-1]]
        return [
            IGNORED if word is None or word == before else self.tags.index(tags[word])
            for word, before in zip(places, befores, strict=True)
        ]

    def collate(self, epoch: Any) -> DataCollatorForTokenClassification:
        return DataCollatorForTokenClassification(self.tokenizer, label_pad_token_id=IGNORED)

    def load(self, loader: Loader, path: str) -> Loaded:
        def adjust(config: Any) -> None:
            config.num_labels = len(self.tags)
            config.id2label = dict(enumerate(self.tags))
            config.label2id = {tag: index for index, tag in enumerate(self.tags)}

        return loader.model(path, AutoModelForTokenClassification, adjust=adjust, new_head=True)

    def outputs(self, predictor: Predictor) -> Answers:
        return {name: self._predict(predictor, encoded) for name, encoded in self.dev.items()}

    def _predict(self, predictor: Predictor, encoded: Encoded) -> np.ndarray:
        """The tag that each word is given, (texts, words); IGNORED where a text has no more words."""
        wanted = self._truth(encoded)
        found = np.full_like(wanted, IGNORED)
        labels = encoded.dataset["labels"]
        for rows, batch in sorted_batches(encoded, self.tokenizer, self.batch_size):
            predicted = predictor(batch)["logits"].argmax(-1).cpu().numpy()
            for row, tags in zip(rows.tolist(), predicted, strict=True):
                places = np.flatnonzero(np.array(labels[row]) != IGNORED)
                found[row, : len(places)] = tags[places]
        return found

    def _truth(self, encoded: Encoded) -> np.ndarray:
        """The same of the tags that are right."""
        rows = [[label for label in labels if label != IGNORED] for labels in encoded.dataset["labels"]]
        truth = np.full((len(rows), max(map(len, rows))), IGNORED)
        for row, tags in zip(truth, rows, strict=True):
            row[: len(tags)] = tags
        return truth

    def score(self, predictor: Predictor) -> dict[str, float]:
        return self.score_outputs(self.outputs(predictor))

    def score_outputs(self, outputs: Answers) -> dict[str, float]:
        predicted, truth = outputs["dev"], self._truth(self.dev["dev"])
        right, known = predicted == truth, truth != IGNORED
        given, there = (int((tags[known] > 0).sum()) for tags in (predicted, truth))
        f1 = 2 * int((right & known & (truth > 0)).sum()) / max(1, given + there)
        return {"f1": f1, "accuracy": float(right[known].mean()), "score": f1}

    def texts(self, most: int) -> list[tuple[str, ...]]:
        return [(text,) for text in self.dev_texts[:most]]

    def check_head(self, config: Any, path: str, *, otherwise: str | None = None) -> None:
        if any("ForTokenClassification" in name for name in config.architectures or ()):
            check_labels(config, self.tags, path, otherwise=NEW_HEAD if otherwise is None else otherwise)

    def check_predecessor(self, predictor: Predictor, path: str, *, given: bool = False) -> None:
        if not self.score(predictor)["score"]:
            raise RunError(f"the predecessor {path} finds no tag but {NOTHING!r} on dev; train it on the task first")

    def to_json(self) -> dict:
        return {
            "name": self.name,
            "score": list(self.score_names),
            "labels": list(self.tags),
            "train": len(self.train.lengths),
            "dev": {name: len(encoded.lengths) for name, encoded in self.dev.items()},
            "cut": {"train": self.train.num_cut, "dev": self.dev["dev"].num_cut},
            "facts": [["tags", ", ".join(self.tags)]],
        }


def auto_class(options: Any) -> Any:
    return AutoModelForTokenClassification


def read(config: RunConfig, tokenizer: Any, console: Console) -> WordTags:
    """Reads and encodes the tagged texts.

    Raises:
        DataError: they cannot be read.
    """
    return WordTags(config, tokenizer)
