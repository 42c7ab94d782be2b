"""What watches a stage: the best model so far, early stopping, the clock, and the progress shown."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import nn
from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState

from plankwise.context import Watch
from plankwise.files import whole_file
from plankwise.training.checkpoint import load_trained, to_train_anew, trained_tensors
from plankwise.training.weights import read_weights, save_weights

BEST = "best.safetensors"
SHORTEST, LONGEST = 2.0, 30.0  # seconds between two lines on the progress of a stage


class BestKeeper(TrainerCallback, ExportableState):
    """Has the model scored every so many steps and at the end, keeps the best weights, stops when patience is used up.

    Patience counts only while `settled()` is true: a hybrid's successor is not done before its rate is 1.
    """

    def __init__(
        self,
        folder: Path,
        trained: set[str],
        every: int,
        patience: int | None = None,
        settled: Callable[[], bool] = lambda: True,
    ) -> None:
        self.file = folder / BEST
        self.trained = trained
        self.every = every
        self.patience = patience
        self.settled = settled
        self.score = float("-inf")
        self.step = 0
        self.seconds_to_best = 0.0
        self.misses = 0
        self.seconds_before = 0.0  # of the calls that were interrupted
        self.started = time.monotonic()
        self.evaluating = 0.0

    @property
    def seconds(self) -> float:
        """Training time so far, evaluations left out."""
        return self.seconds_before + time.monotonic() - self.started - self.evaluating

    def state(self) -> dict:
        names = ("score", "step", "seconds_to_best", "misses")
        attributes = {name: getattr(self, name) for name in names} | {"seconds_before": self.seconds}
        return {"args": {}, "attributes": attributes}

    def restore(self, attributes: dict) -> None:
        for name, value in attributes.items():
            setattr(self, name, value)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.started, self.evaluating = time.monotonic(), 0.0

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step % self.every == 0 or state.global_step >= state.max_steps:
            control.should_evaluate = True

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        metrics = kwargs["metrics"]
        self.evaluating += metrics["eval_seconds"]
        score = metrics["eval_score"]
        if score > self.score:
            self.score, self.step, self.seconds_to_best, self.misses = score, state.global_step, self.seconds, 0
            if args.should_save:
                with whole_file(self.file) as part:
                    save_weights(trained_tensors(kwargs["model"], self.trained), part)
        elif self.settled():
            self.misses += 1
            if self.patience is not None and self.misses >= self.patience:
                control.should_training_stop = True

    def take_best(self, model: nn.Module) -> None:
        """Puts the best weights back into the model."""
        load_trained(model, self.trained, self.file)

    def check_best(self) -> None:
        """Looks whether the best weights of an earlier call are still there.

        Raises:
            RunError: they are not.
        """
        if self.step:
            read_weights(self.file, to_train_anew(self.file))


@dataclass(frozen=True)
class Show:
    """How a score is told while training goes on."""

    key: str = "score"  # of the metrics
    name: str = ""
    digits: int = 3
    examples: str = "dev"  # that it is a score on

    def __call__(self, metrics: dict[str, float]) -> str:
        name = f"{self.name} " if self.name else ""
        return f"{name}{metrics[f'eval_{self.key}']:.{self.digits}f}"


class Watched(TrainerCallback):
    """Tells whoever watches the run of each evaluation; what that raises ends the run, whose best weights are kept by then."""

    def __init__(self, name: str, watch: Watch) -> None:
        self.name = name
        self.watch = watch

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.watch(self.name, state.global_step, state.max_steps, kwargs["metrics"])


class ProgressShower(TrainerCallback):
    """A bar on a terminal; elsewhere now and then a line with the time that is left. Evaluations are a line everywhere."""

    def __init__(
        self,
        name: str,
        console: Console,
        describe: Callable[[], str],
        show: Show,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.console = console
        self.describe = describe
        self.show = show
        self.clock = clock
        self.bar: Progress | None = None
        self.status = ""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step:
            self.console.print(f"{self.name}: going on at step {state.global_step} of {state.max_steps}")
        else:
            self.console.print(f"{self.name}: {state.max_steps} steps")
        self.first = self.told = state.global_step  # the step at which this call began, and that of the latest line
        self.started = self.told_at = self.clock()
        if self.console.is_terminal and not self.console.quiet:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self.bar = Progress(*columns, TextColumn("{task.fields[status]}"), console=self.console, transient=True)
            self.task = self.bar.add_task(self.name, total=state.max_steps, completed=state.global_step, status="")
            self.bar.start()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.bar is not None:
            self.bar.update(self.task, completed=state.global_step, status=f"{self.describe()}{self.status}")
        elif state.global_step < state.max_steps:
            self._tell(state.global_step, state.max_steps)

    def _tell(self, step: int, max_steps: int) -> None:
        """A line for each tenth of the steps, and for each hundredth of the time once that is half a minute."""
        now = self.clock()
        a_step = (now - self.started) / (step - self.first)
        since = now - self.told_at
        a_tenth = since >= SHORTEST and (step * 10) // max_steps > (self.told * 10) // max_steps
        if a_tenth or since >= max(LONGEST, a_step * max_steps / 100):
            self.told, self.told_at = step, now
            minutes, seconds = divmod(round(a_step * (max_steps - step)), 60)
            left = f"{minutes // 60}:{minutes % 60:02}:{seconds:02}" if minutes >= 60 else f"{minutes}:{seconds:02}"
            self.console.print(f"{self.name} {step}/{max_steps} steps, {left} left")

    def on_log(self, args: Any, state: Any, control: Any, logs: dict | None = None, **kwargs: Any) -> None:
        if logs and "loss" in logs:
            self.loss = f"loss {float(logs['loss']):.3f}"

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.status = f"{getattr(self, 'loss', '')}  {self.show.examples} {self.show(kwargs['metrics'])}"
        self.told, self.told_at = state.global_step, self.clock()
        self.console.print(f"{self.name}: step {state.global_step}/{state.max_steps}  {self.describe()}{self.status}")

    def stop(self) -> None:
        if self.bar is not None:
            self.bar.stop()
