"""Labels: each text, or pair of texts, has a class or a number."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from transformers import AutoModelForSequenceClassification

from plankwise.analysis_options import AnalysisOptions
from plankwise.config import RunConfig
from plankwise.data.clean import Dropped
from plankwise.data.encode import Encoded
from plankwise.data.source import Source, texts_of
from plankwise.data.split import Prepared, keep_out, prepare
from plankwise.evaluation.constant import beyond_constant
from plankwise.evaluation.exchange import swap
from plankwise.evaluation.guards import LABEL_ORDER, enforce, find_faults, find_swap
from plankwise.evaluation.scoring import Scorer
from plankwise.kinds import load_kind
from plankwise.models.labels import NEW_HEAD, check_labels, has_names
from plankwise.models.loading import Loaded, Loader
from plankwise.record import Shown
from plankwise.runtimes import Predictor
from plankwise.task_kinds import Answers, ErrorRequest, PlainTexts, Task
from plankwise.task_kinds._encoding import encode_table
from plankwise.task_kinds._label_errors import find_errors
from plankwise.task_kinds._label_predictions import predict_table, predict_tests

__all__ = ["Labels", "auto_class", "predict_table", "predict_tests", "read"]

CHOOSING = "choosing"  # the training examples that choose


class Labels(Task):
    """A task's labelled examples, encoded for one tokenizer."""

    kind = "labels"
    needs_tokens = None

    def __init__(self, source: Source, prepared: Prepared, tokenizer: Any, config: RunConfig, console: Console) -> None:
        self.source = source
        self.prepared = prepared
        self.tokenizer = tokenizer
        self.max_length = config.training.max_length
        self.seed = config.run.seed
        self.ignore_guards = tuple(config.evaluation.ignore_guards)
        self.console = console
        self.name = source.name
        self.score_names = source.score
        self.shown = Shown(" and ".join(source.score))
        self.dev = {name: self._encode(name, table, tokenizer) for name, table in prepared.dev.items()}
        self.own_scorers: dict[int, Scorer] = {}  # of models with a tokenizer of their own, by its identity
        self.scorer = Scorer(source, self.dev, tokenizer, config.evaluation.batch_size)
        self.chooser = self.scorer  # what chooses weights and settings
        if config.evaluation.choose_on == "train":
            self.prepared, kept_out = keep_out(prepared, source, config.run.seed_of_data)
            chosen = {CHOOSING: self._encode(CHOOSING, kept_out, tokenizer)}
            self.chooser = Scorer(source, chosen, tokenizer, config.evaluation.batch_size)

    @cached_property
    def train(self) -> Encoded:  # type: ignore[override]
        """Encoded when it is first asked for: scoring never does."""
        return self._encode("train", self.prepared.train, self.tokenizer)

    def load(self, loader: Loader, path: str) -> Loaded:
        labels = self.source.labels

        def adjust(config: Any) -> None:
            config.num_labels = max(1, len(labels))
            if labels:
                config.id2label = dict(enumerate(labels))
                config.label2id = {label: index for index, label in enumerate(labels)}
            config.problem_type = "single_label_classification" if labels else "regression"
            if config.pad_token_id is None:
                config.pad_token_id = self.tokenizer.pad_token_id

        return loader.model(path, AutoModelForSequenceClassification, adjust=adjust, new_head=True)

    def outputs(self, predictor: Predictor) -> Answers:
        return self._scorer_for(predictor.tokenizer).outputs(predictor)

    def held_out_for(self, tokenizer: Any) -> Encoded:
        return next(iter(self._scorer_for(tokenizer).dev.values()))

    def _scorer_for(self, tokenizer: Any) -> Scorer:
        """The dev sets as a tokenizer encodes them, once for each; None stands for the task's."""
        if tokenizer is None:
            return self.scorer
        if id(tokenizer) not in self.own_scorers:
            dev = {name: self._encode(name, table, tokenizer) for name, table in self.prepared.dev.items()}
            self.own_scorers[id(tokenizer)] = Scorer(self.source, dev, tokenizer, self.scorer.batch_size)
        return self.own_scorers[id(tokenizer)]

    def plain_texts(self) -> PlainTexts | None:
        if not self.source.labels:
            return None
        dev = {name: texts_of(table) for name, table in self.prepared.dev.items()}

        def targets() -> np.ndarray:
            return np.asarray(self.train.dataset.with_format("numpy")["labels"][:])

        return PlainTexts(texts_of(self.prepared.train), targets, dev, classes=len(self.source.labels))

    def training_texts(self) -> pa.ChunkedArray:
        table = self.prepared.train
        columns = [table[name] for name in ("text", "text_pair") if name in table.column_names]
        return pa.chunked_array([chunk for column in columns for chunk in column.chunks], columns[0].type)

    def training_table(self) -> pa.Table:
        return self.prepared.train

    def score(self, predictor: Predictor) -> dict[str, float]:
        return self.scorer.score(self.outputs(predictor))

    def score_outputs(self, outputs: Answers) -> dict[str, float]:
        return self.scorer.score(outputs)

    def score_halves(self, outputs: Answers) -> dict[str, float]:
        return self.scorer.score_halves(outputs)

    def resample(self, outputs: Answers, rounds: int) -> np.ndarray:
        return self.scorer.resample(outputs, rounds)

    def score_examples(self, examples: Encoded, outputs: np.ndarray) -> float:
        outputs = outputs[:, 0] if outputs.shape[1] == 1 else outputs
        scorer = Scorer(self.source, {CHOOSING: examples}, self.tokenizer, batch_size=1)
        return scorer.score({CHOOSING: outputs})["score"]

    def score_in_training(self, predictor: Predictor) -> dict[str, float]:
        outputs = self.chooser.outputs(predictor)
        halves = self.chooser.score_halves(outputs) if self.chooser is self.scorer else {}
        return {**self.chooser.score(outputs), **halves}

    def beyond_constant(self, outputs: Answers) -> dict | None:
        return beyond_constant(self.scorer, outputs, self.prepared.train)

    def differences(self, first: Sequence[Answers], second: Sequence[Answers], masks: Answers) -> np.ndarray:
        labels = self.scorer.labels()
        ours, theirs = (
            {name: np.stack([self._as_scored(seed[name]) for seed in side]) for name in labels}
            for side in (first, second)
        )
        return np.mean([swap(ours[n], theirs[n], labels[n], self.score_names, masks[n]) for n in labels], axis=0)

    def _as_scored(self, outputs: np.ndarray) -> np.ndarray:
        """Logits (N, C) in the task's order of classes, or numbers (N,)."""
        outputs = np.asarray(self.source.in_task_order(outputs), dtype=np.float64)
        return outputs[:, 0] if outputs.ndim == 2 and outputs.shape[1] == 1 else outputs

    def texts(self, most: int) -> list[tuple[str, ...]]:
        return texts_of(next(iter(self.prepared.dev.values())).slice(0, most))

    def find_errors(
        self,
        open_model: Callable[[str], Predictor],
        options: AnalysisOptions,
        request: ErrorRequest,
        before: dict,
        console: Console,
    ) -> dict | None:
        return find_errors(self, open_model, options, request, before, console)

    def check_head(self, config: Any, path: str, *, otherwise: str | None = None) -> None:
        if has_classifier(config):
            check_labels(config, self.source.labels, path, otherwise=NEW_HEAD if otherwise is None else otherwise)

    def check_answers(self, outputs: Answers, config: Any, path: str) -> None:
        if not has_names([str(name) for name in config.id2label.values()]):
            swapped = find_swap(self.scorer, dict(outputs), path)
            for fault in enforce({LABEL_ORDER: swapped} if swapped else {}, self.ignore_guards).values():
                self.console.print(f"ignored: {fault}", soft_wrap=True)

    def check_predecessor(self, predictor: Predictor, path: str, *, given: bool = False) -> dict[str, str]:
        outputs = dict(self.outputs(predictor))
        faults = find_faults(self.scorer, outputs, self.prepared.train, path, given=given)
        return enforce(faults, self.ignore_guards)

    def to_json(self) -> dict:
        prepared = self.prepared
        return {
            "name": self.name,
            "labels": list(self.source.labels),
            "score": list(self.score_names),
            "train": prepared.train.num_rows,
            "choosing": None if self.chooser is self.scorer else len(self.chooser.dev[CHOOSING].lengths),
            "dev": {name: table.num_rows for name, table in prepared.dev.items()},
            "dropped": {name: asdict(dropped) for name, dropped in prepared.dropped.items()},
            "overlap": prepared.overlap,
            "notes": list(self.source.notes),
            "cut": {"train": self.train.num_cut, **{name: encoded.num_cut for name, encoded in self.dev.items()}},
        }

    def _encode(self, name: str, table: pa.Table, tokenizer: Any) -> Encoded:
        own = tokenizer is not self.tokenizer
        return encode_table(name, table, tokenizer, self.max_length, self.console, own=own)


