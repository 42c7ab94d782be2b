"""The flow of a frontier, top to bottom: predecessor → models → points → speeds → table; goes on where an earlier call was stopped.

FOLDER/predecessor-run/    the predecessor, if it has to be trained
FOLDER/models/NAME/        a model, and what making it took
FOLDER/points/NAME/        it as a runtime runs it, with its score and size in NAME.json
FOLDER/speeds.json         all points timed in turn
FOLDER/table.json          all of it, which the page is made of
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from plankwise.config import RunConfig, validate_config
from plankwise.context import Context, open_context
from plankwise.errors import ConfigError, PlankwiseError, RunError
from plankwise.evaluation.latency import Speed, as_json, measure_latency, threads
from plankwise.files import read_json, sweep_leftovers, write_text
from plankwise.frontier.models import EXITS, MADE, PREDECESSOR, Entry, Made, find_depths, list_entries, make
from plankwise.frontier.outline import choose, mark_frontier
from plankwise.frontier.points import Found, Points, list_points
from plankwise.frontier.scope import Scope, find_scope
from plankwise.kinds import load_kind
from plankwise.run.dividing import Claim
from plankwise.run.folders import FolderLock
from plankwise.run.inputs import Run
from plankwise.run.sharing import ReadyPredecessor, open_inputs, share_predecessor
from plankwise.run.workers import Workers
from plankwise.training.interruption import InterruptedRunError, interruptible

ASKED, SPEEDS, TABLE = "asked.json", "speeds.json", "table.json"
REFERENCE = "predecessor-torch-fp32"  # that every point is timed against
BATCH_SIZES = (1, 16)


@dataclass(frozen=True)
class Request:
    """What a frontier is to have beside what its recipe says."""

    depths: tuple[int, ...] | None = None  # blocks of successors
    formats: tuple[str, ...] = ("onnx", "openvino")
    encoders: tuple[str, ...] = ()  # folders or hub names of small pretrained models
    static: bool = True
    static_from: str | None = None  # the encoder that static embeddings are distilled from; the predecessor if None
    trimmed: bool = True
    thin: bool = True  # successors with fewer channels and heads
    exits: bool = False  # also models that texts leave early
    tolerance: float = 0.01
    budget: float | None = None  # seconds, after which no further model is begun
    predictions: int = 30  # a point, batch size and number of threads
    workers: Workers | None = None  # that share the models; one of them times all points


def draw_frontier(recipe: dict, request: Request, folder: Path, console: Console) -> dict:
    """Makes and measures every point that is not there yet; gives table.json.

    Raises:
        PlankwiseError: anything that the user can fix. Bad input is found before anything is trained.
        InterruptedRunError: it was told to stop.
    """
    base = _read(recipe, request, folder)
    context = open_context(console, folder, base.run.seed)
    if context.world_size > 1:
        raise ConfigError("a frontier is measured in one process; start the command without torchrun")
    workers = request.workers
    if workers is not None:
        workers.check()
    with interruptible(), FolderLock(folder, console, shared=workers is not None) as lock:
        inputs = open_inputs(base, console)
        scope = _find_scope(inputs.run, request)
        lock.acquire()
        lock.log.begin()
        _claim(folder, base)
        if workers is None:  # else others may be writing
            sweep_leftovers(folder)
        ready = share_predecessor(inputs, workers)
        made = _make_models(ready, base, request, scope, context)

        def measure() -> dict:
            points = Points(ready.run, folder / "points")
            found = _find_points(points, made, scope, context)
            speeds = _find_speeds(points, found, request, context)
            table = tabulate(ready, found, speeds, request, scope)
            write_text(folder / TABLE, json.dumps(table, indent=2))
            return table

        return measure() if workers is None else workers.in_turn("table", measure)


def _read(recipe: dict, request: Request, folder: Path) -> RunConfig:
    for format in request.formats:
        load_kind("export", format, key="--formats").check_installed()
    data = {**recipe, "run": {**recipe.get("run", {}), "folder": str(folder / "predecessor-run")}}
    config = validate_config(data)
    if config.run.effort is not None and config.method.name != "solve":
        config = config.model_copy(update={"run": config.run.model_copy(update={"effort": None, "within": None})})
    if config.plan.spans or config.plan.slots:
        raise ConfigError("plan.spans and plan.slots fix the depth, which a frontier changes; take them out")
    return config


def _find_scope(run: Run, request: Request) -> Scope:
    """What the task allows of what is asked for; says what is left out."""
    scope = find_scope(
        run,
        formats=request.formats,
        static=request.static,
        static_from=request.static_from,
        trimmed=request.trimmed,
        exits=request.exits,
        encoders=request.encoders,
    )
    for sentence in scope.left_out:
        run.context.console.print(f"left out: {sentence}", soft_wrap=True)
    return scope


def _claim(folder: Path, base: RunConfig) -> None:
    """Makes the folder this recipe's own.

    Raises:
        RunError: it is another's.
    """
    file, asked = folder / ASKED, base.model_dump(mode="json")
    if file.is_file() and read_json(file, "choose another --folder, or delete it") != asked:
        raise RunError(f"{folder} holds the frontier of another recipe; choose another --folder, or delete it")
    write_text(file, json.dumps(asked, indent=2))


def _make_models(
    ready: ReadyPredecessor, base: RunConfig, request: Request, scope: Scope, context: Context
) -> list[Made]:
    """The predecessor, and every other model that can be made within the budget."""
    depths = find_depths(ready, request.depths)
    entries = list_entries(
        ready,
        base,
        depths,
        request.encoders,
        tfidf=scope.tfidf,
        static=scope.static,
        static_from=request.static_from,
        truncated=scope.truncated,
        thin=request.thin,
        exits=request.exits,
    )
    seconds = sum(stage.seconds for stage in ready.stages.values()) if ready.stages else None
    made = [Made(Entry(PREDECESSOR, PREDECESSOR, lambda folder: None), Path(ready.path), seconds)]
    if request.workers is not None:
        points = Points(ready.run, context.folder / "points")
        return [
            *made,
            *_share_models(
                request.workers, entries, request, context, lambda one: _find_points(points, [one], scope, context)
            ),
        ]
    started = time.monotonic()
    for number, entry in enumerate(entries, start=1):
        if request.budget is not None and time.monotonic() - started > request.budget:
            left = ", ".join(one.name for one in entries[number - 1 :])
            context.console.print(
                f"the budget is spent; not made: {left} (the same command goes on with them)", soft_wrap=True
            )
            break
        context.console.print(f"model {number} of {len(entries)}: {entry.name}", soft_wrap=True)
        try:
            made.append(make(entry, context.folder / "models" / entry.name))
        except InterruptedRunError:
            raise
        except PlankwiseError as error:
            context.console.print(f"failed: {error}", soft_wrap=True)
    return made


def _find_points(points: Points, made: Sequence[Made], scope: Scope, context: Context) -> list[tuple[Found, Made]]:
    found = []
    for model in made:
        for point in list_points(model, scope.formats, trimmed=scope.trimmed):
            try:
                one = points.find(point, model)
            except PlankwiseError as error:
                context.console.print(f"{point.name} failed: {error}", soft_wrap=True)
                continue
            context.console.print(f"{point.name}: score {one.score:.4f}, {one.size_mb:.1f} MB", soft_wrap=True)
            found.append((one, model))
    return found


def _share_models(
    workers: Workers,
    entries: list[Entry],
    request: Request,
    context: Context,
    find_points: Callable[[Made], object],
) -> list[Made]:
    """The same by several workers, each of which also writes and scores the points of its models."""
    by_name = {entry.name: entry for entry in entries}
    places = {name: context.folder / "models" / name for name in by_name}
    started, failures = time.monotonic(), dict[str, str]()

    def work(name: str, claim: Claim) -> None:
        if request.budget is not None and time.monotonic() - started > request.budget:
            raise RunError("the budget is spent; the same command goes on with it")
        context.console.print(f"model {list(places).index(name) + 1} of {len(places)}: {name}", soft_wrap=True)
        made = make(by_name[name], places[name])
        claim.check()
        find_points(made)

    for last in (False, True):  # what leaves early may be one of the models before
        wanted = {name: place for name, place in places.items() if name.endswith(f"-{EXITS}") == last}
        failures |= workers.share(wanted, work, lambda name: (places[name] / MADE).is_file())
    return [make(entry, places[name]) for name, entry in by_name.items() if name not in failures]


def _find_speeds(
    points: Points, found: Sequence[tuple[Found, Made]], request: Request, context: Context
) -> dict[str, Any]:
    """By number of threads, speed-ups over the predecessor in torch; measured again if the points are others than last time."""
    file, names = context.folder / SPEEDS, [one.point.name for one, _ in found]
    if file.is_file() and (known := read_json(file)).get("points") == names:
        return known
    models = {one.point.name: points.open(one.point, one.path, model) for one, model in found}
    speeds: dict[str, Any] = {"points": names, "threads": {}}
    with threads(None) as most:
        counts = sorted({1, most})
    for count in counts:
        with (
            threads(count),
            Progress(console=context.console, transient=True, disable=not context.console.is_terminal) as bar,
        ):
            context.console.print(f"speed: {len(models)} points in turn, {count} thread{'s' if count > 1 else ''}")
            task = bar.add_task("speed", total=None)
            speed = measure_latency(
                models,
                points.run.task.timed(),
                batch_sizes=list(BATCH_SIZES),
                predictions=request.predictions,
                references={name: REFERENCE for name in models if name != REFERENCE},
                progress=lambda done, expected, task=task, bar=bar: bar.update(task, completed=done, total=expected),  # type: ignore[misc]
            )
        speeds["threads"][str(count)] = _speed_json(speed)
    write_text(file, json.dumps(speeds, indent=2))
    return speeds


def _speed_json(speed: Speed) -> dict[str, Any]:
    return {"speedups": as_json(speed.speedups), "latency": speed.latency, "timing": speed.timing()}


def tabulate(
    ready: ReadyPredecessor,
    found: Sequence[tuple[Found, Made]],
    speeds: dict[str, Any],
    request: Request,
    scope: Scope,
) -> dict[str, Any]:
    """What the page and the terminal show."""
    task = ready.run.task
    before = next(one for one, _ in found if one.point.name == REFERENCE)
    counts = list(speeds["threads"])
    most = counts[-1]
    rows: list[dict[str, Any]] = []
    for one, _ in found:
        name = one.point.name
        timed = {
            count: {size: _speedup(speeds["threads"][count], name, str(size)) for size in map(str, BATCH_SIZES)}
            for count in counts
        }
        first = timed[most][str(BATCH_SIZES[0])]
        rows.append(
            {
                **asdict(one.point),
                "name": name,
                "kind": one.kind,
                "score": one.score,
                "interval": None if one.interval is None else list(one.interval),
                "shown": task.as_shown(one.score),
                "shown_interval": None if one.interval is None else sorted(map(task.as_shown, one.interval)),
                "kept": task.retained(one.score, before.score),
                "kept_halves": _kept_halves(one, before),
                "size_mb": one.size_mb,
                "smaller": before.size_mb / one.size_mb,
                "seconds": one.seconds,
                "speedups": timed,
                "latency_ms": speeds["threads"][most]["latency"][name][str(BATCH_SIZES[0])]["p50_ms"],
                "relative_time": 1 / first["median"],
            }
        )
    fast, small = mark_frontier(rows, "relative_time"), mark_frontier(rows, "size_mb")
    for row, is_fast, is_small in zip(rows, fast, small, strict=True):
        row |= {"on_speed": is_fast, "on_size": is_small}
    chosen = {
        what: choose(rows, cost, request.tolerance)
        for what, cost in (("fastest", "relative_time"), ("smallest", "size_mb"))
    }
    return {
        "frontier": {
            "task": task.name,
            "metric": task.shown.metric,
            "shown": task.shown.to_json(),
            "left_out": list(scope.left_out),
            "tolerance": request.tolerance,
            "threads": counts,
            "batch_sizes": list(BATCH_SIZES),
            "reference": REFERENCE,
            "chosen": {what: None if row is None else row["name"] for what, row in chosen.items()},
            "timing": {count: one["timing"] for count, one in speeds["threads"].items()},
        },
        "rows": rows,
    }


def _kept_halves(one: Found, before: Found) -> list[float] | None:
    """The shares of the predecessor's score that are kept on both halves of dev."""
    if one.halves is None or before.halves is None:
        return None
    return [part / whole if whole else 0.0 for part, whole in zip(one.halves, before.halves, strict=True)]


def _speedup(speed: dict[str, Any], name: str, size: str) -> dict[str, Any]:
    if name == REFERENCE:
        return {"median": 1.0, "low": 1.0, "high": 1.0, "steady": True}
    return speed["speedups"][name][size]
