"""A grid of runs: every variant with every seed on every task; what the cells of a task share is made once.

FOLDER/RECIPE/predecessor-run/       the predecessor, if it has to be trained
FOLDER/RECIPE/LABEL/seed-N/          a cell: its config, figures and outputs on dev
FOLDER/RECIPE/LABEL/seed-N/successor its model, kept for the best seed of a label
"""

import copy
import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from transformers import set_seed

from plankwise import folders
from plankwise.comparison.statistics import duration, expected_seconds
from plankwise.config import RunConfig, apply_override, validate_config
from plankwise.errors import ConfigError, PlanError, PlankwiseError, RunError
from plankwise.evaluation.latency import measure_latency
from plankwise.evaluation.scoring import Scorer
from plankwise.evaluation.size import count_parameters
from plankwise.examples.labelled import Labelled, prepare_task
from plankwise.families._loading import check_length, load_classifier, load_tokenizer
from plankwise.files import sweep_leftovers, whole_file, write_text
from plankwise.run import Ground, Run, check_plan, lay_ground, train_successor

SHARED = ("task", "predecessor", "run", "evaluation")  # sections that no variant may change
BUDGET = ("epochs", "max_steps", "batch_size", "evaluate_every", "early_stopping")
PREDECESSOR, GROUND = "predecessor", "predecessor-run"
CELL, OUTPUTS, LATENCY = "cell.json", "outputs.npz", "latency.json"
TAKEN = (PREDECESSOR, GROUND, LATENCY)
LONGEST_LABEL = 64


@dataclass(frozen=True)
class Variant:
    """One row of the table: the recipe with some keys set otherwise."""

    label: str
    overrides: tuple[str, ...] = ()  # key=value


@dataclass(frozen=True)
class Cell:
    """One variant with one seed on one task; `failure` says why there are no figures."""

    label: str
    seed: int
    score: float | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    steps: int = 0
    skipped_steps: int = 0
    seconds: float = 0.0
    parameters: int | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    failure: str | None = None
    outputs: dict[str, np.ndarray] = field(default_factory=dict, repr=False, compare=False)  # by dev set

    def to_json(self) -> dict:
        return asdict(replace(self, outputs={}))


@dataclass(frozen=True)
class TaskResult:
    """One recipe: its predecessor and its cells."""

    name: str
    recipe: str
    scorer: Scorer
    predecessor: dict[str, Any]  # path, score, metrics, parameters, seconds (None if given), latency_ms
    configs: dict[str, RunConfig]  # by label, with the first seed
    own_budget: frozenset[str]  # labels that train otherwise than the recipe says
    cells: list[Cell]
    latency: dict[str, float] = field(default_factory=dict)  # median in ms by label
    latency_batch: int | None = None

    @property
    def score_names(self) -> tuple[str, ...]:
        return self.scorer.source.score

    def cells_of(self, label: str) -> list[Cell]:
        return [cell for cell in self.cells if cell.label == label]


@dataclass(frozen=True)
class _Layout:
    """One recipe, checked, before anything is trained."""

    recipe: str
    folder: Path
    base: RunConfig  # what the ground is laid by
    configs: dict[tuple[str, int], RunConfig]  # by label and seed, in the order in which they run

    @property
    def rows(self) -> dict[str, RunConfig]:
        """By label, with the first seed."""
        first = next(iter(self.configs))[1]
        return {label: config for (label, seed), config in self.configs.items() if seed == first}


def run_grid(
    recipes: Sequence[dict], variants: Sequence[Variant], seeds: Sequence[int], folder: Path, console: Console
) -> list[TaskResult]:
    """Trains and measures every cell that is not there yet; goes on where an earlier call was stopped.

    `recipes` are as `config.load_data` gives them. A cell that fails is reported in its place, and tried again next time.

    Raises:
        PlankwiseError: anything that the user can mend. Bad input is found before anything is trained.
    """
    _check_rows(variants, seeds)
    layouts = [_lay_out(recipe, variants, seeds, folder) for recipe in recipes]
    _check_recipes(layouts)
    for layout in layouts:
        _check_fit(layout)
    sweep_leftovers(folder)
    grounds = [lay_ground(layout.base, console) for layout in layouts]
    cells = _run_cells(layouts, grounds, console)
    names = [ground.examples.name for ground in grounds]
    return [
        _collect(layout, ground, own, name if names.count(name) == 1 else f"{name} ({layout.recipe})", console)
        for layout, ground, own, name in zip(layouts, grounds, cells, names, strict=True)
    ]


