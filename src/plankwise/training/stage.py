"""One training stage: a model in, its best weights on dev back in it, and what it took."""

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from torch import nn
from transformers import PrinterCallback, TrainerCallback, TrainingArguments, set_seed
from transformers.trainer import TRAINER_STATE_NAME

from plankwise.config import FitOptions
from plankwise.context import Context
from plankwise.data.batch import examples_of, plain_collator, without_labels
from plankwise.data.encode import ROW, Encoded, TokenSequences
from plankwise.evaluation.held_back import judge
from plankwise.files import read_as, read_json, write_text
from plankwise.models.quiet import quiet
from plankwise.task_kinds import Collate, Loss, Read, Weigh
from plankwise.training.batches import StepBatches
from plankwise.training.callbacks import BEST, BestKeeper, ProgressShower, Show, Watched
from plankwise.training.checkpoint import find_whole, load_trained, prune_checkpoints, to_train_anew
from plankwise.training.dropout import fast_dropout
from plankwise.training.first_token import first_token_only
from plankwise.training.interruption import InterruptedRunError, requested, stopping_after_a_step
from plankwise.training.products import fast_products
from plankwise.training.targets import KeptTargets, Targets, compute_targets
from plankwise.training.trainer import Score, StageTrainer


class HasMemory(Protocol):
    """What says how many bytes it took to compute, by what they are for."""

    @property
    def memory(self) -> dict[str, int]: ...


Computed = TypeVar("Computed", bound=HasMemory)


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
    held_back: dict | None = None  # what the half of dev says that did not choose; see `evaluation.held_back.judge`


@dataclass(frozen=True)
class KeptResult:
    """What is kept of a stage that computes instead of training."""

    stage: StageResult
    notes: dict[str, Any]


