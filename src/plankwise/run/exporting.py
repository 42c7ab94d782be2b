"""A run's model, or any other, exported: found, written by `export/`, and checked on the task's dev set before it has its name."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from plankwise.config import RunConfig
from plankwise.context import Context
from plankwise.data.batch import sorted_batches, without_labels
from plankwise.errors import ConfigError, RunError
from plankwise.export import STATIC, export_model
from plankwise.models.exported import FILE, read_exported
from plankwise.models.limits import check_length
from plankwise.models.loading import Loader
from plankwise.models.sentences import load_as_saved
from plankwise.models.vocabulary import trim
from plankwise.run.export_check import check_export
from plankwise.run.export_request import ExportRequest
from plankwise.run.inputs import Run, read_run
from plankwise.run.vocabulary import gather_texts
from plankwise.runtimes.torch import TorchPredictor
from plankwise.task_kinds import kind_of

CALIBRATION_TEXTS, CALIBRATION_BATCH = 256, 8


def export(config: RunConfig, request: ExportRequest, out: Path, console: Console) -> dict[str, Any]:
    """Exports the model at `predecessor.path` to the folder `out`; gives what was written and found, as JSON.

    Raises:
        PlankwiseError: the model or the data cannot be used, the place is taken, or the exported model loses too much.
    """
    path = config.predecessor.path
    if read_exported(path) is not None:
        raise ConfigError(f"{path} is an export already; give the model that it was made from")
    _clear(out, force=request.force)
    context = Context(console, out, config.run.seed, "cpu")
    with _loaded(config, context, request) as (model, tokenizer, run):
        if run is not None or request.max_length is not None:
            check_length(config.training.max_length, model, tokenizer, path)
        console.print(f"export: {path} to {out}", soft_wrap=True)
        whole = model
        if request.vocabulary and request.check and run is not None and run.task.needs_tokens is not None:
            raise ConfigError(
                f"--check is given with --vocabulary, but the task is on {run.task.kind}, where {run.task.needs_tokens}; leave "
                "--check out"
            )
        if request.vocabulary:
            small = trim(
                model, tokenizer, gather_texts(request.vocabulary, None if run is None else run.task, "--vocabulary")
            )
            model, tokenizer = small.model, small.tokenizer
            console.print(f"vocabulary: {len(small.kept):,} of {small.rows_before:,} tokens kept", soft_wrap=True)
        export_model(
            model,
            tokenizer,
            out,
            format=request.format,
            precision=request.precision,
            quantise=request.quantise,
            safe_range=request.safe_range,
            calibration=calibration_batches(run) if run is not None and request.quantise == STATIC else (),
            max_length=request.max_length or getattr(model, "max_length", None),
            check=_check(run, model, whole, tokenizer, request) if run is not None and request.check else None,
        )
    written = read_exported(str(out))
    assert written is not None
    return {
        "folder": str(out),
        "format": written.format,
        "precision": written.precision,
        "quantise": written.quantise,
        "safe_range": written.safe_range,
        "size_mb": written.size_mb(out),
        "check": written.check,
        "usage": written.usage,
    }


def _clear(out: Path, *, force: bool) -> None:
    """Looks whether the place is free, or may be replaced, and removes what a killed export had begun there.

    Raises:
        RunError: it is not.
    """
    if out.exists() and not (out / FILE).is_file() and (out.is_file() or any(out.iterdir())):
        raise RunError(f"{out} exists and is not an export of plankwise; choose another place with --out")
    if (out / FILE).is_file() and not force:
        raise RunError(f"{out} is there already; add --force to replace it, or choose another place with --out")
    for leftover in out.parent.glob(f".{out.name}.*.part"):
        shutil.rmtree(leftover, ignore_errors=True)


@contextmanager
def _loaded(config: RunConfig, context: Context, request: ExportRequest) -> Iterator[tuple[Any, Any, Run | None]]:
    """The model, its tokenizer and, where it is needed, the task."""
    path = config.predecessor.path
    if not request.needs_task:
        loader = Loader(config.predecessor.remote_code, "cpu")
        yield load_as_saved(loader, path), loader.tokenizer(path), None
        return
    preview = getattr(kind_of(config.task), "preview", None)
    if preview is not None and not request.check:  # a few texts are enough to calibrate
        config = config.model_copy(update={"task": preview(config.task)})
    run = read_run(config, context)
    run.task.check_head(run.loader.config(path), path, otherwise="")
    loaded = run.task.load(run.loader, path)
    if loaded.new:
        raise ConfigError(
            f"{path} has no trained head for this task ({run.task.kind}); give a run on it, or a model that was trained on it"
        )
    with tempfile.TemporaryDirectory() as folder:
        run.task.lay_out(Path(folder), context.console, train=request.quantise == STATIC)
        yield loaded.model.eval(), run.tokenizer, run


def calibration_batches(run: Run) -> list[Any]:
    """Some of the task's training texts, drawn by the run's seed, as the model takes them."""
    train = without_labels(run.task.train)
    count = min(CALIBRATION_TEXTS, len(train.lengths))
    rows = np.sort(np.random.default_rng(run.config.run.seed).permutation(len(train.lengths))[:count])
    few = type(train)(train.dataset.select(rows.tolist()), train.lengths[rows], 0, train.zeros)
    return [batch for _, batch in sorted_batches(few, run.tokenizer, CALIBRATION_BATCH)]


def _check(run: Run, model: Any, whole: Any, tokenizer: Any, request: ExportRequest) -> Any:
    """Compares with the same model in torch; the score also with that of the whole vocabulary."""

    def check(folder: Path) -> dict[str, Any]:
        run.context.console.print("check: dev through the exported model and through torch")
        reference = TorchPredictor(model)
        if model is whole:
            return check_export(run, reference, folder, request.precision, request.tolerance)
        reference.tokenizer = tokenizer
        score = run.task.score(TorchPredictor(whole))["score"]
        return check_export(run, reference, folder, request.precision, request.tolerance, score)

    return check
