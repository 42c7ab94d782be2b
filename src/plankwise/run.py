"""The flow of a run, top to bottom: the only file that knows the order.

config → task → predecessor → plan → successor → floor → measurements → record
"""

import json
import shutil
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import nn
from transformers import set_seed

from plankwise import folders
from plankwise.config import RunConfig
from plankwise.errors import PlankwiseError, RunError
from plankwise.estimate.notebook import EVALUATIONS, FLOOR, TARGETS, Budget, Notebook, beside, in_words
from plankwise.estimate.outlook import look_ahead, scoring_of
from plankwise.estimate.rehearsal import Rehearsal, undisturbed
from plankwise.evaluation.size import count_parameters
from plankwise.examples.reading import read_examples
from plankwise.families._loading import check_length, load_tokenizer
from plankwise.files import write_text
from plankwise.ground import (
    Draft,
    Ground,
    Run,
    check_plan,
    check_precision,
    claim,
    claimed,
    floor_of,
    has_floor,
    make_draft,
    make_ready,
    train,
    train_whole,
)
from plankwise.measuring import measure, memory_mb, time_predictions, weigh
from plankwise.methods._job import Outcome
from plankwise.record import describe_machine, read_record, write_record
from plankwise.report.card import write_card
from plankwise.tasks import text
from plankwise.training.stage import StageResult

__all__ = [
    "Ground",
    "Run",
    "check_plan",
    "compress",
    "finetune",
    "lay_ground",
    "preview",
    "train_successor",
]
ESTIMATE = Path("checkpoints") / "estimate.json"  # goes with the checkpoints when the run is finished


def compress(config: RunConfig, console: Console) -> dict:
    """Does what the config asks, from raw data to a record; goes on where an earlier call was stopped.

    Raises:
        PlankwiseError: anything that the user can mend. Bad input is found before anything is written.
    """
    folder = Path(config.run.folder)
    if record := _find_record(folder, config, console):
        return record
    memory = memory_mb("VmRSS"), memory_mb("VmHWM")
    run, ground, estimate = _begin(config, console)
    outcome = train(run, run.load(ground.path)[0])
    stages = {**ground.stages, **outcome.stages}
    seconds = outcome.seconds + sum(stage.seconds for stage in ground.stages.values())
    paths = {"predecessor": Path(ground.path), "successor": run.save(outcome.successor, "successor")}
    if has_floor(config):
        floor = train(replace(run, config=floor_of(config)), run.load(ground.path)[0])
        stages[FLOOR] = floor.stage
        seconds += floor.seconds
        paths[FLOOR] = run.save(floor.successor, FLOOR)

    record = measure(run, paths)
    if estimate is not None:
        record["estimate"] = beside(estimate, _measured(run, stages, outcome), _growth(*memory))
    record |= {
        "steps": outcome.steps,
        "skipped_steps": outcome.skipped_steps,
        "seconds": seconds,
        "plan": outcome.plan.to_json(),
        "made_head": ground.made_head,
        **outcome.notes,
        **_describe(run, stages),
    }
    write_card(record, folder / "successor")
    return _finish(folder, record)


def finetune(config: RunConfig, console: Console) -> dict:
    """Trains the model at `predecessor.path` on the task, all of it, as `predecessor.training` says; from raw data to a record.

    Raises:
        PlankwiseError: anything that the user can mend. Bad input is found before anything is written.
    """
    folder = Path(config.run.folder)
    if record := _find_record(folder, config, console):
        return record
    path, remote_code = config.predecessor.path, config.predecessor.remote_code
    check_precision(config)
    tokenizer = load_tokenizer(path, remote_code=remote_code)
    run = Run(config, folder, console, tokenizer, read_examples(config, tokenizer, console))
    set_seed(config.run.seed)  # a new head starts from the same weights in every run of this config
    model, has_head = run.load(path)
    check_length(config.training.max_length, model, tokenizer, path)
    with claimed(run):
        run.examples.lay_out(folder, console)
    stages = train_whole(run, model, "model", new_head=not has_head)
    record = {"model": weigh(run, model, run.save(model, "model"))}
    if config.evaluation.latency:
        time_predictions(run, {"model": model}, record)
    *before, last = stages.values()
    record |= {
        "steps": sum(stage.steps for stage in stages.values()),
        "seconds": sum(stage.seconds for stage in stages.values()),
        "seconds_to_best": sum(stage.seconds for stage in before) + last.seconds_to_best,
        "made_head": not has_head,
        **_describe(run, stages),
    }
    return _finish(folder, record)


def _find_record(folder: Path, config: RunConfig, console: Console) -> dict[str, Any] | None:
    """The record of the same run if it is finished already."""
    if not folders.is_finished(folder, config):
        return None
    console.print(f"{folder} is finished already; these are its results")
    return read_record(folder)


def _finish(folder: Path, record: dict) -> dict:
    """The record comes last but for the checkpoints: with it the run is finished."""
    write_record(folder, record)
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    return record


