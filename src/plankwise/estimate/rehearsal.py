"""A stage that is rehearsed: what a method hands to it is run for a few steps, to see what all of them will take.

A method computes nothing but through its stages (`run`, `targets`). So `compress` itself, given stages that rehearse, says what it
will do: no method describes its cost a second time, and one that comes from another distribution is estimated too. A rehearsed
step is the real one, forward, backward and optimiser, on the step's own batch and mask, with a learning rate of 0: weights stay
what they are.
"""

import copy
import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState

from plankwise.data.batch import examples_of, plain_collator
from plankwise.data.encode import ROW, Encoded
from plankwise.estimate.counting import Count, Ledger, trains_nothing
from plankwise.estimate.notebook import EVALUATIONS, TARGETS, Memory, Notebook, Phase
from plankwise.estimate.steps import Pass, Steps
from plankwise.training.fitting import HELD_OUT
from plankwise.training.stage import Stage, StageResult, lean
from plankwise.training.targets import BATCH_SIZE, Read, Targets
from plankwise.training.trainer import Objective, Score

ENOUGH = 2  # passes that train nothing, to know their pace

Call = Callable[[dict[str, torch.Tensor], torch.Tensor], Any]  # runs a model on inputs whose texts stand at these rows


@dataclass(frozen=True)
class Scoring:
    """What an evaluation reads."""

    score: Score
    dev: list[Encoded]
    batch_size: int


@dataclass(frozen=True, kw_only=True)
class RehearsedStage(Stage):
    """Looks like a stage to whoever runs it; what it finds out goes into the notebook, and nothing is written.

    With no notebook it only says what a stage would say of itself, and runs nothing.
    """

    notebook: Notebook | None
    scoring: Scoring
    held: nn.Module | None  # in memory beside what is trained

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
        """What the stage would take; the model's weights and buffers stay as they are."""
        steps, seconds = self.num_steps, 0.0
        if self.notebook is not None:
            name = self.notebook.alias or self.name
            self.notebook.tell(name)
            with kept(model):
                with lean(model, states=states):
                    training = _Training(self, model, callbacks or [], objective or self.objective)
                    self.notebook.phases[name] = phase = training.train(self.notebook)
                    self.notebook.memory[name] = training.memory
                self.notebook.evaluation[name] = once = training.evaluate(self.notebook)
            self.notebook.phases.setdefault(EVALUATIONS, Phase()).multiply_adds += self.num_evaluations * once
            seconds = phase.seconds
        return StageResult(self.name, steps, steps, seconds, seconds, steps, 0.0)

    def targets(self, model: nn.Module, read: Read) -> Targets:
        """Targets of the right shapes without a value in them."""
        reader = _Reader(self, model)
        once = Pass(self.train.lengths, BATCH_SIZE)

        def call(inputs: dict[str, torch.Tensor], rows: torch.Tensor) -> dict[str, torch.Tensor]:
            return read(model, inputs)

        model.eval()
        with torch.inference_mode():
            found = call(*reader.read(once.batches[-1][-1:]))
        count = len(self.train.lengths)
        blank = {
            name: np.broadcast_to(np.zeros(value.shape[1:], np.float32), (count, *value.shape[1:]))
            for name, value in found.items()
        }
        if self.notebook is None:
            return Targets(blank, 0.0, on_disk=False)
        self.notebook.tell(TARGETS)
        with kept(model):
            each = reader.ledger(call).now()[0]
            total = once.total(each, reader.beside)
            rate = reader.time_pass(once, call, self.notebook, each, total)
        self.notebook.phases[TARGETS] = phase = Phase(rate * total, total)
        return Targets(blank, phase.seconds, on_disk=False)

    @property
    def num_evaluations(self) -> int:
        return math.ceil(self.num_steps / self._evaluate_every)

    def dev_passes(self) -> list[Pass]:
        """What one evaluation reads; a score that is not the task's is fitting's, which reads a part of it."""
        most = None if self.score == self.scoring.score else HELD_OUT
        return [Pass(encoded.lengths[:most], self.scoring.batch_size) for encoded in self.scoring.dev]


@dataclass
class Rehearsal:
    """Makes stages that rehearse."""

    notebook: Notebook | None
    scoring: Scoring
    held: nn.Module | None = None  # what is in memory beside the model that the next stages train

    def of(self, stage: Stage) -> RehearsedStage:
        own = {one.name: getattr(stage, one.name) for one in fields(Stage)}
        return RehearsedStage(**own, notebook=self.notebook, scoring=self.scoring, held=self.held)


