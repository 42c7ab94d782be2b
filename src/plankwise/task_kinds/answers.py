"""Answers: each question on a text is answered by a span of it (extractive question answering).

A text is read in windows, each with the question; an answer is the span whose first and last token score highest over all windows.
The score is F1 over words as SQuAD defines it (`evaluation.spans`), exact match beside it. If some training questions have no
answer, a model may answer nothing, by the score of the first token.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import torch
from rich.console import Console
from transformers import AutoModelForQuestionAnswering

from plankwise.config import RunConfig
from plankwise.data.batch import plain_collator
from plankwise.data.encode import Encoded
from plankwise.data.split import kept_out_share
from plankwise.data.squad import Question, read_squad
from plankwise.errors import ConfigError, DataError
from plankwise.evaluation.error_view import ErrorView
from plankwise.evaluation.errors import MODELS
from plankwise.evaluation.guards import MAJORITY, enforce
from plankwise.evaluation.spans import score_answers
from plankwise.models.loading import Loaded, Loader
from plankwise.record import Shown
from plankwise.runtimes import Predictor
from plankwise.task_kinds import Answers as Outputs
from plankwise.task_kinds import Draw, Task, weighted_means
from plankwise.task_kinds._answer_errors import compare_answers
from plankwise.task_kinds._answer_predictions import predict_table, predict_tests
from plankwise.task_kinds._windows import Windows, as_windows, choose_answers, encode_windows, find_spans, find_stride

__all__ = ["Answers", "auto_class", "predict_table", "predict_tests", "read"]

DEV = "dev"


class Answers(Task):
    """Questions on texts, in windows for one tokenizer."""

    kind = "answers"
    score_names = ("f1",)
    beside = ("exact_match",)
    gives_classes = False
    needs_tokens = None

    def __init__(self, config: RunConfig, tokenizer: Any, console: Console) -> None:
        self.options: Any = config.task
        self.config, self.console = config, console
        self.tokenizer = tokenizer
        self.name = Path(self.options.train).stem
        self.max_length = config.training.max_length
        self.batch_size = config.evaluation.batch_size
        self.shown = Shown("f1", unit="windows", pipeline="question-answering")
        self.stride = find_stride(self.options.stride, tokenizer, self.max_length)
        self.dropped = {"duplicates": 0, "overlap": 0, "misplaced": 0}
        self.train_questions, self.dev_questions = self._read()
        self.may_be_none = not all(one.answers for one in self.train_questions)
        self.dev_windows = self._encode(DEV, self.dev_questions)
        self.dev = {DEV: self.dev_windows.encoded}
        self.own_windows = WeakKeyDictionary[Any, Windows]()  # by tokenizer of a model with other tokens
        if config.evaluation.choose_on == "train":
            share = kept_out_share(len(self.train_questions))
            random = np.random.default_rng(config.run.seed_of_data + 1)
            why = "keep any out to choose by; add texts, or set evaluation.choose_on = 'dev'"
            kept_out, self.train_questions = _split(self.train_questions, share, random, why)
            windows = self._encode("choosing", kept_out)
            self.choosing = self.with_held_out(
                dev_questions=kept_out, dev_windows=windows, dev={DEV: windows.encoded}, own_windows=WeakKeyDictionary()
            )

    @cached_property
    def train(self) -> Encoded:  # type: ignore[override]
        """Encoded when it is first asked for: scoring never does."""
        return self._encode("train", self.train_questions).encoded

    def training_texts(self) -> pa.ChunkedArray:
        texts = dict.fromkeys(text for one in self.train_questions for text in (one.question, one.context))
        return pa.chunked_array([pa.array(list(texts), pa.large_string())])

    def load(self, loader: Loader, path: str) -> Loaded:
        def adjust(config: Any) -> None:
            config.num_labels = 2  # of each token: whether it is the first, and the last

        return loader.model(path, AutoModelForQuestionAnswering, adjust=adjust, new_head=True)

    def collate(self, epoch: Any) -> Any:
        pad = plain_collator(self.train, self.tokenizer)
        on_the_left = self.tokenizer.padding_side == "left"

        def make(examples: list[dict]) -> Any:
            labels = torch.tensor([example["labels"] for example in examples])
            lengths = torch.tensor([len(example["input_ids"]) for example in examples])
            batch = pad([{name: value for name, value in one.items() if name != "labels"} for one in examples])
            if on_the_left:
                labels = labels + (batch["input_ids"].shape[1] - lengths)[:, None]
            batch["start_positions"], batch["end_positions"] = labels.unbind(1)
            return batch

        return make

    def outputs(self, predictor: Predictor) -> Outputs:
        """What `find_spans` gives of each window, (W, 4); of other windows than the task's, what `as_windows` makes of it."""
        own = predictor.tokenizer
        tokenizer, windows = self.tokenizer if own is None else own, self._windows_for(own)
        found = find_spans(predictor, windows, tokenizer, self.batch_size, self.options.longest_answer)
        return {DEV: found if own is None else as_windows(found, windows, self.dev_windows)}

    def held_out_for(self, tokenizer: Any) -> Encoded:
        return self._windows_for(tokenizer).encoded

    def _windows_for(self, tokenizer: Any) -> Windows:
        """Dev as a tokenizer encodes it, once for each; None stands for the task's."""
        if tokenizer is None:
            return self.dev_windows
        if tokenizer not in self.own_windows:
            self.own_windows[tokenizer] = self._encode(DEV, self.dev_questions, tokenizer)
        return self.own_windows[tokenizer]

    def score(self, predictor: Predictor) -> dict[str, float]:
        return self.score_outputs(self.outputs(predictor))

    def score_outputs(self, outputs: Outputs) -> dict[str, float]:
        exact, f1 = self._score_questions(outputs[DEV]).mean(0)
        return {"exact_match": float(exact), "f1": float(f1), "score": float(f1)}

    def score_samples(self, outputs: Outputs, draw: Draw) -> np.ndarray:
        return weighted_means(self._score_questions(outputs[DEV])[:, 1], draw)

    def differences(self, first: Sequence[Outputs], second: Sequence[Outputs], masks: Outputs) -> np.ndarray:
        """Whole questions change sides, as the masks have it of each one's first window."""
        swapped = masks[DEV][:, self.dev_windows.heads()].astype(float)
        found = []
        for ours, theirs in zip(first, second, strict=True):
            lead = self._score_questions(ours[DEV])[:, 1] - self._score_questions(theirs[DEV])[:, 1]
            found.append((1 - 2 * swapped) @ lead / len(lead))
        return np.mean(found, axis=0)

    def _score_questions(self, spans: np.ndarray) -> np.ndarray:
        """Exact match and F1 of each dev question, (N, 2)."""
        return score_answers(self._choose(spans), [one.answers for one in self.dev_questions])

    def _choose(self, spans: np.ndarray) -> list[str]:
        """The answer to each dev question."""
        return choose_answers(spans, self.dev_windows, self.dev_questions, may_be_none=self.may_be_none)[0]

    def texts(self, most: int) -> list[tuple[str, ...]]:
        return [(one.question, one.context) for one in self.dev_questions[:most]]

    def answer(self, outputs: Any) -> Any:
        return torch.stack([outputs[name].argmax(-1) for name in ("start_logits", "end_logits")], -1).tolist()

    def view_errors(self, open_model: Callable[[str], Predictor]) -> ErrorView:
        before, after = (self._choose(self.outputs(open_model(name))[DEV]) for name in MODELS)
        return compare_answers(self.dev_questions, before, after)

    def check_config(self, config: RunConfig) -> None:
        if config.method.name in ("exits", "pkd"):
            raise ConfigError(
                f"method.name is {config.method.name!r}, which is for classes, but the task is on answers in texts; choose another "
                "method"
            )
        if config.plan.solving.head == "labels":
            raise ConfigError(
                "plan.solving.head is 'labels', which is for classes of whole texts, but the task is on answers in texts; leave it "
                "at 'kept'"
            )

    def check_predecessor(self, predictor: Predictor, path: str, *, given: bool = False) -> dict[str, str]:
        score = self.score(predictor)["score"]
        right = [one.answers for one in self.dev_questions]
        always = max(
            score_answers(answers, right)[:, 1].mean()
            for answers in ([""] * len(right), [one.context for one in self.dev_questions])
        )
        if score > always:
            return {}
        fault = (
            f"the predecessor {path} has an F1 of {score:.4f} on dev, no better than nothing, or the whole text, as every answer "
            f"({always:.4f}); there is nothing to keep: train it on the task (predecessor.finetune = true), longer "
            "(predecessor.training.epochs), or with another predecessor.training.learning_rate"
        )
        return enforce({MAJORITY: fault}, self.config.evaluation.ignore_guards)

    def to_json(self) -> dict:
        counts = {"train": len(self.train_questions), DEV: len(self.dev_questions)}
        return {
            "name": self.name,
            "score": list(self.score_names),
            "train": len(self.train.lengths),
            "dev": {DEV: len(self.dev[DEV].lengths)},
            "facts": [["questions", ", ".join(f"{count:,} in {name}" for name, count in counts.items())]],
            "questions": counts,
            "stride": self.stride,
            "dropped": {"train": self.dropped},
            "cut": {"train": self.train.num_cut, DEV: self.dev[DEV].num_cut},
        }

    def _encode(self, name: str, questions: Sequence[Question], own: Any = None) -> Windows:
        """By a model's own tokenizer, if one is given."""
        tokenizer = self.tokenizer if own is None else own
        windows = encode_windows(questions, tokenizer, self.max_length, self.stride)
        cut = windows.encoded.num_cut
        told = f", {cut} longer than {self.max_length // 2} tokens and cut" if cut else ""
        more = "" if own is None else f", {len(own)} tokens of a model's own"
        self.console.print(f"{name}: {len(questions)} questions{told}, {len(windows.places)} windows{more}")
        return windows

    def _read(self) -> tuple[list[Question], list[Question]]:
        """The questions of train and of dev; of train, none twice and none on a text of dev."""
        options, random = self.options, np.random.default_rng(self.config.run.seed_of_data)
        train = read_squad(options.train, key="task.train")
        if options.dev is not None:
            dev = read_squad(options.dev, key="task.dev")
        else:
            dev, train = _split(train, options.dev_share, random, "split dev off; add texts, or give task.dev")
        dev = _draw(dev, options.dev_limit, random)
        seen, before = {one.context for one in dev}, len(train)
        train = list({(one.context, one.question): one for one in train}.values())
        others = [one for one in train if one.context not in seen]
        kept = [one for one in others if one.is_placed]
        self.dropped = {
            "duplicates": before - len(train),
            "overlap": len(train) - len(others),
            "misplaced": len(others) - len(kept),
        }
        if any(self.dropped.values()):
            told = (
                f"{self.dropped['duplicates']} duplicates, {self.dropped['overlap']} on texts that are in dev too, "
                f"{self.dropped['misplaced']} whose answer is not at its answer_start"
            )
            self.console.print(f"train: dropped {told}", soft_wrap=True)
        if not kept:
            raise DataError(f"of {before} training questions none is left: {told}; give others in task.train")
        return _draw(kept, options.train_limit, random), dev


