"""The flow of a run, top to bottom.

config → inputs (task, predecessor, plan) → folder → estimate → predecessor → successor → truncated model → measurements → record
"""

import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from plankwise.config import RunConfig
from plankwise.context import Context, Watch, open_context
from plankwise.efforts import HOURS
from plankwise.errors import ConfigError
from plankwise.record import describe_machine, read_run_record, write_record
from plankwise.report.card import write_card
from plankwise.run.effort import fit_steps
from plankwise.run.estimating import compare_with_outcome, find_estimate
from plankwise.run.folders import FolderLock, claimed, discard_untrained, is_finished
from plankwise.run.inputs import Inputs, Run, read_inputs
from plankwise.run.measuring import measure, memory_mb
from plankwise.run.searching import Search
from plankwise.run.training import (
    PREDECESSOR,
    SUCCESSOR,
    TRUNCATED,
    check_learnt,
    has_truncated,
    look_at,
    make_ready,
    train,
    train_truncated,
)
from plankwise.run.vocabulary import save_trimmed
from plankwise.training.interruption import interruptible
from plankwise.training.stage import StageResult


def compress(config: RunConfig, console: Console, watch: Watch | None = None) -> dict:
    """Does what the config asks, from raw data to a record; goes on where an earlier call was stopped.

    `watch` hears of every evaluation; what it raises ends the run there.

    Raises:
        PlankwiseError: anything that the user can fix. Bad input is found before anything is written.
    """
    context = replace(
        open_context(console, Path(config.run.folder), config.run.seed, config.run.patience_seconds), watch=watch
    )
    with interruptible(), FolderLock(context.folder, console) as lock:
        found = find_record(config, context, lock)
        return _compress(config, context, lock) if found is None else found


def _compress(config: RunConfig, context: Context, lock: FolderLock) -> dict:
    memory = memory_mb("VmRSS"), memory_mb("VmHWM")
    inputs = read_inputs(config, context)
    run, plan, predecessor = inputs.run, inputs.plan, inputs.predecessor
    begin(inputs, lock)
    made_head = not predecessor.has_head
    estimate = find_estimate(inputs) if config.evaluation.estimate or config.run.within else None
    try:
        run, effort = fit_steps(run, estimate)
    except ConfigError:
        context.on_main(lambda: discard_untrained(context.folder))
        raise

    stages = make_ready(predecessor)
    seconds_by = {PREDECESSOR: sum(stage.seconds for stage in stages.values())} if stages else {}
    held_back = {PREDECESSOR: list(stages.values())[-1].held_back} if stages else {}
    if effort is not None and config.run.effort == HOURS:
        found = Search(run, predecessor.take).find()
        outcome, seconds_by[SUCCESSOR] = found.outcome, found.seconds
        effort |= found.notes
    else:
        outcome = train(run, plan, predecessor.take())
        seconds_by[SUCCESSOR] = outcome.seconds
    stages |= outcome.stages
    held_back[SUCCESSOR] = outcome.stage.held_back
    path, saved = save_trimmed(run, outcome.successor, SUCCESSOR)
    paths, vocabularies = {PREDECESSOR: predecessor.path, SUCCESSOR: str(path)}, {SUCCESSOR: saved}
    if has_truncated(config):
        other = train_truncated(run, plan, predecessor.take(), outcome)
        stages[TRUNCATED] = other.stage
        if other.steps:
            seconds_by[TRUNCATED] = other.seconds
        held_back[TRUNCATED] = other.stage.held_back
        path, vocabularies[TRUNCATED] = save_trimmed(run, other.successor, TRUNCATED)
        paths[TRUNCATED] = str(path)

    def finish() -> dict:
        record = measure(run, paths)
        for name, found in held_back.items():
            record[name]["held_back"] = found
        for name, told in vocabularies.items():
            record[name] |= {} if told is None else {"vocabulary": told}
        if estimate is not None:
            record["estimate"] = compare_with_outcome(estimate, run, stages, outcome, memory)
        record |= {
            "steps": outcome.steps,
            "skipped_steps": outcome.skipped_steps,
            "seconds": sum(seconds_by.values()),
            "seconds_by": seconds_by,
            "ignored_guards": predecessor.ignored_guards,
            "plan": outcome.plan.to_json(),
            "made_head": made_head,
            "effort": effort,
            **outcome.notes,
            **describe(run, stages),
        }
        write_card(record, run.folder / SUCCESSOR)
        return finish_record(run.folder, record)

    return context.on_main(finish)


def find_record(config: RunConfig, context: Context, lock: FolderLock) -> dict[str, Any] | None:
    """The record of the same run if it is finished already; else the folder, if it is there, is locked."""

    def find() -> dict | None:
        if is_finished(context.folder, config):
            context.console.print(f"{context.folder} is finished already; these are its results")
            return read_run_record(context.folder)
        if context.folder.exists():
            lock.acquire()
        return None

    return context.on_main(find)


def begin(inputs: Inputs, lock: FolderLock) -> None:
    """Claims the folder, lays out the examples there, and looks at a predecessor that was given."""
    run, predecessor = inputs.run, inputs.predecessor
    context, task = run.context, run.task
    given = not predecessor.needs_training
    if given and not task.on_disk:
        check_learnt(predecessor, given=True)

    def lay_out() -> None:
        with claimed(lock, run.config):
            task.lay_out(run.folder, context.console)
            if given and task.on_disk:
                look_at(predecessor, given=True)

    context.on_main(lay_out)
    if not context.is_main:
        task.lay_out(run.folder, context.console)  # what rank 0 has written


def finish_record(folder: Path, record: dict) -> dict:
    """The record comes last but for the checkpoints: with it the run is finished."""
    write_record(folder, record)
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    return record


def describe(run: Run, stages: dict[str, StageResult]) -> dict:
    """What every record says."""
    return {
        "stages": {name: asdict(stage) for name, stage in stages.items()},
        "task": run.task.describe(),
        "config": run.config.model_dump(mode="json"),
        "seed": run.config.run.seed,
        "processes": run.context.world_size,
        "machine": describe_machine(),
    }
