"""How trials are carried out: by the grid, or run by run with what `plankwise compress` is made of."""

import copy
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import nn
from transformers import AutoModelForSequenceClassification

from plankwise import folders
from plankwise.comparison.grid import Variant, reason, run_grid
from plankwise.config import RunConfig, apply_override, validate_config
from plankwise.errors import ConfigError, RunError
from plankwise.examples.labelled import prepare_task
from plankwise.families._loading import check_length, load_config, load_tokenizer
from plankwise.families._quiet import quiet
from plankwise.record import read_record, write_record
from plankwise.run import Ground, lay_ground
from plankwise.studies._study import Measured, Point, Request, Trial


def measure_grid(trials: list[Trial], request: Request) -> list[Measured]:
    """Every arm with every seed, against the one predecessor of its task."""
    return [_measure(trial, request) for trial in trials]


def _measure(trial: Trial, request: Request) -> Measured:
    variants = [Variant(arm.label, arm.overrides) for arm in trial.arms]
    (result,) = run_grid([trial.recipe], variants, request.seeds, request.folder, request.console)
    arms = {arm.label: arm for arm in trial.arms}
    points = [
        Point(arms[cell.label], cell.seed, cell.score, cell.failure or "", cell.skipped_steps / max(1, cell.steps))
        for cell in result.cells
    ]
    return Measured(trial.name, " and ".join(result.score_names), trial.arms, points, result.predecessor["score"])


def check_data(recipe: dict) -> None:
    """Reads a recipe's tokenizer and examples: what is wrong with the last recipe is said before the first is trained.

    Raises:
        PlankwiseError: they cannot be read.
    """
    config = validate_config(recipe)
    tokenizer = load_tokenizer(config.predecessor.path, remote_code=config.predecessor.remote_code)
    check_length(config.training.max_length, outline(config), tokenizer, config.predecessor.path)
    prepare_task(config.task, config, Console(quiet=True))


def configure(recipe: dict, folder: Path, seed: int, overrides: tuple[str, ...] = ()) -> RunConfig:
    """The config of one of a study's runs: its own folder and seed, the recipe's examples.

    Raises:
        ConfigError: an override does not fit.
    """
    data = copy.deepcopy(recipe)
    for override in overrides:
        apply_override(data, override)
    data_seed = validate_config(recipe).run.seed_of_data
    data["run"] = {**data["run"], "folder": str(folder), "seed": seed, "data_seed": data_seed}
    return validate_config(data)


def check_folders(configs: Iterable[RunConfig]) -> None:
    """Looks whether runs can be written where they are to be, before any of them starts.

    Raises:
        RunError: a folder holds another run.
    """
    for config in configs:
        try:
            folders.is_finished(Path(config.run.folder), config)
        except RunError as error:
            raise RunError(f"{error} (a study's folder is set by --folder)") from None


def lay_base(recipe: dict, folder: Path, console: Console) -> tuple[RunConfig, Ground]:
    """The recipe's predecessor and examples, which all seeds share.

    Raises:
        PlankwiseError: anything that the user can mend.
    """
    config = configure(recipe, folder / "predecessor-run", validate_config(recipe).run.seed)
    check_folders([config])
    return config, lay_ground(config, console)


def attempt(work: Callable[[], Any]) -> tuple[Any, str]:
    """What `work` gives, and no failure; or nothing, and why."""
    try:
        return work(), ""
    except Exception as error:
        return None, reason(error)


def keep(config: RunConfig, work: Callable[[], dict]) -> dict:
    """What `work` gives, kept in the config's folder: done once, and never taken for another config's.

    Raises:
        RunError: the folder holds another run.
    """
    folder = Path(config.run.folder)
    if folders.is_finished(folder, config):
        return read_record(folder)
    folders.claim(folder, config)
    record = work()
    write_record(folder, record)
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    return record


def outline(config: RunConfig) -> nn.Module:
    """The predecessor without its weights, to see before any training whether a plan fits.

    Raises:
        ConfigError: there is no such model, or it cannot be a classifier.
    """
    options = config.predecessor
    given = load_config(options.path, remote_code=options.remote_code)
    try:
        with quiet(), torch.device("meta"):
            return AutoModelForSequenceClassification.from_config(given, trust_remote_code=options.remote_code)
    except ValueError as error:
        raise ConfigError(
            f"predecessor.path is {options.path!r}, of which transformers makes no sequence classifier "
            f"({str(error).splitlines()[0][:200]}); choose a model of another type"
        ) from error
