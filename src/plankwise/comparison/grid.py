"""A grid of runs: every variant with every seed on every task; what the cells of a task share is made once.

FOLDER/RECIPE/predecessor-run/       the predecessor, if it has to be trained
FOLDER/RECIPE/LABEL/seed-N/          a cell: its config, figures and outputs on dev
FOLDER/RECIPE/LABEL/seed-N/successor its model, kept for the best seed of a label
"""

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from transformers import set_seed

from plankwise.comparison.cells import SUCCESSOR, GridCell, find_cell, keep_best, write_cell
from plankwise.comparison.given import Given, check_given, measure_given, measure_model
from plankwise.comparison.speed import LATENCY, PREDECESSOR, find_latency
from plankwise.comparison.statistics import duration, expected_seconds
from plankwise.config import RunConfig, apply_override, validate_config
from plankwise.context import Context, open_context
from plankwise.errors import ConfigError, PlanError, PlankwiseError, RunError
from plankwise.evaluation.size import count_parameters
from plankwise.files import sweep_leftovers
from plankwise.run import folders
from plankwise.run.inputs import Inputs, Run, check_plan
from plankwise.run.sharing import ReadyPredecessor, make_predecessor, open_inputs, train_successor
from plankwise.run.vocabulary import save_trimmed
from plankwise.task_kinds import Task
from plankwise.training.interruption import InterruptedRunError, interruptible
from plankwise.training.job import Outcome

SHARED = ("task", "predecessor", "run", "evaluation")  # sections that no variant may change
BUDGET = ("epochs", "max_steps", "batch_size", "evaluate_every", "early_stopping")
PREDECESSOR_RUN = "predecessor-run"
TAKEN = (PREDECESSOR, PREDECESSOR_RUN, LATENCY)
LONGEST_LABEL = 64


@dataclass(frozen=True)
class Variant:
    """One row of the table: the recipe with some keys set otherwise."""

    label: str
    overrides: tuple[str, ...] = ()  # key=value
    optional: bool = False  # left out where it does not fit the task or the model, instead of refused


@dataclass(frozen=True)
class TaskResult:
    """One recipe: its predecessor and its cells."""

    name: str
    recipe: str
    task: Task
    predecessor: dict[str, Any]  # path, score, metrics, parameters, seconds (None if given), latency_ms, remarks' keys
    configs: dict[str, RunConfig]  # by label, with the first seed
    own_budget: frozenset[str]  # labels that train otherwise than the recipe says
    cells: list[GridCell]
    latency: dict[str, float] = field(default_factory=dict)  # median in ms by label
    latency_batch: int | None = None
    speedups: dict[str, dict[str, dict]] = field(default_factory=dict)  # by label and batch size: `Speedup.to_json`
    timing: dict[str, Any] | None = None  # the conditions under which they were measured
    given: Sequence[Given] = ()  # models that were made elsewhere

    @property
    def methods(self) -> dict[str, str]:
        """By label, in the order of the rows."""
        trained = {label: config.method.name for label, config in self.configs.items()}
        return trained | {row.label: row.method for row in self.given}

    @property
    def score_names(self) -> tuple[str, ...]:
        return self.task.score_names

    def retained(self, score: float) -> float | None:
        """The share of the predecessor's score that a score is, as the task has it."""
        return self.task.retained(score, self.predecessor["score"])

    def cells_of(self, label: str) -> list[GridCell]:
        return [cell for cell in self.cells if cell.label == label]


@dataclass(frozen=True)
class _Layout:
    """One recipe, checked, before anything is trained."""

    recipe: str
    folder: Path
    base: RunConfig  # that the predecessor is made by
    configs: dict[tuple[str, int], RunConfig]  # by label and seed, in the order in which they run
    optional: frozenset[str] = frozenset()  # labels

    @property
    def rows(self) -> dict[str, RunConfig]:
        """By label, with the first seed."""
        first = next(iter(self.configs))[1]
        return {label: config for (label, seed), config in self.configs.items() if seed == first}