def _check_rows(variants: Sequence[Variant], seeds: Sequence[int]) -> None:
    if not variants:
        raise ConfigError("there is no row to compare; give at least one method or variant")
    labels = [variant.label for variant in variants]
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

    base = config_for(Variant(PREDECESSOR), GROUND, plain.run.seed)
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
    return _Layout(name, folder / name, base, configs)


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


def _check_recipes(layouts: list[_Layout]) -> None:
    names = [layout.recipe for layout in layouts]
    if not names:
        raise ConfigError("no recipe is given; give at least one TOML file, for example one of the folder recipes/")
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two recipes have the run.name {name!r}, which names their folder; give each its own")


def _check_fit(layout: _Layout) -> None:
    """Reads the data and tries every plan on the predecessor as it was given."""
    options, training = layout.base.predecessor, layout.base.training
    tokenizer = load_tokenizer(options.path, remote_code=options.remote_code)
    source, _ = prepare_task(layout.base.task, layout.base, Console(quiet=True))
    model, _ = load_classifier(options.path, source.labels, tokenizer=tokenizer, remote_code=options.remote_code)
    check_length(training.max_length, model, tokenizer, options.path)
    for label, config in layout.rows.items():
        try:
            check_plan(config, model)
        except PlanError as error:
            raise PlanError(f"row {label!r} of {layout.recipe}: {error}") from None


def _run_cells(layouts: list[_Layout], grounds: list[Ground], console: Console) -> list[list[Cell]]:
    places = [(index, key) for index, layout in enumerate(layouts) for key in layout.configs]
    cells: dict[tuple[int, tuple[str, int]], Cell] = {}
    for index, key in places:
        found = _find_cell(Path(layouts[index].configs[key].run.folder), _scorer(grounds[index]))
        if found is not None:
            cells[index, key] = found
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
            cells[index, key] = _run_cell(label, layout.configs[key], grounds[index], console)
        except Exception as error:
            cells[index, key] = Cell(label, seed, failure=reason(error))
            console.print(f"failed: {cells[index, key].failure}", soft_wrap=True)
    return [[cells[place, key] for place, key in places if place == index] for index in range(len(layouts))]


def reason(error: Exception) -> str:
    """Why a cell failed, on one line; what is no error of ours is named."""
    text = " ".join(str(error).split())
    if isinstance(error, PlankwiseError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _run_cell(label: str, config: RunConfig, ground: Ground, console: Console) -> Cell:
    folder = Path(config.run.folder)
    folders.claim(folder, config)
    set_seed(config.run.seed)  # whatever ran before in this process
    outcome = train_successor(config, ground, console)
    outputs = _scorer(ground).outputs(outcome.successor)
    metrics = _scorer(ground).score_outputs(outputs)
    cell = Cell(
        label=label,
        seed=config.run.seed,
        score=metrics.pop("score"),
        metrics=metrics,
        steps=outcome.steps,
        skipped_steps=outcome.skipped_steps,
        seconds=outcome.seconds,
        parameters=count_parameters(outcome.successor),
        notes=outcome.notes,
        outputs=outputs,
    )
    _keep_best(cell, outcome.successor, Run(config, folder, console, ground.tokenizer, ground.examples))
    _write_cell(folder, cell)
    return cell


def _scorer(ground: Ground) -> Scorer:
    assert isinstance(ground.examples, Labelled)  # _check_fit has read them
    return ground.examples.scorer


def _keep_best(cell: Cell, successor: Any, run: Run) -> None:
    """Saves the successor unless another seed's that is kept is as good; then that one goes."""
    others = [path for path in run.folder.parent.glob("seed-*/successor") if path.parent != run.folder]
    scores = [_read_json(path.parent / CELL)["score"] for path in others if (path.parent / CELL).is_file()]
    if any(score >= cell.score for score in scores):
        return
    run.save(successor, "successor")
    for path in others:
        shutil.rmtree(path, ignore_errors=True)


def _write_cell(folder: Path, cell: Cell) -> None:
    """The JSON file comes last: with it the cell is finished."""
    with whole_file(folder / OUTPUTS) as part, part.open("wb") as file:
        np.savez(file, **{f"dev_{index}": values for index, values in enumerate(cell.outputs.values())})  # type: ignore[arg-type]
    write_text(folder / CELL, json.dumps({**cell.to_json(), "outputs": list(cell.outputs)}, indent=2))
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)


