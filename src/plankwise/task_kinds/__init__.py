"""Kinds of task, one file each. A kind owns all that depends on what its models give: labels, tags, answers, vectors, texts.

A task's source says in `KIND` which kind it is for; `task_kinds/labels.py` is KIND = "labels". A file offers:

    auto_class(options)                 the Auto class of transformers that has models for such a task
    read(config, tokenizer, console)    the Task of a config: read, cleaned, split, ready for one tokenizer
    preview(options)                    optional: the task's options with as few examples as will do to look at a plan
    predict_table, predict_tests        optional: what `plankwise predict` does; see `task_kinds/labels.py`
    PREDICTIONS                         optional: the file that it writes of a table, if none is named and it is not a csv

Everything else that a run asks (how a model is loaded, batches, loss, scores, what is timed, how a score is shown) it asks the
Task.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import torch
from rich.console import Console
from torch import nn

from plankwise.analysis_options import AnalysisOptions
from plankwise.config import RunConfig
from plankwise.data.encode import Encoded
from plankwise.errors import ConfigError
from plankwise.evaluation.error_view import ErrorView
from plankwise.evaluation.held_back import HALVES, first_half
from plankwise.evaluation.latency import Timed
from plankwise.evaluation.metrics import retained
from plankwise.kinds import load_kind
from plankwise.models.loading import Loaded, Loader
from plankwise.record import Shown
from plankwise.runtimes import Predictor

Loss = Callable[
    [nn.Module, dict[str, torch.Tensor], torch.Tensor], torch.Tensor
]  # model, batch, its rows in train: a mean
Read = Callable[
    [nn.Module, dict[str, torch.Tensor]], dict[str, torch.Tensor]
]  # model, batch: named tensors, one row an example
Collate = Callable[
    [Callable[[], int]], Callable[[list[dict]], Any]
]  # given how to ask for the epoch, makes batches: a BatchEncoding each
Weigh = Callable[[Mapping[str, torch.Tensor]], float]
Answers = Mapping[str, np.ndarray]  # a model's outputs by dev set, one row an example
Draw = Callable[[int], np.ndarray]  # given N examples, how often each counts in R samples, (R, N)


class Examined(NamedTuple):
    """What is found out about a finished model."""

    metrics: dict[str, float]  # with `score`
    beyond_constant: dict | None = None
    outputs: Answers = MappingProxyType({})  # what `Task.outputs` gives


@dataclass(frozen=True)
class PlainTexts:
    """Texts (or pairs) as they stand, and what is to be said of them: all that a model without the task's tokens needs."""

    train: list[tuple[str, ...]]
    targets: Callable[[], np.ndarray]  # of train: classes (N,), or vectors (N, D)
    dev: dict[str, list[tuple[str, ...]]]
    output: str = "logits"  # what a model is to call its answers
    classes: int | None = None  # how many there are; None if the targets are vectors


@dataclass(frozen=True)
class HeadAlone:
    """A new head is trained with all else frozen, before the model is trained as a whole."""

    share: float  # of the steps
    learning_rate: float


@dataclass(frozen=True)
class Imitation:
    """A loss that compares a model's answers with the predecessor's own, computed once for all training examples."""

    read: Read  # what is kept of the predecessor's answers
    loss: Callable[[Any], Loss]  # given them, as `training.targets.Targets`


@dataclass(frozen=True)
class ErrorRequest:
    """What an analysis of errors is asked for beside the figures."""

    sample: Path | None = None  # where to write errors for labelling by hand
    count: int = 200  # of those
    labels: Path | None = None  # such a file, filled in