def run_grid(
    recipes: Sequence[dict],
    variants: Sequence[Variant],
    seeds: Sequence[int],
    folder: Path,
    console: Console,
    given: Sequence[Given] = (),
) -> list[TaskResult]:
    """Trains and measures every cell that is not there yet; goes on where an earlier call was stopped.

    `recipes` are as `config.load_data` gives them. A cell that fails is reported in its place, and tried again next time. `given`
    models are measured beside them, on one recipe.

    Raises:
        PlankwiseError: anything that the user can fix. Bad input is found before anything is trained.
        InterruptedRunError: it was told to stop.
    """
    _check_rows(variants, seeds, given)
    layouts = [_lay_out(recipe, variants, seeds, folder) for recipe in recipes]
    _check_recipes(layouts, given)
    context = open_context(console, folder, 0)
    with interruptible(), folders.FolderLock(folder, context.console) as lock:
        inputs = [open_inputs(layout.base, context.console) for layout in layouts]
        layouts = [_fitting(layout, one, context.console) for layout, one in zip(layouts, inputs, strict=True)]
        for one in inputs:
            for row in given:
                check_given(row, one.run)

        def take_folder() -> None:
            lock.acquire()
            lock.log.begin()
            sweep_leftovers(folder)

        context.on_main(take_folder)
        predecessors = [make_predecessor(one) for one in inputs]
        # Before anything else is trained: it may be refused by its answers.
        others = [cell for row in given for cell in _run_given(row, predecessors[0].run, seeds)]
        cells = _run_cells(layouts, predecessors, context)
        names = [predecessor.run.task.name for predecessor in predecessors]
        return [
            _collect(
                layout,
                predecessor,
                [*own, *others],
                given,
                name if names.count(name) == 1 else f"{name} ({layout.recipe})",
            )
            for layout, predecessor, own, name in zip(layouts, predecessors, cells, names, strict=True)
        ]


def _run_given(row: Given, run: Run, seeds: Sequence[int]) -> list[GridCell]:
    run.context.console.print(f"row {row.label}: {row.model}, given", soft_wrap=True)
    return run.context.on_main(lambda: measure_given(row, run, seeds))


def _check_rows(variants: Sequence[Variant], seeds: Sequence[int], given: Sequence[Given]) -> None:
    if not variants:
        raise ConfigError("there is no row to compare; give at least one method or variant")
    labels = [variant.label for variant in variants] + [row.label for row in given]
    for label in labels:
        if not re.fullmatch(r"[\w.+-]+", label) or label.startswith(".") or len(label) > LONGEST_LABEL:
            raise ConfigError(
                f"row label {label!r} cannot name a folder; use up to {LONGEST_LABEL} letters, digits and . _ + -, "
                "with no dot in front"
            )
        if label in TAKEN:
            raise ConfigError(f"row label {label!r} is taken by the comparison's own files; choose another")
        if labels.count(label) > 1:
            raise ConfigError(f"row label {label!r} is given twice; every row needs a label of its own")
    for variant in variants:
        for override in variant.overrides:
            key = override.partition("=")[0]
            if key.partition(".")[0] in SHARED or key == "training.max_length":
                raise _not_shared(variant.label, key)
    if not seeds:
        raise ConfigError("there is no seed; give at least one")
    if len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise ConfigError(f"seeds are {list(seeds)}; give whole numbers from 0 on, each once")


def _not_shared(label: str, key: str) -> ConfigError:
    return ConfigError(
        f"row {label!r} sets {key}, but all rows share {', '.join(SHARED)} and training.max_length; "
        "set it for the whole comparison"
    )