@dataclass(frozen=True)
class Stage:
    """Everything a stage needs but the model."""

    name: str
    train: Encoded
    score: Score  # gives at least the key "score"
    tokenizer: Any
    options: FitOptions
    folder: Path  # for this stage's checkpoints
    context: Context
    loss: Loss | None = None  # the task's, if not the model's own
    collate: Collate | None = None  # how batches are made, if not by padding alone
    show: Show = field(default_factory=Show)  # how a score is told
    weigh: Weigh | None = None  # how much a batch counts in the mean over a step, if not by its examples
    watched: bool = True  # whether its score is the task's, which whoever watches the run hears of
    slow: Mapping[str, float] = field(default_factory=dict)  # parameters with a share of the learning rate, by name
    kept_targets: KeptTargets = field(default_factory=KeptTargets)  # of other runs on the same predecessor

    def with_steps(self, steps: int, **options: Any) -> "Stage":
        """The same for so many steps, with other options."""
        return replace(self, options=self.options.model_copy(update={"max_steps": steps, **options}))

    def on_more(self, train: Encoded) -> "Stage":
        """The same on more examples than its own, scored and saved after as many steps as before."""
        options = self.options.model_copy(update={"evaluate_every": self._evaluate_every})
        return replace(self, train=train, options=options, kept_targets=KeptTargets())

    def on_texts(self, score: Score) -> "Stage":
        """The same on its texts alone: no label is read, nothing is hidden, and `score` says how good a model is."""
        return replace(
            self,
            train=without_labels(self.train),
            score=score,
            collate=None,
            loss=None,
            weigh=None,
            show=Show(),
            watched=False,
            kept_targets=KeptTargets(),
        )

    def run(
        self,
        model: nn.Module,
        callbacks: list[TrainerCallback] | None = None,
        *,
        loss: Loss | None = None,
        modules: dict[str, nn.Module] | None = None,
        reads_first_token: bool = False,
        settled: Callable[[], bool] = lambda: True,
        describe: Callable[[], str] = lambda: "",
    ) -> StageResult:
        """Trains what requires gradients in the model and puts the best weights back; goes on where an earlier call was stopped.

        `loss`: the stage's own, instead of the task's. `modules` are trained beside the model, for the loss to use, and thrown
        away. `reads_first_token`: the loss reads nothing but the model's outputs, so that of a classifier that reads the first
        token alone the last block need not compute the others.

        Raises:
            RunError: the loss or the score is not a number, a checkpoint is damaged, or the disk is full.
            InterruptedRunError: the run was told to stop.
        """
        trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
        if self._result_file.exists():
            result = read_as(self._result_file, StageResult, to_train_anew(self._result_file))
            load_trained(model, trained, self.folder / BEST)
            self._tell_again(result)
            return result
        set_seed(self.context.seed)
        batches = self.batches()
        keeper = BestKeeper(self.folder, trained, self._evaluate_every, self.options.early_stopping, settled)
        shower = ProgressShower(self.name, self.context.console, describe, self.show)
        trainer = StageTrainer(
            context=self.context,
            batches=batches,
            score=_timed(self.score),
            trained=trained,
            loss=loss or self.loss,
            weigh=self.weigh,
            modules=nn.ModuleDict(modules or {}),
            slow=self.slow,
            # What makes batches of token sequences, or a kind's own, reads more than the model does.
            prune_columns=self.collate is None and not isinstance(self.train, TokenSequences),
            model=model,
            args=self.arguments(),
            train_dataset=self.train.dataset,
            data_collator=self.collator(lambda: batches.epoch),
            callbacks=[*(callbacks or []), keeper, shower, *self._watching()],
        )
        trainer.remove_callback(PrinterCallback)
        # The method's own come first, so that what they add to a log reaches trackers and progress.
        handler = trainer.callback_handler
        own = callbacks or []
        handler.callbacks = [*own, *(callback for callback in handler.callbacks if callback not in own)]
        with quiet(), _unwrapped_afterwards(model), self.shortcuts(model, reads_first_token=reads_first_token):
            return self.execute(trainer, keeper, shower)

    def execute(self, trainer: StageTrainer, keeper: BestKeeper, shower: ProgressShower) -> StageResult:
        """Trains what `run` has set up, from the last checkpoint if there is one, and puts the best weights back."""
        last = self.context.on_main(lambda: find_whole(self.folder, self._tell))
        with stopping_after_a_step():
            if last is not None:
                trainer.check_step_size(last)
                keeper.restore(_callback_state(last))
                self.context.on_main(keeper.check_best)
            try:
                with self.context.explaining_lost_ranks():
                    trainer.train(resume_from_checkpoint=None if last is None else str(last))
            finally:
                shower.stop()
        self.context.wait()
        keeper.take_best(trainer.model)
        state = trainer.state
        history = [entry for entry in state.log_history if "train_runtime" not in entry]
        result = StageResult(
            name=self.name,
            steps=state.global_step,
            max_steps=state.max_steps,
            seconds=keeper.seconds,
            seconds_to_best=keeper.seconds_to_best,
            best_step=keeper.step,
            best_score=keeper.score,
            history=history,
            held_back=judge([entry for entry in history if "eval_score" in entry], "eval_"),
        )
        result = self.context.on_main(lambda: result)  # clocks differ
        if self.context.is_main:
            write_text(self._result_file, json.dumps(asdict(result)))
            prune_checkpoints(self.folder, keep=0)
        (stop,) = self.context.total(float(requested() is not None))
        if stop:  # since the last step began
            raise InterruptedRunError.at(result.steps, result.max_steps)
        return result

    def _watching(self) -> list[TrainerCallback]:
        watch = self.context.watch
        return [] if watch is None or not self.watched else [Watched(self.name, watch)]

    def _tell_again(self, result: StageResult) -> None:
        """Whoever watches hears of a finished stage, too."""
        if self.context.watch is not None and self.watched:
            for entry in result.history:
                if "eval_score" in entry:
                    self.context.watch(self.name, entry["step"], result.max_steps, entry)

    def _tell(self, line: str) -> None:
        self.context.console.print(f"{self.name}: {line}", soft_wrap=True)

    def batches(self) -> StepBatches:
        """This rank's batches of examples."""
        return StepBatches(
            self.train.lengths,
            batch_size=self.options.batch_size,
            accumulation=self.options.accumulation,
            seed=self.context.seed,
            rank=self.context.rank,
            world_size=self.context.world_size,
            together=self.train.together,
        )

    def collator(self, epoch: Callable[[], int]) -> Callable[[list[dict]], Any]:
        """What makes a batch of examples; `epoch` says which one it is."""
        return plain_collator(self.train, self.tokenizer) if self.collate is None else self.collate(epoch)

    @contextmanager
    def shortcuts(self, model: nn.Module, *, reads_first_token: bool) -> Iterator[None]:
        """While open, steps of training cost less and learn the same; `reads_first_token` as in `run`."""
        with fast_dropout(model, self.options.fast_dropout), self.products(), ExitStack() as opened:
            if reads_first_token:
                opened.enter_context(first_token_only(model, self.sample(next(model.parameters()).device)))
            yield

    def products(self) -> AbstractContextManager[None]:
        """While open, products of matrices cost less: those of float32 on the CPU."""
        switch = self.options.fast_products if self.options.precision == "float32" else False
        return fast_products(switch, self.context.device)

    def sample(self, device: Any) -> dict[str, Any]:
        """A batch of two texts, as the model takes it."""
        return self.batch_of(list(range(min(2, len(self.train.lengths)))), device)

    def batch_of(self, rows: list[int], device: Any) -> dict[str, Any]:
        """A batch of the training examples in these rows, as the model takes it in the first epoch."""
        examples = [
            {**example, ROW: row} for row, example in zip(rows, examples_of(self.train.dataset, rows), strict=True)
        ]
        batch = dict(self.collator(lambda: 0)(examples).to(device))
        batch.pop(ROW, None)
        return batch

    @property
    def _result_file(self) -> Path:
        return self.folder / "result.json"

    @property
    def _steps_per_epoch(self) -> int:
        return math.ceil(len(self.train.lengths) / (self.options.batch_size * self.context.world_size))

    @property
    def num_steps(self) -> int:
        """Optimiser steps, if nothing stops it early."""
        return self.options.max_steps or math.ceil(self.options.epochs * self._steps_per_epoch)

    @property
    def num_evaluations(self) -> int:
        return math.ceil(self.num_steps / self._evaluate_every)

    @property
    def passes(self) -> float:
        """How often each training example is seen."""
        return self.num_steps / self._steps_per_epoch

    @property
    def _evaluate_every(self) -> int:
        return self.options.evaluate_every or self._steps_per_epoch

    def targets(self, predecessor: nn.Module, read: Read) -> Targets:
        """What `read` takes from the predecessor's outputs on the training examples; runs on the same ones share it."""
        if getattr(read, "__closure__", None):  # made for this call alone
            return self.outputs(predecessor, read)
        key = read, self.options.fast_products, self.options.precision
        return self.kept_targets.get(self.train, key, lambda: self.outputs(predecessor, read))

    def outputs(self, model: nn.Module, read: Read) -> Targets:
        """What `read` takes from a model's outputs on the training examples, each run once."""
        with self.products():
            return compute_targets(model, self.train, self.tokenizer, read, self.folder, self.context)

    def compute(self, work: Callable[[int], Computed], amount: int) -> Computed | None:
        """What `work` gives for an amount of texts or tokens; a rehearsal does a little of it, or none."""
        with self.products():
            return work(amount)

    def arguments(self) -> TrainingArguments:
        """What `transformers.Trainer` is told."""
        options = self.options
        arguments = TrainingArguments(
            output_dir=str(self.folder),
            num_train_epochs=options.epochs,
            max_steps=options.max_steps or -1,
            per_device_train_batch_size=math.ceil(options.batch_size / options.accumulation),
            gradient_accumulation_steps=options.accumulation,
            learning_rate=options.learning_rate,
            lr_scheduler_type=options.lr_schedule,
            warmup_steps=options.warmup_share,
            weight_decay=options.weight_decay,
            max_grad_norm=options.clip_norm,
            bf16=options.precision == "bfloat16",
            fp16=options.precision == "float16",
            use_cpu=self.context.device.type == "cpu",
            save_strategy="steps",
            save_steps=options.save_every or self._evaluate_every,
            logging_steps=max(1, min(50, self._evaluate_every // 4)),
            report_to=list(options.report_to) or "none",
            seed=self.context.seed,
            disable_tqdm=True,
            dataloader_pin_memory=False,
        )
        # One process uses one GPU; several are used by several processes, which learn the same as one.
        arguments._n_gpu = min(1, arguments.n_gpu)
        return arguments


@contextmanager
def _unwrapped_afterwards(model: nn.Module) -> Iterator[None]:
    """Afterwards the model's forward pass is its own again: accelerate puts autocast around it, on the instance."""
    before = vars(model).get("forward")
    try:
        yield
    finally:
        for name in ("forward", "_original_forward", "_is_accelerate_prepared"):
            vars(model).pop(name, None)
        if before is not None:
            model.forward = before


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
    state = read_json(checkpoint / TRAINER_STATE_NAME, to_train_anew(checkpoint / TRAINER_STATE_NAME))
    return state["stateful_callbacks"]["BestKeeper"]["attributes"]
