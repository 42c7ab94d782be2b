"""Fine-tuning of a whole model on a task, from raw data to a record."""

from pathlib import Path

from rich.console import Console
from transformers import set_seed

from plankwise.config import RunConfig
from plankwise.context import Context, open_context
from plankwise.errors import ConfigError
from plankwise.models.limits import check_length
from plankwise.run.compress import describe, find_record, finish_record
from plankwise.run.folders import FolderLock, claimed
from plankwise.run.inputs import read_run
from plankwise.run.measuring import measure_one, time_predictions
from plankwise.run.training import train_whole
from plankwise.training.interruption import interruptible

MODEL = "model"


def finetune(config: RunConfig, console: Console) -> dict:
    """Trains the model at `predecessor.path` on the task, all of it, as `predecessor.training` says; from raw data to a record.

    Raises:
        PlankwiseError: anything that the user can fix. Bad input is found before anything is written.
    """
    context = open_context(console, Path(config.run.folder), config.run.seed, config.run.patience_seconds)
    with interruptible(), FolderLock(context.folder, console) as lock:
        found = find_record(config, context, lock)
        return _finetune(config, context, lock) if found is None else found


def _finetune(config: RunConfig, context: Context, lock: FolderLock) -> dict:
    run = read_run(config, context)
    path = config.predecessor.path
    if run.task.imitation is not None:
        raise ConfigError(
            f"task.name is {config.task.name!r}, which has no labels to train a model on: a successor learns from its predecessor "
            "alone; use `plankwise compress`"
        )
    set_seed(context.seed)  # a new head starts from the same weights in every run of this config
    loaded = run.task.load(run.loader, path)
    check_length(config.training.max_length, loaded.model, run.tokenizer, path)

    def lay_out() -> None:
        with claimed(lock, config):
            run.task.lay_out(run.folder, context.console)

    context.on_main(lay_out)
    if not context.is_main:
        run.task.lay_out(run.folder, context.console)  # what rank 0 has written
    stages = train_whole(run, loaded.model, MODEL, new_head=bool(loaded.new))
    saved = str(run.save(loaded.model, MODEL))

    def finish() -> dict:
        model = run.open(saved)
        record: dict = {MODEL: measure_one(run, model, saved)}
        if config.evaluation.latency:
            time_predictions(run, {MODEL: model}, record)
        *before, last = stages.values()
        record[MODEL]["held_back"] = last.held_back
        record |= {
            "steps": sum(stage.steps for stage in stages.values()),
            "seconds": sum(stage.seconds for stage in stages.values()),
            "seconds_to_best": sum(stage.seconds for stage in before) + last.seconds_to_best,
            "made_head": bool(loaded.new),
            **describe(run, stages),
        }
        return finish_record(run.folder, record)

    return context.on_main(finish)