def _lay_out(recipe: dict, variants: Sequence[Variant], seeds: Sequence[int], folder: Path) -> _Layout:
    plain = validate_config(recipe)
    name, data_seed = plain.run.name, plain.run.seed_of_data
    if name.startswith("."):
        raise ConfigError(f"run.name is {name!r}, which cannot name a folder here; choose one with no dot in front")

    def config_for(variant: Variant, place: str, seed: int) -> RunConfig:
        data = _merge(recipe, variant, plain.method.name)
        run = {"folder": str(folder / name / place), "seed": seed, "data_seed": data_seed}
        try:
            config = validate_config({**data, "run": {**data.get("run", {}), **run}})
        except ConfigError as error:
            raise ConfigError(f"row {variant.label!r} of {name}: {error}") from None
        if config.training.max_length != plain.training.max_length:
            raise _not_shared(variant.label, "training.max_length")
        return config

    base = config_for(Variant(PREDECESSOR), PREDECESSOR_RUN, plain.run.seed)
    configs = {
        (variant.label, seed): config_for(variant, f"{variant.label}/seed-{seed}", seed)
        for seed in seeds
        for variant in variants
    }
    for config in (base, *configs.values()):
        try:
            folders.is_finished(Path(config.run.folder), config)
        except RunError as error:
            raise RunError(f"{error} (a comparison's folder is set by --folder)") from None
    return _Layout(name, folder / name, base, configs, frozenset(one.label for one in variants if one.optional))


def _merge(recipe: dict, variant: Variant, method: str) -> dict:
    """The recipe's data with the variant's keys; another method than the recipe's leaves that one's own keys behind."""
    own: dict = {}
    for override in variant.overrides:
        apply_override(own, override)
    data = copy.deepcopy(recipe)
    section = own.get("method")
    if isinstance(section, dict) and section.get("name", method) != method:
        data["method"] = {}
    for override in variant.overrides:
        apply_override(data, override)
    return data


def _check_recipes(layouts: list[_Layout], given: Sequence[Given]) -> None:
    names = [layout.recipe for layout in layouts]
    if not names:
        raise ConfigError("no recipe is given; give at least one TOML file, for example one of the folder recipes/")
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two recipes have the run.name {name!r}, which names their folder; give each its own")
    if given and len(names) > 1:
        raise ConfigError(
            f"row {given[0].label!r} is a trained model, which is for one task, but there are {len(names)} recipes; give one"
        )


def _fitting(layout: _Layout, inputs: Inputs, console: Console) -> _Layout:
    """The layout without optional rows that do not fit; tries every row's plan on the predecessor as it was given.

    Raises:
        PlankwiseError: another row does not fit, or none does.
    """
    model = inputs.predecessor.model
    assert model is not None
    unfit: dict[str, PlankwiseError] = {}
    for label, config in layout.rows.items():
        try:
            inputs.run.task.check_config(config)
            check_plan(config, model)
        except (ConfigError, PlanError) as error:
            unfit[label] = type(error)(f"row {label!r} of {layout.recipe}: {error}")
    for label, reason in unfit.items():
        if label not in layout.optional or len(unfit) == len(layout.rows):
            raise reason
        console.print(f"left out: {reason}", soft_wrap=True)
    return replace(layout, configs={key: config for key, config in layout.configs.items() if key[0] not in unfit})


def _run_cells(layouts: list[_Layout], predecessors: list[ReadyPredecessor], context: Context) -> list[list[GridCell]]:
    places = [(index, key) for index, layout in enumerate(layouts) for key in layout.configs]
    console = context.console

    def find(place: tuple[int, tuple[str, int]]) -> GridCell | None:
        index, key = place
        return find_cell(Path(layouts[index].configs[key].run.folder), predecessors[index].run.task)

    found = context.on_main(lambda: {place: find(place) for place in places})
    cells = {place: cell for place, cell in found.items() if cell is not None}
    if cells:
        console.print(f"{len(cells)} of {len(places)} cells are finished already")
    for count, (index, key) in enumerate(places, start=1):
        if (index, key) in cells:
            continue
        (label, seed), layout = key, layouts[index]
        coming = [(place, row) for place, (row, other) in places if (place, (row, other)) not in cells]
        done = [(place, row, cell.seconds) for (place, (row, _)), cell in cells.items() if cell.failure is None]
        left = expected_seconds(coming, done)
        rest = "" if left is None else f"; {duration(left)} left"
        console.print(f"cell {count} of {len(places)}: {label}, seed {seed}, {layout.recipe}{rest}", soft_wrap=True)
        try:
            cells[index, key] = _run_cell(label, layout.configs[key], predecessors[index])
        except InterruptedRunError:
            raise
        except Exception as error:
            cells[index, key] = GridCell(label, seed, failure=reason(error))
            console.print(f"failed: {cells[index, key].failure}", soft_wrap=True)
    return [[cells[place, key] for place, key in places if place == index] for index in range(len(layouts))]


