"""How trials are carried out: by the grid, or run by run with what `plankwise compress` is made of."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console

from plankwise.config import RunConfig, validate_config
from plankwise.context import open_context
from plankwise.errors import RunError
from plankwise.files import read_json
from plankwise.record import FILE, write_record
from plankwise.run import folders
from plankwise.studies import Measured, Point, StudyRequest, Trial
from plankwise.toml import apply_override
from plankwise.training.interruption import InterruptedRunError

if TYPE_CHECKING:
    from torch import nn

    from plankwise.run.dividing import Claim
    from plankwise.run.sharing import ReadyPredecessor

Key = TypeVar("Key")


def measure_grid(trials: list[Trial], request: StudyRequest) -> list[Measured]:
    """Every arm with every seed, against the one predecessor of its task."""
    return [_measure(trial, request) for trial in trials]


def _measure(trial: Trial, request: StudyRequest) -> Measured:
    from plankwise.comparison.grid import Variant, run_grid

    variants = [Variant(arm.label, arm.overrides) for arm in trial.arms]
    (result,) = run_grid(
        [trial.recipe], variants, request.seeds, request.folder, request.console, workers=request.workers
    )
    arms = {arm.label: arm for arm in trial.arms}
    points = [
        Point(
            arms[cell.label],
            cell.seed,
            cell.score,
            cell.failure or "",
            cell.skipped_steps / max(1, cell.steps),
            cell.beyond_constant,
        )
        for cell in result.cells
    ]
    return Measured(trial.name, " and ".join(result.score_names), trial.arms, points, result.predecessor["score"])


def check_data(recipe: dict) -> None:
    """Reads a recipe's tokenizer and examples: what is wrong with the last recipe is said before the first is trained.

    Raises:
        PlankwiseError: they cannot be read.
    """
    from plankwise.models.limits import check_length
    from plankwise.run.inputs import read_run

    config = validate_config(recipe)
    run = read_run(config, open_context(Console(quiet=True), Path(config.run.folder), config.run.seed))
    check_length(config.training.max_length, outline(config), run.tokenizer, config.predecessor.path)


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


def make_base(recipe: dict, request: StudyRequest) -> tuple[RunConfig, ReadyPredecessor]:
    """The recipe's predecessor and examples, which all seeds share.

    Raises:
        PlankwiseError: anything that the user can fix.
    """
    from plankwise.run.sharing import open_inputs, share_predecessor

    folder = request.folder / recipe["run"]["name"] / "predecessor-run"
    config = configure(recipe, folder, validate_config(recipe).run.seed)
    check_folders([config])
    return config, share_predecessor(open_inputs(config, request.console), request.workers)


def attempt_all(
    configs: Mapping[Key, RunConfig],
    work: Callable[[Key, Claim | None], dict],
    request: StudyRequest,
    tell: Callable[[Key], str] = lambda key: "",
) -> dict[Key, tuple[dict, str]]:
    """What `work` gives for each config, kept in the config's folder, and no failure; or nothing, and why.

    Configs of one folder are worked on once. Where workers share the study, `work` gets the claim of this one.
    """
    from plankwise.run.workers import reason

    found: dict[Key, tuple[dict, str]] = {}
    if request.workers is None:
        for key, config in configs.items():
            if line := tell(key):
                request.console.print(line, soft_wrap=True)
            try:
                found[key] = keep(config, partial(work, key, None)), ""
            except InterruptedRunError:
                raise
            except Exception as error:
                found[key] = {}, reason(error)
        return found
    names = {key: str(Path(config.run.folder).relative_to(request.folder)) for key, config in configs.items()}
    keys = {name: key for key, name in reversed(names.items())}

    def attempt(name: str, claim: Claim) -> None:
        request.console.print(tell(keys[name]) or name, soft_wrap=True)
        keep(configs[keys[name]], partial(work, keys[name], claim))

    places = {name: request.folder / name for name in names.values()}
    failures = request.workers.share(places, attempt, lambda name: (places[name] / FILE).is_file())
    return {
        key: ({}, failures[name]) if name in failures else (read_json(places[name] / FILE), "")
        for key, name in names.items()
    }


def keep(config: RunConfig, work: Callable[[], dict]) -> dict:
    """What `work` gives, kept in the config's folder: done once, and never taken for another config's.

    Raises:
        RunError: the folder holds another run.
    """
    context = open_context(Console(quiet=True), Path(config.run.folder), config.run.seed)
    folder = context.folder

    def find() -> dict | None:
        if folders.is_finished(folder, config):
            return read_json(folder / FILE)
        folders.claim(folder, config)
        return None

    found = context.on_main(find)
    if found is not None:
        return found
    record = work()

    def finish() -> None:
        write_record(folder, record)
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)

    context.on_main(finish)
    return record


def outline(config: RunConfig) -> nn.Module:
    """The predecessor without its weights, to see before any training whether a plan fits.

    Raises:
        ConfigError: there is no such model, or it cannot do the task.
    """
    from plankwise.models.loading import Loader
    from plankwise.task_kinds import kind_of

    options = config.predecessor
    return Loader(options.remote_code).outline(options.path, kind_of(config.task).auto_class(config.task))
