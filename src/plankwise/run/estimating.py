"""What a run will do and take, before it does: its plan, and an estimate from a rehearsal of its own steps."""

import copy
import json
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from rich.console import Console
from torch import nn

from plankwise.config import RunConfig
from plankwise.context import open_context
from plankwise.errors import PlankwiseError
from plankwise.estimate.measurements import add_measurements
from plankwise.estimate.phases import EVALUATIONS, TARGETS, Estimate, KeptEstimate, duration
from plankwise.estimate.rehearsal import RehearsedStage
from plankwise.estimate.timing import Budget
from plankwise.estimate.work import Weights
from plankwise.evaluation.size import count_parameters
from plankwise.files import read_as, write_text
from plankwise.run.inputs import Inputs, Run, read_inputs
from plankwise.run.measuring import memory_mb
from plankwise.run.training import PREDECESSOR, SUCCESSOR, has_truncated, train, train_truncated, train_whole
from plankwise.task_kinds import kind_of
from plankwise.training.job import Outcome
from plankwise.training.stage import Stage, StageResult

Result = TypeVar("Result")
ESTIMATE = Path("checkpoints") / "estimate.json"  # goes with the checkpoints when the run is finished


def preview(config: RunConfig, console: Console, *, estimate: bool) -> dict:
    """What `compress` would do: the plan, where successors start, parameters, and with `estimate` what all of it will take.

    Nothing is trained, and nothing stays written: what is too large for memory is laid out in a temporary folder, a little of
    it if that will do.

    Raises:
        PlankwiseError: anything that the user can fix.
    """
    less = getattr(kind_of(config.task), "preview", None)
    if not estimate and less is not None:
        config = config.model_copy(update={"task": less(config.task)})
    inputs = read_inputs(config, open_context(console, Path(config.run.folder), config.run.seed))
    model = inputs.predecessor.model
    assert model is not None
    with tempfile.TemporaryDirectory(prefix="plankwise.") as folder:
        inputs.run.task.lay_out(Path(folder), console)
        found = Estimate(Budget(share=1.0)) if estimate else None
        outcome = rehearse(inputs, found)
    return {
        "plan": outcome.plan.to_json(),
        "method": config.method.name,
        "init": {
            "given": config.plan.init,
            "start": outcome.notes["init"],
            "fitted_from": "solved" if config.plan.solves else config.plan.start,
        },
        "parameters": {PREDECESSOR: count_parameters(model), SUCCESSOR: count_parameters(outcome.successor)},
        **({} if found is None else {"estimate": found.to_json()}),
    }


def rehearse(inputs: Inputs, estimate: Estimate | None) -> Outcome:
    """The whole run with stages that train nothing; they fill in the estimate, if there is one.

    Random states, and the predecessor, are left as they were.
    """
    config, plan, context = inputs.run.config, inputs.plan, inputs.run.context
    model, is_trained = inputs.predecessor.model, inputs.predecessor.needs_training
    assert model is not None

    def with_a_copy(work: Callable[[Run, nn.Module], Result]) -> Result:
        own = copy.deepcopy(model)

        def rehearsed(stage: Stage) -> Stage:
            return RehearsedStage(**{**vars(stage), "folder": Path(folder)}, estimate=estimate, predecessor=own)

        return work(replace(inputs.run, rehearse=rehearsed), own)

    status = context.console.status("estimate: a few steps are tried out")
    with tempfile.TemporaryDirectory(prefix="plankwise.") as folder, _random_states_kept(), status:
        if estimate is None:
            return with_a_copy(lambda run, own: train(run, plan, own))
        if is_trained:
            new_head = not inputs.predecessor.has_head
            with_a_copy(lambda run, own: train_whole(run, own, PREDECESSOR, new_head=new_head))
            estimate.evaluated += Weights(model.eval()).forward()  # once trained, it is looked at
        outcome = with_a_copy(lambda run, own: train(run, plan, own))
        if has_truncated(config):
            with_a_copy(lambda run, own: train_truncated(run, plan, own, outcome))
        models = {PREDECESSOR: model, SUCCESSOR: outcome.successor}
        counts = {PREDECESSOR: 1, SUCCESSOR: 1 + has_truncated(config)}
        context.on_main(lambda: add_measurements(estimate, models, counts, inputs.run.task, config.evaluation))
        return outcome


def find_estimate(inputs: Inputs) -> dict | None:
    """Makes it, or takes the one that an earlier call made; None, and says why, if it cannot be made for this model."""
    context = inputs.run.context
    file, console = inputs.run.folder / ESTIMATE, context.console
    if not context.on_main(file.is_file):
        made = Estimate()
        try:
            rehearse(inputs, made)
        except PlankwiseError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            console.print(f"estimate: none could be made ({reason}); the run goes on without", soft_wrap=True)
            return None
        context.on_main(lambda: write_text(file, json.dumps(made.to_json())))
    known = read_as(file, KeptEstimate)
    seconds, memory = known.seconds.estimated, known.memory.estimated_mb
    console.print(f"estimate: about {duration(seconds)}, {memory:.0f} MB at the peak")
    return asdict(known)


def compare_with_outcome(
    estimate: dict,
    run: Run,
    stages: dict[str, StageResult],
    outcome: Outcome,
    memory_before: tuple[float | None, float | None],
) -> dict:
    """The estimate beside what the phases really took, for the record; `memory_before`: as the run began, and its peak then."""
    evaluating = sum(entry.get("eval_seconds", 0.0) for stage in stages.values() for entry in stage.history)
    measured = {name: stage.seconds for name, stage in stages.items()} | run.seconds
    measured[EVALUATIONS] = evaluating + run.seconds.get(EVALUATIONS, 0.0)
    if TARGETS in outcome.notes:
        measured[TARGETS] = outcome.notes[TARGETS]["seconds"]
    phases = {name: {**phase, "measured": measured.get(name)} for name, phase in estimate["phases"].items()}
    total = sum(phase["measured"] or 0.0 for phase in phases.values())
    return {
        **estimate,
        "phases": phases,
        "seconds": {**estimate["seconds"], "measured": total},
        "memory": {**estimate["memory"], "process_growth_mb": _growth(*memory_before)},
    }


def _growth(before: float | None, peak_before: float | None) -> float | None:
    """By how much this process's peak lies above its memory at the run's beginning; None if an earlier peak hides it.

    That is more than what training takes: the data, libraries loaded on the way, what the allocator keeps.
    """
    peak = memory_mb("VmHWM")
    if peak is None or before is None or peak == peak_before:
        return None
    return peak - before


@contextmanager
def _random_states_kept() -> Iterator[None]:
    """Afterwards all random states are what they were."""
    states: Any = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])
