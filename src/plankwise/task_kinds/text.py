"""Text for a language model: found, split, cut into sequences of tokens on disk, masked batch by batch."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress

from plankwise.config import FitOptions, RunConfig
from plankwise.context import count_processes
from plankwise.data.batch import examples_of
from plankwise.data.corpus import Shard, held_out, read_shard
from plankwise.data.encode import ROW, Encoded, TokenSequences
from plankwise.data.masking import IGNORED, Batcher, Masking
from plankwise.data.sequences import Written, open_sequences, write_sequences
from plankwise.errors import ConfigError, DataError
from plankwise.evaluation.constant import beyond_unigrams
from plankwise.evaluation.error_view import ErrorView
from plankwise.evaluation.errors import MODELS
from plankwise.evaluation.guards import MAJORITY, enforce
from plankwise.evaluation.perplexity import (
    SequenceLosses,
    language_loss,
    measure_perplexity,
    measure_tokens,
    unigram_losses,
)
from plankwise.files import read_as, write_text
from plankwise.kinds import load_kind
from plankwise.models.language import CLASSES, load_language_model
from plankwise.models.loading import Loaded, Loader
from plankwise.record import Shown
from plankwise.runtimes import Predictor
from plankwise.task_kinds import Answers, Draw, Examined, HeadAlone, Task
from plankwise.task_kinds._text_errors import compare_losses
from plankwise.task_kinds._unlabelled import find_texts, refuse_choosing, refuse_solved_head

FOLDER = Path("checkpoints") / "blocks"  # goes with the checkpoints when the run is finished
DEV, SCORE = "dev", "1 / perplexity"


class Text(Task):
    """Sequences of tokens for one tokenizer; there are none before `lay_out` has written them."""

    kind = "text"
    on_disk = True
    needs_tokens = "perplexity is over tokens, so that those of different vocabularies do not compare"

    def __init__(self, config: RunConfig, tokenizer: Any) -> None:
        self.options = options = config.task
        self.config = config
        self.tokenizer = tokenizer
        self.name = Path(options.path).stem
        self.score_names = (SCORE,)
        self.max_length = config.training.max_length
        pipeline = "text-generation" if options.objective == "clm" else "fill-mask"
        self.shown = Shown(
            "perplexity", "perplexity", 2, lower_is_better=True, unit="pieces of text", pipeline=pipeline
        )
        self.loss = language_loss(options.objective)
        self.head_alone = HeadAlone(options.head_share, options.head_learning_rate)
        self.shards = self._find(options.path, "task.path")
        self.dev_shards = self._find(options.dev, "task.dev") if options.dev is not None else self.shards
        self.written: dict[str, Written] = {}

    def load(self, loader: Loader, path: str) -> Loaded:
        return load_language_model(loader, path, self.options.objective, tokenizer=self.tokenizer)

    def score(self, predictor: Predictor) -> dict[str, float]:
        return self._losses(predictor).metrics()

    def score_in_training(self, predictor: Predictor) -> dict[str, float]:
        losses = self._losses(predictor)
        return {**losses.metrics(), **self.score_halves(_kept(losses))}

    def score_samples(self, outputs: Answers, draw: Draw) -> np.ndarray:
        kept = outputs[DEV]
        losses, tokens = (draw(len(kept)) @ kept).T
        with np.errstate(invalid="ignore"):
            return np.exp(-losses / tokens)

    def as_shown(self, score: float) -> float:
        return 1 / score if score > 0 else math.inf

    def examine(self, predictor: Predictor) -> Examined:
        losses = self._losses(predictor)
        return Examined(losses.metrics(), beyond_unigrams(losses, self._unigrams), _kept(losses))

    def differences(self, first: Sequence[Answers], second: Sequence[Answers], masks: Answers) -> np.ndarray:
        """As for any task; a sequence's outputs are its loss, summed over the tokens that are predicted, and how many they are."""
        chosen = masks["dev"].astype(np.float64)
        found = np.zeros(len(chosen))
        for ours, theirs in zip(first, second, strict=True):
            (a, tokens), b = ours["dev"].T, theirs["dev"][:, 0]
            moved = chosen @ (b - a)
            found += np.exp(-(a.sum() + moved) / tokens.sum()) - np.exp(-(b.sum() - moved) / tokens.sum())
        return found / len(first)

    def _losses(self, predictor: Predictor) -> SequenceLosses:
        return measure_perplexity(predictor, self._held_out_batches(), self.options.objective)

    def view_errors(self, open_model: Callable[[str], Predictor]) -> ErrorView:
        objective = self.options.objective
        before, after = (measure_tokens(open_model(name), self._held_out_batches(), objective) for name in MODELS)
        return compare_losses(self.held_out.dataset, self._held_out_batches, objective, self.tokenizer, before, after)

    @cached_property
    def _unigrams(self) -> SequenceLosses:
        return unigram_losses(self._held_out_batches, self.options.objective, len(self.tokenizer))

    def answer(self, outputs: Any) -> Any:
        return outputs["logits" if "logits" in outputs else "prediction_logits"].argmax(-1).tolist()

    def collate(self, epoch: Callable[[], int]) -> Batcher:
        return self._batcher(self.train, epoch)

    def weigh(self, batch: Mapping[str, torch.Tensor]) -> float:
        """The tokens that are predicted: the loss is a mean over them."""
        labels = batch["labels"][:, 1:] if self.options.objective == "clm" else batch["labels"]
        return float((labels != IGNORED).sum())

    def texts(self, most: int) -> list[tuple[str, ...]]:
        found: list[tuple[str, ...]] = []
        for shard in self.dev_shards:
            found += [(text,) for text in read_shard(shard, lambda count: None) if self._in_dev(text)]
            if len(found) >= most:
                break
        return found[:most]

    def check_config(self, config: RunConfig) -> None:
        method: Any = config.method
        if method.name == "exits":
            raise ConfigError(
                "method.name is 'exits', which is for classes of whole texts, but the task is on text without labels; choose "
                "another method"
            )
        reads_logits = getattr(load_kind("methods", method.name, key="method.name"), "reads_logits", None)
        if reads_logits is not None and reads_logits(method):
            raise ConfigError(
                f"method.name is {method.name!r} with the predecessor's logits as a target, which for text would be a "
                "vocabulary of them for every token; use distilbert, which keeps none, replacing with alpha = 0, finetune or "
                "layerdrop"
            )
        for key, texts in {"fitting": config.plan.fitting.texts, "solving": config.plan.solving.texts}.items():
            if texts is not None:
                raise ConfigError(f"plan.{key}.texts is given, but the task is text already; take it out")
        refuse_solved_head(config, "text")
        refuse_choosing(
            config, "text", "where no sequences are kept out, and the search would have one method alone to compare"
        )

    def check_predecessor(self, predictor: Predictor, path: str, *, given: bool = False) -> dict[str, str]:
        found = self.score(predictor)["perplexity"]
        if found < len(self.tokenizer):
            return {}
        fault = (
            f"the predecessor {path} has perplexity {found:.0f} on held-out text, no better than any of its "
            f"{len(self.tokenizer)} tokens at random; there is nothing to keep: train it (predecessor.finetune = true, "
            "predecessor.training.epochs), or give one that has learnt the language"
        )
        return enforce({MAJORITY: fault}, self.config.evaluation.ignore_guards)

    def lay_out(self, folder: Path, console: Console, *, train: bool = True) -> None:
        """Writes the sequences, or takes those that an earlier call has written.

        Raises:
            DataError: there is not enough text.
        """
        options = self.options
        held_out = self._sequences(folder, "dev", self.dev_shards, self._in_dev, options.dev_limit, None, console)
        self.dev = {"dev": held_out}
        if train:
            self.train = self._sequences(
                folder, "train", self.shards, self._in_train, options.train_limit, self._needed(), console
            )

    def to_json(self) -> dict:
        return {
            "name": self.name,
            "score": [SCORE],
            "objective": self.options.objective,
            "train": self.written["train"].blocks,
            "dev": {"dev": self.written["dev"].blocks},
            "facts": [["objective", self.options.objective]],
            "blocks": {name: asdict(written) for name, written in self.written.items()},
            "notes": list(dict.fromkeys(note for written in self.written.values() for note in written.notes)),
            "cut": {name: written.cut for name, written in self.written.items()},
        }

    def _find(self, path: str, key: str) -> list[Shard]:
        return find_texts(self.options, path, key, self.config.run.seed_of_data)

    def _in_dev(self, text: str) -> bool:
        return self.options.dev is not None or held_out(text, self.options.dev_share, self.config.run.seed_of_data)

    def _in_train(self, text: str) -> bool:
        return self.options.dev is not None or not self._in_dev(text)

    def _needed(self) -> int | None:
        """Sequences that a run can use: no text is read that no step would see; None for all there are."""
        config = self.config
        plans: list[FitOptions] = [config.training]
        if config.predecessor.finetune is not False:
            plans.append(config.predecessor.training)
        if any(plan.max_steps is None for plan in plans):
            return None
        return max((plan.max_steps or 0) * plan.batch_size * count_processes() for plan in plans)

    def _sequences(
        self,
        folder: Path,
        name: str,
        shards: list[Shard],
        keep: Callable[[str], bool],
        most_texts: int | None,
        most_sequences: int | None,
        console: Console,
    ) -> TokenSequences:
        file, note = folder / FOLDER / f"{name}.arrow", folder / FOLDER / f"{name}.json"
        if not note.is_file():
            form = "pair" if "+" in self.options.objective else "packed" if self.options.pack else "single"
            with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
                task = bar.add_task(f"{name}: tokens", total=None)
                written = write_sequences(
                    shards,
                    self.tokenizer,
                    file,
                    length=self.config.training.max_length,
                    form=form,  # type: ignore[arg-type]
                    keep=keep,
                    most_sequences=most_sequences,
                    most_texts=most_texts,
                    progress=lambda count: bar.advance(task, count),
                )
            write_text(note, json.dumps(asdict(written)))
        known = {given for before in self.written.values() for given in before.notes}
        written = self.written[name] = read_as(note, Written, f"delete {note.parent} and run the same command again")
        for given in written.notes:
            if given not in known:  # train and dev may be read from the same files
                console.print(given, soft_wrap=True)
        if not written.blocks:
            raise DataError(
                f"{self.options.path} gives no text for {name}: {written.texts} documents were used and {written.dropped} "
                "dropped; add text, change task.dev_share, or give task.dev"
            )
        cut = f", {written.cut} cut" if written.cut else ""
        console.print(
            f"{name}: {written.texts} documents in {written.blocks} sequences of {written.tokens} tokens{cut}"
        )
        return open_sequences(file)

    def _batcher(self, sequences: Encoded, epoch: Callable[[], int] | None) -> Batcher:
        options = self.options
        return Batcher(
            self.tokenizer,
            options.objective,
            Masking(options.mask_share, options.whole_words, options.mask_seed),
            self.config.training.max_length,
            sequences.dataset,
            epoch,
        )

    def _held_out_batches(self) -> Iterator[Any]:
        collate, sequences = self._batcher(self.held_out, None), self.held_out
        size, count = self.config.evaluation.batch_size, len(sequences.lengths)
        for start in range(0, math.ceil(count / size) * size, size):
            rows = list(range(start, min(start + size, count)))
            yield collate(
                [
                    {**sequence, ROW: row}
                    for sequence, row in zip(examples_of(sequences.dataset, rows), rows, strict=True)
                ]
            )


def _kept(losses: SequenceLosses) -> Answers:
    return {DEV: np.stack([losses.losses, losses.tokens], 1)}


def auto_class(options: Any) -> Any:
    return CLASSES[options.objective]


def read(config: RunConfig, tokenizer: Any, console: Console) -> Text:
    """Finds the text; it is read when it is laid out."""
    return Text(config, tokenizer)


def preview(options: Any) -> Any:
    """The options with as little text as will do to look at a plan."""
    return options.model_copy(update={"train_limit": 64, "dev_limit": 64})