def _find_cell(folder: Path, scorer: Scorer) -> Cell | None:
    """The finished cell in a folder, if there is one.

    Raises:
        RunError: its files are damaged, or were measured on other dev examples.
    """
    if not (folder / CELL).is_file():
        return None
    data = _read_json(folder / CELL)
    try:
        with np.load(folder / OUTPUTS, allow_pickle=False) as arrays:
            outputs = {name: arrays[f"dev_{index}"] for index, name in enumerate(data["outputs"])}
        cell = Cell(**{**data, "outputs": outputs})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{folder} cannot be read ({error}); delete it and run the same command again") from None
    wanted = {name: len(labels) for name, labels in scorer.labels().items()}
    measured = {name: len(values) for name, values in outputs.items()}
    if measured != wanted:
        raise RunError(
            f"{folder} was measured on other dev examples ({measured} there, {wanted} here); "
            "delete it, or choose another --folder"
        )
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)  # killed just before this
    return cell


def _read_json(path: Path) -> dict:
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(
            f"{path} cannot be read ({error}); delete {path.parent} and run the same command again"
        ) from None


def _collect(layout: _Layout, ground: Ground, cells: list[Cell], name: str, console: Console) -> TaskResult:
    run = Run(layout.base, layout.folder, console, ground.tokenizer, ground.examples)
    scorer, options = _scorer(ground), layout.base.evaluation
    model, _ = run.load(ground.path)
    metrics = scorer.score(model)
    latency = _find_latency(layout, ground, run) if options.latency else {}
    predecessor = {
        "path": ground.path,
        "score": metrics.pop("score"),
        "metrics": metrics,
        "parameters": count_parameters(model),
        "seconds": sum(stage.seconds for stage in ground.stages.values()) if ground.stages else None,
        "latency_ms": latency.pop(PREDECESSOR, None),
    }
    own_budget = {
        label
        for label, config in layout.rows.items()
        if any(getattr(config.training, key) != getattr(layout.base.training, key) for key in BUDGET)
    }
    batch = options.latency_batch_sizes[0] if latency else None
    return TaskResult(
        name, layout.recipe, scorer, predecessor, layout.rows, frozenset(own_budget), cells, latency, batch
    )


def _find_latency(layout: _Layout, ground: Ground, run: Run) -> dict[str, float]:
    """Median time of a prediction by label, all measured in turn; what was measured before is taken from there."""
    paths, made_by = {}, {}
    for label, config in layout.rows.items():
        for path in sorted((layout.folder / label).glob("seed-*/successor")):
            paths[label] = str(path)
            made_by[label] = config.model_dump(mode="json", exclude={"run"})
    if not paths:
        return {}
    options, file = run.config.evaluation, layout.folder / LATENCY
    known = _read_json(file) if file.is_file() else {"made_by": {}}
    if any(known["made_by"].get(label) != made for label, made in made_by.items()):
        run.console.print(f"latency: {options.latency_predictions} predictions a model")
        measured = measure_latency(
            {name: run.load(path)[0] for name, path in {PREDECESSOR: ground.path, **paths}.items()},
            run.tokenizer,
            run.examples.texts(1000),
            max_length=run.config.training.max_length,
            batch_sizes=options.latency_batch_sizes[:1],  # the one that the table shows
            predictions=options.latency_predictions,
        )
        known = {"made_by": made_by, "latency": measured}
        write_text(file, json.dumps(known, indent=2))
    batch = str(options.latency_batch_sizes[0])
    return {name: known["latency"][name][batch]["p50_ms"] for name in (PREDECESSOR, *paths)}