def _split(
    questions: list[Question], share: float, random: np.random.Generator, why: str
) -> tuple[list[Question], list[Question]]:
    """Dev and train by articles, or by texts if there is one article; so that no text is in both. `why` ends the error.

    Raises:
        DataError: there is only one text.
    """
    by_article = len({one.article for one in questions}) > 1
    groups = [one.article if by_article else one.context for one in questions]
    names = list(dict.fromkeys(groups))
    if len(names) < 2:
        raise DataError(f"train has questions on 1 text, too few to {why}")
    count = min(max(1, round(len(names) * share)), len(names) - 1)
    chosen = {names[row] for row in random.permutation(len(names))[:count]}
    dev = [one for one, group in zip(questions, groups, strict=True) if group in chosen]
    return dev, [one for one, group in zip(questions, groups, strict=True) if group not in chosen]


def _draw(questions: list[Question], limit: int | None, random: np.random.Generator) -> list[Question]:
    if limit is None or len(questions) <= limit:
        return questions
    return [questions[row] for row in sorted(random.permutation(len(questions))[:limit])]


def auto_class(options: Any) -> Any:
    return AutoModelForQuestionAnswering


def read(config: RunConfig, tokenizer: Any, console: Console) -> Answers:
    """Reads, splits and encodes the questions, and says what was dropped or cut.

    Raises:
        DataError: they cannot be read.
    """
    return Answers(config, tokenizer, console)