def reason(error: Exception) -> str:
    """Why a cell failed, on one line; the class of an error that is not ours is named."""
    text = " ".join(str(error).split())
    if isinstance(error, PlankwiseError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _run_cell(label: str, config: RunConfig, predecessor: ReadyPredecessor) -> GridCell:
    run = predecessor.at(config)
    run.context.on_main(lambda: folders.claim(run.folder, config))
    set_seed(config.run.seed)  # whatever ran before in this process
    outcome = train_successor(config, predecessor)
    path, _ = save_trimmed(run, outcome.successor, SUCCESSOR)
    return run.context.on_main(lambda: _measure_cell(label, run, outcome, path))


def _measure_cell(label: str, run: Run, outcome: Outcome, path: Path) -> GridCell:
    """What a successor gives as the run's runtime runs it; written, with the successor itself if it is the row's best."""
    cell = GridCell(
        label=label,
        seed=run.config.run.seed,
        steps=outcome.steps,
        skipped_steps=outcome.skipped_steps,
        seconds=outcome.seconds,
        notes=outcome.notes,
        held_back=outcome.stage.held_back,
        **measure_model(run, str(path)),
    )
    keep_best(run.folder, cell)
    write_cell(run.folder, cell)
    return cell


def _collect(
    layout: _Layout, ready: ReadyPredecessor, cells: list[GridCell], given: Sequence[Given], name: str
) -> TaskResult:
    run = replace(ready.run, context=ready.run.context.at(layout.folder, layout.base.run.seed))
    options = layout.base.evaluation
    predecessor, timed = run.context.on_main(lambda: _measure_predecessor(layout, ready, run, given))
    own_budget = {
        label
        for label, config in layout.rows.items()
        if any(getattr(config.training, key) != getattr(layout.base.training, key) for key in BUDGET)
    }
    size = options.latency_batch_sizes[0]
    latency = {label: by_size[str(size)]["p50_ms"] for label, by_size in timed.get("latency", {}).items()}
    predecessor["latency_ms"] = latency.pop(PREDECESSOR, None)
    return TaskResult(
        name,
        layout.recipe,
        run.task,
        predecessor,
        layout.rows,
        frozenset(own_budget),
        cells,
        latency,
        size if latency else None,
        timed.get("speedups", {}),
        timed.get("timing"),
        given,
    )


def _measure_predecessor(
    layout: _Layout, ready: ReadyPredecessor, run: Run, given: Sequence[Given]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the table says of the predecessor, and what was measured of the rows' speed."""
    model = run.open(ready.path)
    metrics, beyond_constant, _ = run.task.examine(model)
    timed = find_latency(layout.rows, layout.folder, ready.path, run, given) if run.config.evaluation.latency else {}
    return {
        "path": ready.path,
        "score": metrics.pop("score"),
        "metrics": metrics,
        "parameters": count_parameters(ready.load() if model.module is None else model.module),
        "beyond_constant": beyond_constant,
        "held_back": list(ready.stages.values())[-1].held_back if ready.stages else None,
        "ignored_guards": ready.ignored_guards,
        "seconds": sum(stage.seconds for stage in ready.stages.values()) if ready.stages else None,
    }, timed
