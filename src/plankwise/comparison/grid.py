"""A grid of runs: every variant with every seed on every task; what the cells of a task share is made once.

FOLDER/RECIPE/predecessor-run/       the predecessor, if it has to be trained
FOLDER/RECIPE/LABEL/seed-N/          a cell: its config, figures and outputs on dev
FOLDER/RECIPE/LABEL/seed-N/successor its model, kept for the best seed of a label
FOLDER/workers.db                    who is at which cell, if workers share them and no other database is given
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from transformers import set_seed

from plankwise.comparison.cells import CELL, SUCCESSOR, GridCell, find_cell, keep_best, keep_one, write_cell
from plankwise.comparison.given import Given, check_given, measure_given, measure_model
from plankwise.comparison.layout import BUDGET, Layout, Variant, check_recipes, check_rows, fitting, lay_out
from plankwise.comparison.speed import PREDECESSOR, find_latency
from plankwise.comparison.statistics import duration, expected_seconds
from plankwise.config import RunConfig
from plankwise.context import Context, open_context
from plankwise.evaluation.size import count_parameters
from plankwise.files import sweep_leftovers
from plankwise.run import folders
from plankwise.run.dividing import Claim
from plankwise.run.inputs import Run
from plankwise.run.sharing import ReadyPredecessor, open_inputs, share_predecessor, train_successor
from plankwise.run.vocabulary import save_trimmed
from plankwise.run.workers import Workers, reason
from plankwise.task_kinds import Task
from plankwise.training.interruption import InterruptedRunError, interruptible
from plankwise.training.job import Outcome

TABLE = "table"  # what workers do in turn once all cells are there


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


def run_grid(
    recipes: Sequence[dict],
    variants: Sequence[Variant],
    seeds: Sequence[int],
    folder: Path,
    console: Console,
    given: Sequence[Given] = (),
    workers: Workers | None = None,
) -> list[TaskResult]:
    """Trains and measures every cell that is not there yet; goes on where an earlier call was stopped.

    `recipes` are as `config.load_data` gives them. A cell that fails is reported in its place, and tried again next time. `given`
    models are measured beside them, on one recipe. Each of several `workers` gives the whole, once all cells are there.

    Raises:
        PlankwiseError: anything that the user can fix. Bad input is found before anything is trained.
        InterruptedRunError: it was told to stop.
    """
    check_rows(variants, seeds, given)
    layouts = [lay_out(recipe, variants, seeds, folder) for recipe in recipes]
    check_recipes(layouts, given)
    context = open_context(console, folder, 0)
    if workers is not None:
        workers.check()
    with interruptible(), folders.FolderLock(folder, context.console, shared=workers is not None) as lock:
        inputs = [open_inputs(layout.base, context.console) for layout in layouts]
        layouts = [fitting(layout, one, context.console) for layout, one in zip(layouts, inputs, strict=True)]
        for one in inputs:
            for row in given:
                check_given(row, one.run)

        def take_folder() -> None:
            lock.acquire()
            lock.log.begin()
            if workers is None:  # else others may be writing
                sweep_leftovers(folder)

        context.on_main(take_folder)
        predecessors = [share_predecessor(one, workers) for one in inputs]
        # Before anything else is trained: it may be refused by its answers.
        others = [cell for row in given for cell in _run_given(row, predecessors[0].run, seeds)]
        run_cells = _run_cells if workers is None else partial(_share_cells, workers=workers)
        cells = run_cells(layouts, predecessors, context)
        names = [predecessor.run.task.name for predecessor in predecessors]

        def collect() -> list[TaskResult]:
            if workers is not None:
                for layout in layouts:
                    for label in layout.rows:
                        keep_one(layout.folder / label)
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

        return collect() if workers is None else workers.in_turn(TABLE, collect)  # one times predecessor and rows alone


def _run_given(row: Given, run: Run, seeds: Sequence[int]) -> list[GridCell]:
    run.context.console.print(f"row {row.label}: {row.model}, given", soft_wrap=True)
    return run.context.on_main(lambda: measure_given(row, run, seeds))


def _run_cells(layouts: list[Layout], predecessors: list[ReadyPredecessor], context: Context) -> list[list[GridCell]]:
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


def _share_cells(
    layouts: list[Layout], predecessors: list[ReadyPredecessor], context: Context, *, workers: Workers
) -> list[list[GridCell]]:
    """The same by several workers; which of a row's seeds has its successor kept is settled when all are there."""
    by_name = {
        str(Path(config.run.folder).relative_to(context.folder)): (index, key)
        for index, layout in enumerate(layouts)
        for key, config in layout.configs.items()
    }
    places = {name: context.folder / name for name in by_name}

    def find(name: str) -> GridCell | None:
        return find_cell(places[name], predecessors[by_name[name][0]].run.task)

    def work(name: str, claim: Claim) -> None:
        index, key = by_name[name]
        count = list(places).index(name) + 1
        context.console.print(f"cell {count} of {len(places)}: {key[0]}, seed {key[1]}, {layouts[index].recipe}")
        _run_cell(key[0], layouts[index].configs[key], predecessors[index].held_by(claim))

    if finished := sum(
        find(name) is not None for name in places
    ):  # what is damaged is refused before anything is trained
        context.console.print(f"{finished} of {len(places)} cells are finished already")
    failures = workers.share(places, work, lambda name: (places[name] / CELL).is_file())
    found: list[list[GridCell]] = [[] for _ in layouts]
    for name, (index, (label, seed)) in by_name.items():
        cell = None if name in failures else find(name)
        found[index].append(cell or GridCell(label, seed, failure=failures.get(name)))
    return found


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
    layout: Layout, ready: ReadyPredecessor, cells: list[GridCell], given: Sequence[Given], name: str
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
    layout: Layout, ready: ReadyPredecessor, run: Run, given: Sequence[Given]
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
