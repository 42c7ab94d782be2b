"""A trained model at work: scores on a dev set, and predictions."""

import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.console import Console

from plankwise.config import RunConfig
from plankwise.context import open_context, own_device
from plankwise.data.pieces import Layout
from plankwise.errors import ConfigError
from plankwise.models.exported import read_exported
from plankwise.models.limits import check_length, too_long
from plankwise.models.loading import Loader
from plankwise.run.inputs import Run, read_run
from plankwise.runtimes import Load, open_predictor
from plankwise.task_kinds import kind_of


def evaluate(config: RunConfig, console: Console) -> dict[str, Any]:
    """The task's metrics of the model at `predecessor.path`, run by the config's runtime, and `beyond_constant`.

    The latter is what a record says of whether a model knows more than one answer; it is missing for kinds of task that do not say.

    Raises:
        PlankwiseError: the model or the data cannot be used, or they do not belong together: no trained head, or classes with other
            names, in another order, or with outputs that only make sense in another order.
    """
    run = read_run(config, open_context(console, Path(config.run.folder), config.run.seed))
    task, path = run.task, config.predecessor.path
    saved = run.loader.config(path)
    task.check_head(saved, path, otherwise="")
    load = load_trained(run, path)
    with tempfile.TemporaryDirectory() as folder:
        task.lay_out(Path(folder), console, train=False)
        predictor = open_predictor(config.evaluation.runtime, path, load)
        metrics, found, outputs = task.examine(predictor)
        if outputs:
            task.check_answers(outputs, saved, path)
        return metrics if found is None else {**metrics, "beyond_constant": found}


def load_trained(run: Run, path: str) -> Load:
    """What gives the model at `path` as a torch module, once it is known that it fits; an export is not loaded.

    Raises:
        ConfigError: it has no trained head, or takes fewer tokens than texts are cut to.
    """
    length, exported = run.config.training.max_length, read_exported(path)
    if exported is not None and not exported.is_checkpoint:
        if exported.token_limit is not None and length > exported.token_limit:
            raise ConfigError(too_long(length, path, exported.token_limit))
        return run.load
    loaded = run.task.load(run.loader, path)
    if loaded.new:
        raise ConfigError(
            f"{path} has no trained head for this task ({run.task.kind}); give the successor/ or predecessor/ folder of a run on it"
        )
    check_length(length, loaded.model, run.tokenizer, path)
    return lambda path: loaded.model


def predict_table(
    config: RunConfig, path: Path, texts: list[str], layout: Layout, out: Path | None, console: Console
) -> list[Path]:
    """Writes what the model at `predecessor.path` says of a table's texts; into the kind's usual file if `out` is None.

    Raises:
        PlankwiseError: the model or the table cannot be used.
    """
    kind = _predicting(config, "predict_table")
    out = out or Path(getattr(kind, "PREDICTIONS", "predictions.csv"))
    return kind.predict_table(config, _loader(config), path, texts, layout, out, console)


def predict_tests(config: RunConfig, out: Path, console: Console) -> list[Path]:
    """Writes what the model at `predecessor.path` says of the task's test files into the folder `out`.

    Raises:
        PlankwiseError: the task has no test files, or the model does not fit.
    """
    return _predicting(config, "predict_tests").predict_tests(config, _loader(config), out, console)


def _loader(config: RunConfig) -> Loader:
    return Loader(config.predecessor.remote_code, own_device())


def _predicting(config: RunConfig, name: str) -> ModuleType:
    task: Any = config.task
    kind = kind_of(task)
    if not hasattr(kind, name):
        raise ConfigError(
            f"task.name is {task.name!r}, for which `plankwise predict` has nothing to write; give a model that was trained on "
            "labels, or use the pipeline of transformers that the model's card names"
        )
    return kind