def auto_class(options: Any) -> Any:
    return AutoModelForSequenceClassification


def read(config: RunConfig, tokenizer: Any, console: Console) -> Labels:
    """Reads, cleans, splits and encodes a task's examples, and says what was dropped or cut.

    Raises:
        DataError: they cannot be read.
    """
    source, prepared = prepare_task(config, console)
    return Labels(source, prepared, tokenizer, config, console)


def prepare_task(config: RunConfig, console: Console) -> tuple[Source, Prepared]:
    """A task's examples as text, cleaned and split; says what was dropped."""
    options: Any = config.task
    source = load_kind("tasks", options.name, key="task.name").read(options)
    wanted = getattr(options, "labels", None)
    if wanted and tuple(wanted) != source.labels:
        source = source.reorder(tuple(wanted))
    for note in source.notes:
        console.print(note, soft_wrap=True)
    prepared = prepare(source, options, seed=config.run.seed_of_data)
    for name, dropped in prepared.dropped.items():
        if any(asdict(dropped).values()):
            console.print(f"{name}: dropped {_reasons(dropped)}", soft_wrap=True)
    if prepared.overlap and options.overlap == "keep":
        console.print(
            f"train: {prepared.overlap} of {prepared.train.num_rows} examples are in dev too and were kept, as task.overlap says; "
            "scores on dev may be too high",
            soft_wrap=True,
        )
    return source, prepared


def _reasons(dropped: Dropped) -> str:
    counts = {**asdict(dropped), "overlap": 0}
    found = [f"{count} {why}" for why, count in counts.items() if count]
    if dropped.overlap:
        found.append(f"{dropped.overlap} that are in dev too (task.overlap = 'keep' keeps them)")
    return ", ".join(found)


def has_classifier(config: Any) -> bool:
    """Whether a model was saved with a head for classification or for numbers."""
    return any("ForSequenceClassification" in name for name in config.architectures or ())
