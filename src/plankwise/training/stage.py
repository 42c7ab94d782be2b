"""One training stage: a model in, its best weights on dev back in it, and what it took."""

import json
import math
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import nn
from transformers import PrinterCallback, TrainerCallback, TrainingArguments, set_seed

from plankwise.config import FitOptions
from plankwise.data.batch import LengthSampler, plain_collator
from plankwise.data.encode import Blocks, Encoded
from plankwise.families._first_token import first_token_only
from plankwise.families._quiet import quiet
from plankwise.files import write_text
from plankwise.training.callbacks import BEST, BestKeeper, ProgressShower
from plankwise.training.checkpoint import list_checkpoints, load_weights
from plankwise.training.dropout import fast_dropout
from plankwise.training.targets import Read, Targets, compute_targets
from plankwise.training.trainer import Numbered, Objective, Score, StageTrainer

Collate = Callable[[Callable[[], int]], Callable[[list[dict]], Any]]  # given how to ask for the epoch, makes batches


@dataclass(frozen=True)
class StageResult:
    """What a stage took and gave; scores are on dev."""

    name: str
    steps: int
    max_steps: int
    seconds: float
    seconds_to_best: float
    best_step: int
    best_score: float
    history: list[dict] = field(default_factory=list)


@dataclass(frozen=True)
class Stage:
    """Everything a stage needs but the model."""

    name: str
    train: Encoded
    score: Score  # gives at least the key "score"
    tokenizer: Any
    options: FitOptions
    folder: Path  # for this stage's checkpoints
    seed: int
    console: Console
    objective: Objective | None = None  # the task's loss, if not the model's own
    collate: Collate | None = None  # how batches are made, if not by padding alone

    def run(
        self,
        model: nn.Module,
        callbacks: list[TrainerCallback] | None = None,
        *,
        objective: Objective | None = None,
        states: bool = False,
        settled: Callable[[], bool] = lambda: True,
        describe: Callable[[], str] = lambda: "",
    ) -> StageResult:
        """Trains the model in place; goes on from the folder's last checkpoint if there is one.

        The loss is the task's, or `objective(model, inputs, rows)`: the mean over a batch, whose examples stand at `rows` of the
        training set. `states`: it reads what the last block makes of every token, not the model's outputs alone.

        Raises:
            RunError: the loss is no number, a checkpoint is damaged, or the disk is full.
        """
        trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
        done = self.folder / "result.json"
        if done.exists():
            load_weights(model, self.folder / BEST)
            return StageResult(**json.loads(done.read_text("utf-8")))
        set_seed(self.seed)
        objective = objective or self.objective
        sampler = LengthSampler(self.train.lengths, self.options.batch_size, self.seed)
        collate = self.collate and self.collate(lambda: sampler.epoch)
        keeper = BestKeeper(self.folder, trained, self._evaluate_every, self.options.early_stopping, settled)
        shower = ProgressShower(self.name, self.console, describe)
        trainer = StageTrainer(
            sampler=sampler,
            score=_timed(self.score),
            trained=trained,
            objective=objective,
            model=model,
            args=self._arguments(),
            train_dataset=self.train.dataset if objective is None else Numbered(self.train.dataset),
            data_collator=collate or plain_collator(self.train, self.tokenizer),
            callbacks=[*(callbacks or []), keeper, shower],
        )
        trainer.remove_callback(PrinterCallback)
        # The method's own come first, so that what they add to a log reaches trackers and progress.
        handler = trainer.callback_handler
        own = callbacks or []
        handler.callbacks = [*own, *(callback for callback in handler.callbacks if callback not in own)]
        last = list_checkpoints(self.folder)
        with quiet(), lean(model, states=states):
            if last:
                keeper.restore(_callback_state(last[-1]))
            try:
                trainer.train(resume_from_checkpoint=str(last[-1]) if last else None)
            finally:
                shower.stop()
        keeper.take_best(model)
        state = trainer.state
        result = StageResult(
            name=self.name,
            steps=state.global_step,
            max_steps=state.max_steps,
            seconds=keeper.seconds,
            seconds_to_best=keeper.seconds_to_best,
            best_step=keeper.step,
            best_score=keeper.score,
            history=[entry for entry in state.log_history if "train_runtime" not in entry],
        )
        write_text(done, json.dumps(asdict(result)))
        for path in list_checkpoints(self.folder):
            shutil.rmtree(path, ignore_errors=True)
        return result

    @property
    def _micro_batch(self) -> int:
        return math.ceil(self.options.batch_size / self.options.accumulation)

    @property
    def _steps_per_epoch(self) -> int:
        return math.ceil(math.ceil(len(self.train.lengths) / self._micro_batch) / self.options.accumulation)

    @property
    def num_steps(self) -> int:
        """Optimiser steps, if nothing stops it early."""
        return self.options.max_steps or math.ceil(self.options.epochs * self._steps_per_epoch)

    @property
    def passes(self) -> float:
        """How often each training example is seen."""
        return self.num_steps / self._steps_per_epoch

    @property
    def _evaluate_every(self) -> int:
        return self.options.evaluate_every or self._steps_per_epoch

    def targets(self, model: nn.Module, read: Read) -> Targets:
        """What `read` takes from the model's outputs on the training examples, each run once."""
        return compute_targets(model, self.train, self.tokenizer, read, self.folder)

    def _arguments(self) -> TrainingArguments:
        options = self.options
        return TrainingArguments(
            output_dir=str(self.folder),
            num_train_epochs=options.epochs,
            max_steps=options.max_steps or -1,
            per_device_train_batch_size=self._micro_batch,
            gradient_accumulation_steps=options.accumulation,
            learning_rate=options.learning_rate,
            lr_scheduler_type=options.lr_schedule,
            warmup_steps=options.warmup_share,
            weight_decay=options.weight_decay,
            max_grad_norm=options.clip_norm,
            bf16=options.precision == "bfloat16",
            fp16=options.precision == "float16",
            save_strategy="steps",
            save_steps=options.save_every or self._evaluate_every,
            logging_steps=max(1, min(50, self._evaluate_every // 4)),
            report_to=list(options.report_to) or "none",
            seed=self.seed,
            disable_tqdm=True,
            remove_unused_columns=not isinstance(
                self.train, Blocks
            ),  # what makes batches of those reads more than the model
            dataloader_pin_memory=False,
        )


@contextmanager
def lean(model: nn.Module, *, states: bool) -> Iterator[None]:
    """While open, steps of training cost less and learn the same; `states` as in `Stage.run`."""
    with fast_dropout(), nullcontext() if states else first_token_only(model):
        yield


@contextmanager
def trained_alone(model: nn.Module, names: set[str]) -> Iterator[None]:
    """Inside, only the named parameters are trained."""
    before = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in names)
    try:
        yield
    finally:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(before[name])


def _timed(score: Score) -> Score:
    def timed(model: nn.Module) -> dict[str, float]:
        start = time.monotonic()
        return {**score(model), "seconds": time.monotonic() - start}

    return timed


def _callback_state(checkpoint: Path) -> dict:
    state = json.loads((checkpoint / "trainer_state.json").read_text("utf-8"))
    return state["stateful_callbacks"]["BestKeeper"]["attributes"]
