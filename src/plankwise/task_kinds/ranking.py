"""Ranking: a model gives each query with a text one score, and the scores put the texts of a query in order (cross-encoders).

A model with one logit. The loss of pairs is the binary cross-entropy of its sigmoid if all training scores are from 0 to 1, the
squared difference if not: the model's own loss by its config's `problem_type`. That of triples is log(1 + e^(worse - better)) of
the two logits (Burges et al. 2005), which has no margin to choose. The score is nDCG@10 by query, MRR@10 beside it
(`evaluation.ranking`). In a comparison whole queries change sides.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import torch
from rich.console import Console
from torch.nn import functional
from transformers import AutoModelForSequenceClassification

from plankwise.config import RunConfig
from plankwise.data.batch import plain_collator
from plankwise.data.encode import Encoded
from plankwise.data.ranking import Candidates
from plankwise.errors import ConfigError
from plankwise.evaluation.error_view import ErrorView
from plankwise.evaluation.errors import MODELS
from plankwise.evaluation.guards import MAJORITY, TRAIN_BETTER, TRAIN_HERE, enforce
from plankwise.evaluation.predict import predict
from plankwise.evaluation.ranking import MRR, NDCG, TOLERANCE, beyond_random, score_at_random, score_rankings
from plankwise.models.labels import NEW_HEAD
from plankwise.models.loading import Loaded, Loader
from plankwise.models.rankers import load_ranker
from plankwise.record import Shown
from plankwise.runtimes import Predictor
from plankwise.task_kinds import Answers, Draw, Task, weighted_means
from plankwise.task_kinds._encoding import encode_table
from plankwise.task_kinds._ranking_errors import compare_rankings
from plankwise.task_kinds._ranking_examples import DEV, keep_out, read_examples
from plankwise.task_kinds._ranking_predictions import predict_table, predict_tests
from plankwise.task_kinds.labels import has_classifier

__all__ = ["Ranking", "auto_class", "predict_table", "predict_tests", "read"]

ENTROPY, SQUARED, ORDER = "binary cross-entropy", "squared difference", "log(1 + e^(worse - better))"
PROBLEMS = {ENTROPY: "multi_label_classification", SQUARED: "regression", ORDER: "multi_label_classification"}


class Ranking(Task):
    """Queries with texts, encoded for one tokenizer."""

    kind = "ranking"
    score_names = (NDCG,)
    beside = (MRR,)
    gives_classes = False
    needs_tokens = None
    shown = Shown(NDCG, unit="pairs of query and text", pipeline="text-ranking")

    def __init__(self, config: RunConfig, tokenizer: Any, console: Console) -> None:
        self.options: Any = config.task
        self.config, self.console = config, console
        self.tokenizer = tokenizer
        self.name = Path(self.options.train).stem
        self.max_length = config.training.max_length
        self.batch_size = config.evaluation.batch_size
        self.examples = read_examples(self.options, config.run.seed_of_data, console)
        self.loss_name = self._find_loss()
        if self.loss_name == ORDER:
            self.loss = compare_neighbours
        self.own_dev = WeakKeyDictionary[Any, Encoded]()  # by tokenizer of a model with other tokens
        self.dev = {DEV: self._encode(DEV, self.candidates.table(), tokenizer)}
        if config.evaluation.choose_on == "train":
            self.examples, kept_out = keep_out(self.examples, self.options.score, config.run.seed_of_data + 1)
            self.choosing = self.with_held_out(
                examples=replace(self.examples, dev=kept_out),
                own_dev=WeakKeyDictionary(),
                dev={DEV: self._encode("choosing", kept_out.table(), tokenizer)},
            )

    def _find_loss(self) -> str:
        if self.examples.together > 1:
            return ORDER
        scores = self.examples.train["label"].to_numpy()
        return ENTROPY if scores.min() >= 0 and scores.max() <= 1 else SQUARED

    @property
    def candidates(self) -> Candidates:
        return self.examples.dev

    @cached_property
    def train(self) -> Encoded:  # type: ignore[override]
        """Encoded when it is first asked for: scoring never does."""
        encoded = self._encode("train", self.examples.train, self.tokenizer)
        return replace(encoded, together=self.examples.together)

    def training_texts(self) -> pa.ChunkedArray:
        table = self.examples.train
        chunks = [chunk for name in ("text", "text_pair") for chunk in table[name].chunks]
        return pa.chunked_array(chunks, pa.string())

    def load(self, loader: Loader, path: str) -> Loaded:
        return load_ranker(
            loader,
            path,
            problem=PROBLEMS[self.loss_name],
            bounded=self.loss_name == ENTROPY,
            pad_token_id=self.tokenizer.pad_token_id,
        )

    def collate(self, epoch: Any) -> Any:
        pad = plain_collator(self.train, self.tokenizer)

        def make(examples: list[dict]) -> Any:
            batch = pad(examples)
            batch["labels"] = batch["labels"].float()[:, None]  # of the logits' shape
            return batch

        return make

    def held_out_for(self, tokenizer: Any) -> Encoded:
        """The dev pairs as a tokenizer encodes them, once for each; None stands for the task's."""
        if tokenizer is None:
            return self.dev[DEV]
        if tokenizer not in self.own_dev:
            self.own_dev[tokenizer] = self._encode(DEV, self.candidates.table(), tokenizer)
        return self.own_dev[tokenizer]

    def outputs(self, predictor: Predictor) -> Answers:
        """The logit of each dev pair, (N,)."""
        own = predictor.tokenizer
        tokenizer = self.tokenizer if own is None else own
        return {DEV: predict(predictor, self.held_out_for(own), tokenizer, self.batch_size)}

    def score(self, predictor: Predictor) -> dict[str, float]:
        return self.score_outputs(self.outputs(predictor))

    def score_outputs(self, outputs: Answers) -> dict[str, float]:
        ndcg, mrr = map(float, score_rankings(outputs[DEV], self.candidates).mean(0))
        return {NDCG: ndcg, MRR: mrr, "score": ndcg}

    def score_samples(self, outputs: Answers, draw: Draw) -> np.ndarray:
        return weighted_means(score_rankings(outputs[DEV], self.candidates)[:, 0], draw)

    def beyond_constant(self, outputs: Answers) -> dict:
        return beyond_random(score_rankings(outputs[DEV], self.candidates)[:, 0], self.candidates)

    def differences(self, first: Sequence[Answers], second: Sequence[Answers], masks: Answers) -> np.ndarray:
        """Whole queries change sides, as the masks have it of each one's first text."""
        signs = 1 - 2.0 * masks[DEV][:, self.candidates.bounds[:-1]]
        found = []
        for ours, theirs in zip(first, second, strict=True):
            ahead, behind = (score_rankings(one[DEV], self.candidates)[:, 0] for one in (ours, theirs))
            found.append(signs @ (ahead - behind) / len(ahead))
        return np.mean(found, axis=0)

    def texts(self, most: int) -> list[tuple[str, ...]]:
        table = self.candidates.table().slice(0, most)
        return list(zip(*(table[name].to_pylist() for name in ("text", "text_pair")), strict=True))

    def answer(self, outputs: Any) -> Any:
        return outputs["logits"][:, 0].tolist()

    def view_errors(self, open_model: Callable[[str], Predictor]) -> ErrorView:
        return compare_rankings(self.candidates, *(self.outputs(open_model(name))[DEV] for name in MODELS))

    def check_config(self, config: RunConfig) -> None:
        if config.method.name == "exits":
            raise ConfigError(
                "method.name is 'exits', which compares answers, but the task is on rankings, where only the order of scores "
                "counts; choose another method"
            )
        if config.plan.solving.head == "labels":
            raise ConfigError(
                "plan.solving.head is 'labels', which is for classes of whole texts, but the task is on rankings; leave it at "
                "'kept'"
            )
        for key, options in {"predecessor.training": config.predecessor.training, "training": config.training}.items():
            if options.batch_size % self.examples.together:
                raise ConfigError(
                    f"{key}.batch_size is {options.batch_size}, but the task's rows are triples, which are two texts each in a "
                    "batch; choose an even number"
                )

    def check_head(self, config: Any, path: str, *, otherwise: str | None = None) -> None:
        if has_classifier(config) and config.num_labels != 1:
            raise ConfigError(
                f"{path} has {config.num_labels} classes, but a ranking needs one score for each pair; use a model with one "
                f"output{NEW_HEAD if otherwise is None else otherwise}"
            )

    def check_predecessor(self, predictor: Predictor, path: str, *, given: bool = False) -> dict[str, str]:
        score = self.score(predictor)["score"]
        chance = float(score_at_random(self.candidates)[0].mean())
        if score > chance + TOLERANCE:
            return {}
        fault = (
            f"the predecessor {path} has an {NDCG} of {score:.4f} on dev, no better than texts in a random order ({chance:.4f}); "
            f"there is nothing to keep: {TRAIN_HERE if given else TRAIN_BETTER}, or give one that has learnt the task"
        )
        return enforce({MAJORITY: fault}, self.config.evaluation.ignore_guards)

    def to_json(self) -> dict:
        candidates, count = self.candidates, len(self.candidates.queries)
        relevant = int((candidates.gains > 0).sum())
        facts = [
            ["loss", self.loss_name],
            ["dev queries", f"{count:,} with {len(candidates.texts):,} texts, {relevant:,} of them relevant"],
        ]
        return {
            "name": self.name,
            "score": list(self.score_names),
            "train": self.examples.train.num_rows,
            "dev": {DEV: len(candidates.texts)},
            "facts": facts,
            "queries": {DEV: count},
            "left_out": asdict(self.examples.left),
            "dropped": {name: asdict(dropped) for name, dropped in self.examples.dropped.items()},
            "notes": list(self.examples.notes),
            "cut": {"train": self.train.num_cut, DEV: self.dev[DEV].num_cut},
        }

    def _encode(self, name: str, table: pa.Table, tokenizer: Any) -> Encoded:
        own = tokenizer is not self.tokenizer
        return encode_table(name, table, tokenizer, self.max_length, self.console, own=own)


def compare_neighbours(model: Any, inputs: dict[str, torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
    """The mean of log(1 + e^(worse - better)) over neighbours in a batch, of which the first is the better text."""
    output = model(**inputs)
    logits = output.get("logits")
    if logits is None:
        return output["loss"]  # a step that trains nothing
    better, worse = logits.view(-1, 2).unbind(1)
    return functional.softplus(worse - better).mean()


def auto_class(options: Any) -> Any:
    return AutoModelForSequenceClassification


def read(config: RunConfig, tokenizer: Any, console: Console) -> Ranking:
    """Reads, cleans, splits and encodes pairs or triples, and says what was dropped or cut.

    Raises:
        DataError: they cannot be read, or no query is left to score by.
    """
    return Ranking(config, tokenizer, console)