def preview(config: RunConfig, console: Console, *, estimate: bool) -> dict:
    """What `compress` would do: the plan, where successors start, parameters, and with `estimate` what all of it will take.

    Nothing is trained, and nothing stays written: text is cut into blocks in a temporary folder, a little of it if that will do.

    Raises:
        PlankwiseError: anything that the user can mend.
    """
    if not estimate and isinstance(config.task, text.Options):
        config = config.model_copy(update={"task": config.task.model_copy(update={"train_limit": 64, "dev_limit": 64})})
    draft = make_draft(config, console)
    with tempfile.TemporaryDirectory(prefix="plankwise.") as folder:
        draft.run.examples.lay_out(Path(folder), console)
        notebook = Notebook(Budget(share=1.0)) if estimate else None
        outcome = rehearse(draft, notebook)
    assert draft.predecessor is not None
    return {
        "plan": outcome.plan.to_json(),
        "method": config.method.name,
        "init": {"given": config.plan.init, "start": outcome.notes["init"], "fitted_from": config.plan.start},
        "parameters": {
            "predecessor": count_parameters(draft.predecessor),
            "successor": count_parameters(outcome.successor),
        },
        **({} if notebook is None else {"estimate": notebook.to_json()}),
    }


def rehearse(draft: Draft, notebook: Notebook | None) -> Outcome:
    """The whole run with stages that train nothing; what they take is noted, if there is a notebook.

    Random states, and the draft's own predecessor, are left as they were.
    """
    config, examples = draft.run.config, draft.run.examples
    rehearsal = Rehearsal(notebook, scoring_of(examples, config.evaluation.batch_size))
    run = replace(draft.run, rehearsal=rehearsal)

    def take() -> nn.Module:
        rehearsal.held = None  # the one before goes first
        return draft.take()

    with undisturbed():
        if notebook is None:
            return train(run, take())
        with notebook.shown(run.console):
            if draft.needs_training:
                assert draft.predecessor is not None
                train_whole(run, draft.predecessor, "predecessor", new_head=not draft.has_head)
            outcome = train(run, take())
            if has_floor(config):
                notebook.alias = FLOOR
                train(replace(run, config=floor_of(config)), take())
            look_ahead(
                notebook,
                {"predecessor": draft.predecessor or take(), "successor": outcome.successor},
                outcome.stage.name,
                run.tokenizer,
                examples.texts(1000),
                max_length=config.training.max_length,
                options=config.evaluation,
            )
    return outcome


def _begin(config: RunConfig, console: Console) -> tuple[Run, Ground, dict | None]:
    """The ground of a run, and what the run was estimated to take before anything was trained, by the first call."""
    draft = claim(make_draft(config, console))
    estimate = _find_estimate(draft) if config.evaluation.estimate else None
    return draft.run, make_ready(draft), estimate


def _find_estimate(draft: Draft) -> dict | None:
    """Makes it, or takes the one that an earlier call made; None, and says why, if it cannot be made for this model."""
    file, console = draft.run.folder / ESTIMATE, draft.run.console
    if not file.is_file():
        notebook = Notebook()
        try:
            rehearse(draft, notebook)
        except PlankwiseError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            console.print(f"estimate: none could be made ({reason}); the run goes on without", soft_wrap=True)
            return None
        write_text(file, json.dumps(notebook.to_json()))
    try:
        estimate = json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise RunError(f"{file} cannot be read ({error}); delete it and run the same command again") from None
    console.print(f"estimate: {in_words(estimate)}")
    return estimate


def lay_ground(config: RunConfig, console: Console) -> Ground:
    """Reads the examples and makes the predecessor ready, in `run.folder` if it has to be trained first.

    Raises:
        PlankwiseError: anything that the user can mend. Bad input is found before anything is written.
    """
    return make_ready(claim(make_draft(config, console)))


def train_successor(config: RunConfig, ground: Ground, console: Console) -> Outcome:
    """Trains by the config's method in `run.folder`; goes on where an earlier call was stopped.

    Of the config, what the ground was laid by (task, predecessor, the length of texts) is not read again.
    """
    run = Run(config, Path(config.run.folder), console, ground.tokenizer, ground.examples)
    return train(run, run.load(ground.path)[0])


def _describe(run: Run, stages: dict[str, StageResult]) -> dict:
    """What every record says."""
    return {
        "stages": {name: asdict(stage) for name, stage in stages.items()},
        "task": run.examples.to_json(),
        "config": run.config.model_dump(mode="json"),
        "seed": run.config.run.seed,
        "machine": describe_machine(),
    }


def _measured(run: Run, stages: dict[str, StageResult], outcome: Outcome) -> dict[str, float]:
    """The seconds of each phase, as an estimate names them."""
    evaluating = sum(entry.get("eval_seconds", 0.0) for stage in stages.values() for entry in stage.history)
    measured = {name: stage.seconds for name, stage in stages.items()} | run.seconds
    measured[EVALUATIONS] = evaluating + run.seconds.get(EVALUATIONS, 0.0)
    if TARGETS in outcome.notes:
        measured[TARGETS] = outcome.notes[TARGETS]["seconds"]
    return measured


def _growth(before: float | None, peak_before: float | None) -> float | None:
    """By how much this process's peak lies above its memory at the run's beginning; None if an earlier peak hides it."""
    peak = memory_mb("VmHWM")
    if peak is None or before is None or peak == peak_before:
        return None
    return peak - before