class Task(ABC):
    """A task's examples for one tokenizer, and everything that depends on what its models give."""

    kind: str
    name: str
    score_names: tuple[str, ...]  # the metrics whose mean is the score
    beside: tuple[str, ...] = ()  # other metrics that a comparison tells beside it
    shown: Shown  # how scores are shown
    tokenizer: Any
    max_length: int
    train: Encoded
    dev: dict[str, Encoded]  # what is not trained on, labels or none
    loss: Loss | None = None  # if not the model's own
    imitation: Imitation | None = (
        None  # the loss instead, if it needs the predecessor's answers; then nothing trains that
    )
    collate: Collate | None = None  # how training batches are made, if not by padding alone
    weigh: Weigh | None = None  # how much a batch counts in the mean over a step, if not by its examples
    head_alone: HeadAlone | None = None  # how a new head begins
    on_disk: bool = False  # nothing can be scored before `lay_out` has written them
    gives_classes: bool = True  # whether the largest output is an answer
    # Why models with other tokens than the predecessor's cannot be scored beside it, as part of a sentence; None if they can.
    needs_tokens: str | None = "texts are encoded by the predecessor's tokenizer alone"
    # The same task whose dev is training examples that were kept out: what chooses weights, if dev does not.
    choosing: "Task | None" = None
    needs_torch: str | None = None  # why exported models cannot be scored, as part of a sentence; None if they can

    @property
    def held_out(self) -> Encoded:
        """The first dev set."""
        return next(iter(self.dev.values()))

    def held_out_for(self, tokenizer: Any) -> Encoded:
        """The same for a model with a tokenizer of its own; None stands for the task's."""
        return self.held_out

    def training_texts(self) -> pa.ChunkedArray:
        """All texts that are trained on, those of pairs one by one.

        Raises:
            ConfigError: such a task does not give them.
        """
        raise ConfigError(
            f"the texts of the task are to say which tokens are kept, but a task on {self.kind} does not give them; name a text "
            "file instead of 'task'"
        )

    def training_table(self) -> pa.Table:
        """The training examples as they stand, in the order of `train`: `text`, `text_pair` if there are pairs, and `label`.

        Raises:
            ConfigError: such a task does not give them.
        """
        raise ConfigError(
            f"method.augmentation.copies is above 0, but the task is on {self.kind}, and only texts (or pairs) with a label can be "
            "copied with other words; set it to 0"
        )

    def plain_texts(self) -> PlainTexts | None:
        """What models of whole texts that are not transformers are fitted on and scored by; None if there can be none."""
        return None

    @abstractmethod
    def load(self, loader: Loader, path: str) -> Loaded:
        """The model at `path` with a head for the task.

        Raises:
            ConfigError: nothing can be loaded from there.
        """

    def outputs(self, predictor: Predictor) -> Answers:
        """What is kept of a model's outputs on dev, to compare models example by example; nothing if that cannot be done."""
        return {}

    @abstractmethod
    def score(self, predictor: Predictor) -> dict[str, float]:
        """The task's metrics on dev, and `score`: higher is better."""

    def score_outputs(self, outputs: Answers) -> dict[str, float]:
        """The same of outputs that were kept."""
        raise NotImplementedError

    def score_examples(self, examples: Encoded, outputs: np.ndarray) -> float:
        """The score of outputs (N, C) on any labelled examples of the task, those of train for one.

        Raises:
            ConfigError: such a task has none.
        """
        raise ConfigError(
            f"the task is on {self.kind}, whose training examples have no score to choose by; set what is to be chosen yourself"
        )

    def score_in_training(self, predictor: Predictor) -> dict[str, float]:
        """The same as `score`, which chooses a stage's best weights; a kind that can tell adds `score_halves`."""
        if self.choosing is not None:
            return self.choosing.score_outputs(self.choosing.outputs(predictor))
        outputs = self.outputs(predictor)
        return {**self.score_outputs(outputs), **self.score_halves(outputs)} if outputs else self.score(predictor)

    def with_held_out(self, **changes: Any) -> Self:
        """The same task with the held-out examples that `changes` says by attribute; before anything is kept of its own."""
        other = copy.copy(self)
        vars(other).update(changes)
        return other

    def score_samples(self, outputs: Answers, draw: Draw) -> np.ndarray:
        """The score on R samples of dev, (R,), undefined where a sample has nothing to score; empty if the kind cannot tell."""
        return np.empty(0)

    def score_halves(self, outputs: Answers) -> dict[str, float]:
        """The score on two fixed halves of dev, by the names in `evaluation.held_back.HALVES`; empty if it cannot be told."""

        def draw(count: int) -> np.ndarray:
            half = first_half(count)
            return np.stack([half, ~half]).astype(float)

        found = self.score_samples(outputs, draw)
        return dict(zip(HALVES, found.tolist(), strict=True)) if len(found) and np.isfinite(found).all() else {}

    def resample(self, outputs: Answers, rounds: int) -> np.ndarray:
        """The score on bootstrap samples of dev, the same ones whatever the outputs, (R,); empty if it cannot be told."""

        def draw(count: int) -> np.ndarray:
            return np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), rounds).astype(float)

        return self.score_samples(outputs, draw)

    def as_shown(self, score: float) -> float:
        """The figure that is shown for a score: the same, unless `shown.key` names another."""
        return score

    def beyond_constant(self, outputs: Answers) -> dict | None:
        """What the record says of whether a model with these outputs knows more than one answer for everything.

        The keys are those of `evaluation.constant.beyond_constant`. None if the kind does not say.
        """
        return None

    def examine(self, predictor: Predictor) -> "Examined":
        """The metrics of a model, what `beyond_constant` says of it, and what is kept of its outputs, from one pass over dev."""
        outputs = self.outputs(predictor)
        if not outputs:
            return Examined(self.score(predictor))
        return Examined(self.score_outputs(outputs), self.beyond_constant(outputs), outputs)

    def differences(self, first: Sequence[Answers], second: Sequence[Answers], masks: Answers) -> np.ndarray:
        """The mean difference of the score over pairs of models (seeds), after each of R exchanges of dev examples.

        `masks` (R, N) by dev set: the examples whose outputs change sides.
        """

        def exchanged(ours: Answers, theirs: Answers, row: int) -> Answers:
            sides = {name: (ours[name], theirs[name], masks[name][row]) for name in ours}
            return {name: np.where(mask.reshape(-1, *[1] * (a.ndim - 1)), b, a) for name, (a, b, mask) in sides.items()}

        rounds = range(len(next(iter(masks.values()))))
        pairs = list(zip(first, second, strict=True))
        return np.array(
            [
                np.mean(
                    [
                        self.score_outputs(exchanged(a, b, row))["score"]
                        - self.score_outputs(exchanged(b, a, row))["score"]
                        for a, b in pairs
                    ]
                )
                for row in rounds
            ]
        )

    def retained(self, successor: float, predecessor: float) -> float | None:
        """The share of the predecessor's score that is kept; None where a share means nothing."""
        return retained(successor, predecessor) if predecessor > 0 else None

    @abstractmethod
    def texts(self, most: int) -> list[tuple[str, ...]]:
        """Up to `most` dev texts (or pairs) as they stand in the data."""

    def encode(self, texts: list[tuple[str, ...]], tokenizer: Any = None) -> Any:
        """A padded batch of texts, as a model takes it, by the model's own tokenizer if one is given."""
        columns = [list(column) for column in zip(*texts, strict=True)]
        encode = self.tokenizer if tokenizer is None else tokenizer
        return encode(*columns, truncation=True, max_length=self.max_length, padding=True, return_tensors="pt")

    def answer(self, outputs: Any) -> Any:
        """What a user reads off a model's outputs, on the CPU."""
        return outputs["logits"].argmax(-1).tolist()

    def timed(self, most: int = 1000) -> Timed:
        """What is timed: from text to answer."""
        return Timed(self.texts(most), self.encode, self.answer)

    def find_errors(
        self,
        open_model: Callable[[str], Predictor],
        options: AnalysisOptions,
        request: ErrorRequest,
        before: dict,
        console: Console,
    ) -> dict | None:
        """Where `predecessor` and `successor` are right and wrong, as JSON; `before` is what an earlier analysis found.

        A kind whose errors can be labelled by hand has its own; all others have `view_errors`. None, after saying why, if such
        a task has no analysis of errors.

        Raises:
            ConfigError: the request asks for what cannot be.
        """
        if request.sample or request.labels:
            raise ConfigError(
                f"the run's task is on {self.kind}, but errors are labelled by hand only where whole texts have classes; leave "
                "--sample and --labels out"
            )

        def open_and_tell(name: str) -> Predictor:
            console.print(f"errors: the {name} answers the dev examples")
            return open_model(name)

        view = self.view_errors(open_and_tell)
        if view is None:
            console.print(f"errors: left out, since the task is on {self.kind}, which has no analysis of errors")
            return None
        return view.to_json(keep_texts=options.texts)

    def view_errors(self, open_model: Callable[[str], Predictor]) -> ErrorView | None:
        """What dev shows of the errors of `predecessor` and `successor`, the same at each call; None if the kind does not say."""
        return None

    @abstractmethod
    def to_json(self) -> dict:
        """What the record says of the task beside `kind` and `shown`."""

    def describe(self) -> dict:
        """What the record says of the task."""
        chosen_by = None if self.choosing is None else len(self.choosing.held_out.lengths)
        return {"facts": [], "choosing": chosen_by, **self.to_json(), "kind": self.kind, "shown": self.shown.to_json()}

    def check_config(self, config: RunConfig) -> None:
        """Looks whether what the config asks for can be done on such a task.

        Raises:
            ConfigError: it cannot.
        """
        return

    def check_head(self, config: Any, path: str, *, otherwise: str | None = None) -> None:
        """Compares the head of a model that was given, by its config, with the task; `otherwise` ends the sentence.

        Raises:
            ConfigError: it is for another task.
        """
        return

    def check_answers(self, outputs: Answers, config: Any, path: str) -> None:
        """Looks whether outputs make sense for the task as they are, for a model whose config was saved with it.

        Raises:
            RunError: they do not; says what to do.
        """
        return

    @abstractmethod
    def check_predecessor(self, predictor: Predictor, path: str, *, given: bool = False) -> dict[str, str] | None:
        """Looks at what a predecessor that was trained here, or given, has learnt.

        What is wrong but was to be ignored (`evaluation.ignore_guards`) is given back, by the guard's name.

        Raises:
            RunError: nothing that could be kept.
        """

    def lay_out(self, folder: Path, console: Console, *, train: bool = True) -> None:
        """Writes into the folder what is too large for memory, or takes what an earlier call wrote; dev alone without `train`."""
        return


def weighted_means(scores: np.ndarray, draw: Draw) -> np.ndarray:
    """The means of examples' scores (N,) over samples, (R,); not a number where a sample is empty."""
    weights = draw(len(scores))
    with np.errstate(invalid="ignore"):
        return weights @ scores / weights.sum(1)


def kind_of(options: Any) -> ModuleType:
    """The kind of task that a config's [task] section asks for."""
    source = load_kind("tasks", options.name, key="task.name")
    return load_kind("task_kinds", source.KIND, key="KIND")


def read_task(config: RunConfig, tokenizer: Any, console: Console) -> Task:
    """The config's task, and says what was dropped or cut.

    Raises:
        PlankwiseError: it cannot be read.
    """
    return kind_of(config.task).read(config, tokenizer, console)