class _Reader:
    """Makes a stage's batches for a model, and counts what they take."""

    def __init__(self, stage: RehearsedStage, model: nn.Module) -> None:
        self.stage = stage
        self.model = model
        self.device = stage._arguments().device
        model.to(self.device)
        plain = plain_collator(stage.train, stage.tokenizer)
        self.collate = plain if stage.collate is None else stage.collate(lambda: 0)
        lengths = np.asarray(stage.train.lengths)
        order = np.argsort(lengths, kind="stable")
        self.rows = [
            int(order[place]) for place in (0, len(order) // 2, -1)
        ]  # a short text, a middling one, the longest
        inputs, _ = self.read(np.array(self.rows[-1:]))
        self.beside = inputs["input_ids"].shape[1] - int(lengths[self.rows[-1]])

    def read(self, rows: np.ndarray) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        """The model's inputs, and the rows."""
        chosen = rows.tolist()
        examples = examples_of(self.stage.train.dataset, chosen)
        batch = self.collate([{**example, ROW: row} for example, row in zip(examples, chosen, strict=True)])
        inputs = dict(batch.to(self.device))
        return inputs, inputs.pop(ROW)

    def ledger(self, call: Call) -> Ledger:
        read = [self.read(np.array([row])) for row in self.rows]
        samples = {inputs["input_ids"].shape[1]: (inputs, rows) for inputs, rows in read}
        return Ledger(self.model, lambda given: call(*given), list(samples.items()))

    def time_pass(self, once: Pass, call: Call, notebook: Notebook, each: Count, total: float) -> float:
        """Seconds per multiply-add of passes in eval mode that take `total`, from batches of `once`; a text takes `each`."""
        self.model.eval()

        def run(number: int) -> None:
            with torch.inference_mode():
                call(*self.read(once.batches[number]))
                wait_for(self.device)

        return notebook.calibrate(once.costs(each, self.beside), run, total, forward=True)


class _Training:
    """One stage's training of one model."""

    def __init__(
        self, stage: RehearsedStage, model: nn.Module, callbacks: list[TrainerCallback], objective: Objective | None
    ) -> None:
        self.stage = stage
        self.model = model
        self.callbacks = callbacks
        self.objective = objective
        self.arguments = stage._arguments()
        self.reader = _Reader(stage, model)
        self.trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        kind, settings = Trainer.get_optimizer_cls_and_kwargs(self.arguments)
        self.optimiser = kind(self.trained, **{**settings, "lr": 0.0})
        options = stage.options
        self.steps = Steps(
            stage.train.lengths,
            num_steps=stage.num_steps,
            batch_size=options.batch_size,
            micro_batch=stage._micro_batch,
            seed=stage.seed,
        )
        self.ledger = self.reader.ledger(self._loss)
        self.state = TrainerState(max_steps=stage.num_steps)
        self._tell("on_train_begin")
        self.saved = 0  # bytes kept for the backward pass

    def train(self, notebook: Notebook) -> Phase:
        self.model.train()
        numbers = self.steps.numbers
        costs = np.array([self._cost(int(step)) for step in numbers])
        total = float(costs.mean()) * self.stage.num_steps

        def run(index: int) -> None:
            measure = not self.saved  # the first is the costliest of all
            self._step(int(numbers[index]), measure=measure)

        rate = notebook.calibrate(costs, run, total)
        return Phase(rate * total, total, self.stage.num_steps)

    def evaluate(self, notebook: Notebook) -> float:
        """The multiply-adds of one evaluation of what is being trained; times its pace on training texts if it is not known."""
        ledger, scoring = self.reader.ledger(self._loss), self.stage.scoring
        self.model.eval()
        each = ledger.now()[0]
        total = sum(once.total(each, self.reader.beside) for once in self.stage.dev_passes())
        if len(notebook.forward) < ENOUGH:
            batches = Pass(self.stage.train.lengths, scoring.batch_size)
            self.reader.time_pass(batches, self._loss, notebook, each, total * self.stage.num_evaluations)
        return total

    @property
    def memory(self) -> Memory:
        """At the peak: the step that takes most."""
        wanting = sum(parameter.nbytes for parameter in self.model.parameters() if parameter.requires_grad)
        trained = sum(parameter.nbytes for parameter in self.trained)
        return Memory(
            weights=sum(_storages(self.model, self.stage.held or self.model).values()),
            gradients=max(trained, wanting),
            optimiser=2 * trained,
            activations=self.saved,
        )

    def _cost(self, step: int) -> float:
        self._go_to(step)
        if trains_nothing(self.model, step):
            return 0.0
        return self.steps.cost(step, self.ledger.now()[1], self.reader.beside)

    def _step(self, step: int, *, measure: bool) -> None:
        self._go_to(step)
        options, device = self.stage.options, self.reader.device
        half = {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(options.precision)
        for rows, _ in self.steps.batches(step):
            with torch.autocast(device.type, half, enabled=half is not None), self._saving(measure):
                loss = self._loss(*self.reader.read(rows))
            (loss / options.accumulation).backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), options.clip_norm or float("inf"))
        self._tell("on_pre_optimizer_step", optimizer=self.optimiser)
        if torch.isfinite(norm):  # 0 times what is no number is none either, and would reach the weights
            self.optimiser.step()
        self.model.zero_grad()
        wait_for(device)

    def _go_to(self, step: int) -> None:
        self.state.global_step = step
        self._tell("on_step_begin")

    def _tell(self, event: str, **more: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, event)(self.arguments, self.state, TrainerControl(), **more)

    def _loss(self, inputs: dict[str, torch.Tensor], rows: torch.Tensor) -> Any:
        if self.objective is not None:
            return self.objective(self.model, inputs, rows)
        return self.model(**inputs)["loss"]

    @contextmanager
    def _saving(self, measure: bool) -> Iterator[None]:
        if not measure:
            yield
            return
        own, found = _storages(self.model), dict[int, int]()

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in own:
                found[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            yield
        self.saved = max(self.saved, sum(found.values()))


def first_of(encoded: Encoded) -> Encoded:
    """The first text alone."""
    return replace(encoded, dataset=encoded.dataset.select([0]), lengths=encoded.lengths[:1])


def _storages(*models: nn.Module) -> dict[int, int]:
    """The bytes of each storage that the models hold, by its address."""
    tensors = [tensor for model in models for tensor in (*model.parameters(), *model.buffers())]
    return {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}


def wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextmanager
def kept(model: nn.Module) -> Iterator[None]:
    """Afterwards the model's buffers and its mode are what they were, and it has no gradients."""
    buffers, training = {name: copy.deepcopy(value) for name, value in model.named_buffers()}, model.training
    try:
        yield
    finally:
        with torch.no_grad():
            for name, value in model.named_buffers():
                value.copy_(buffers[name])
        model.zero_grad()
        model.train(training)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Afterwards all random states are what they were."""
    states: Any = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])
