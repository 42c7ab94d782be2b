"""The four settings of the thesis on Theseus Compression (§3.5): {plain, tuned on the domain's text} × {whole, compressed}.

FOLDER/SETTING/seed-N/   a run: `plain`, `domain` and `domain-compressed` are fine-tuned on the task as they are,
                         `plain-compressed` is compressed while the task is learnt, from `plain` of the same seed
"""

import copy
import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from plankwise.comparison.tables import show_count, show_score, show_share
from plankwise.comparison.writing import markdown_head, markdown_line
from plankwise.config import RunConfig, validate_config
from plankwise.context import Context, open_context
from plankwise.errors import ConfigError, RunError
from plankwise.evaluation.latency import as_json, measure_latency
from plankwise.files import read_json, write_text
from plankwise.record import FILE, describe_machine, read_run_record
from plankwise.report.remarks import WHOLE_ADVICE, has_learnt_in_most, seeds_remark
from plankwise.report.speed import ShownSpeedup, read_speedup, speedup_keys, speedup_of_row
from plankwise.run import folders
from plankwise.run.compress import compress
from plankwise.run.dividing import Claim
from plankwise.run.finetune import finetune
from plankwise.run.inputs import read_run
from plankwise.run.speed import tell_speed
from plankwise.run.workers import Workers, reason
from plankwise.training.interruption import InterruptedRunError, interruptible

PLAIN, PLAIN_COMPRESSED, DOMAIN, DOMAIN_COMPRESSED = "plain", "plain-compressed", "domain", "domain-compressed"
SETTINGS = (PLAIN, PLAIN_COMPRESSED, DOMAIN, DOMAIN_COMPRESSED)
WHOLE = {PLAIN_COMPRESSED: PLAIN, DOMAIN_COMPRESSED: DOMAIN}  # what a compressed setting is compared with
COLUMNS = ("perplexity", "median", "spread", "retained", "until best", "tuning", "params", "latency", "inference")
MEANING = (
    "plain is the model as it was given, domain the one tuned on the domain's text; retained, tuning (speed-up of fine-tuning: "
    "time until the best model) and inference (speed-up) compare a compressed setting with its whole one; the time until best of "
    "plain-compressed counts the fine-tuning that it starts from; median, spread (highest less lowest) and time are over the seeds"
)


@dataclass(frozen=True)
class Setting:
    """One row; without scores it has failed."""

    name: str
    scores: list[float]
    perplexity: float | None
    seconds_to_best: float | None  # median
    retained: float | None
    speedup_of_tuning: float | None
    parameters: int | None
    latency_ms: float | None
    speedup: float | None
    speedup_interval: list[float] | None
    speedup_steady: bool | None
    speedup_measured: float | None  # where the multiply-adds allow no more than `speedup`
    failures: dict[int, str]  # by seed
    remark: str = ""  # of seeds that are not shown to know more than one answer
    learnt: bool = True  # most seeds are

    @property
    def median(self) -> float | None:
        return statistics.median(self.scores) if self.scores else None


@dataclass(frozen=True)
class Settings:
    task: str
    score: tuple[str, ...]
    domain: str  # the run that tuned and compressed the language model
    seeds: tuple[int, ...]
    latency_batch: int | None
    rows: list[Setting]


def run_settings(
    recipe: dict, domain: Path, seeds: Sequence[int], folder: Path, console: Console, workers: Workers | None = None
) -> Settings:
    """Trains and measures the four settings with every seed; goes on where an earlier call was stopped.

    `recipe` is as `config.load_data` gives it, `domain` the folder of a finished run on a text task.

    Raises:
        PlankwiseError: anything that the user can fix. Bad input is found before anything is trained.
        InterruptedRunError: it was told to stop.
    """
    plain = validate_config(recipe)
    tuned = _read_domain(domain)
    task = read_run(plain, open_context(Console(quiet=True), folder, plain.run.seed)).task
    starts = {
        PLAIN: plain.predecessor.path,
        DOMAIN: tuned["predecessor"]["path"],
        DOMAIN_COMPRESSED: tuned["successor"]["path"],
    }
    configs = {
        (name, seed): _configure(recipe, plain, name, seed, folder, starts) for seed in seeds for name in SETTINGS
    }
    for config in configs.values():
        try:
            folders.is_finished(Path(config.run.folder), config)
        except RunError as error:
            raise RunError(f"{error} (a comparison's folder is set by --folder)") from None
    context = open_context(console, folder, plain.run.seed)
    if workers is not None:
        workers.check()
    with interruptible():
        if workers is None:
            records, failures = _run_all(configs, context.console)
        else:
            records, failures = _share_all(configs, context, workers)

        def measure() -> dict[str, Any]:
            return context.on_main(lambda: _measure_latency(plain, records, context))

        timed: dict[str, Any] = {}
        if plain.evaluation.latency:
            timed = measure() if workers is None else workers.in_turn("speed", measure)
    rows = {name: _summarise(name, records, failures, timed.get("p50_ms", {}), tuned) for name in SETTINGS}
    batch = plain.evaluation.latency_batch_sizes[0] if timed else None
    rows = {name: _compare(row, rows.get(WHOLE.get(name, "")), timed, str(batch)) for name, row in rows.items()}
    return Settings(task.name, task.score_names, str(domain), tuple(seeds), batch, list(rows.values()))


def _read_domain(folder: Path) -> dict:
    """The record of the run that tuned the language model."""
    record = read_run_record(folder)
    if record["task"]["kind"] != "text" or "successor" not in record:
        raise ConfigError(
            f"--domain is {folder}, whose task is on {record['task']['kind']}; "
            "give the folder of a finished run with task.name = 'text'"
        )
    for name in ("predecessor", "successor"):
        path = Path(record[name]["path"])
        inside = folder / name
        record[name]["path"] = str(inside if inside.is_dir() else path)
    return record


def _configure(recipe: dict, plain: RunConfig, name: str, seed: int, folder: Path, starts: dict[str, str]) -> RunConfig:
    data = copy.deepcopy(recipe)
    place = folder / name / f"seed-{seed}"
    data["run"] = {**data.get("run", {}), "folder": str(place), "seed": seed, "data_seed": plain.run.seed_of_data}
    before = data.get("predecessor", {})
    if name == PLAIN_COMPRESSED:
        model = folder / PLAIN / f"seed-{seed}" / "model"
        data["predecessor"] = {**before, "path": str(model), "finetune": False}
    else:
        data["predecessor"] = {**before, "path": starts[name]}
    config = validate_config(data)
    alone = {"latency": False, "truncated": False}  # all settings are timed together, and none needs another beside it
    return config.model_copy(update={"evaluation": config.evaluation.model_copy(update=alone)})


def _run_all(
    configs: dict[tuple[str, int], RunConfig], console: Console
) -> tuple[dict[tuple[str, int], dict], dict[tuple[str, int], str]]:
    records, failures = {}, {}
    for count, (key, config) in enumerate(configs.items(), start=1):
        name, seed = key
        console.print(f"run {count} of {len(configs)}: {name}, seed {seed}", soft_wrap=True)
        try:
            records[key] = _run_one(name, config, console)
        except InterruptedRunError:
            raise
        except Exception as error:
            failures[key] = reason(error)
            console.print(f"failed: {failures[key]}", soft_wrap=True)
    return records, failures


def _run_one(name: str, config: RunConfig, console: Console) -> dict:
    return (compress if name == PLAIN_COMPRESSED else finetune)(config, console)


def _share_all(
    configs: dict[tuple[str, int], RunConfig], context: Context, workers: Workers
) -> tuple[dict[tuple[str, int], dict], dict[tuple[str, int], str]]:
    """The same by several workers; what starts from another run comes after it."""
    by_name = {f"{name}/seed-{seed}": (name, seed) for name, seed in configs}
    places = {name: context.folder / name for name in by_name}
    failures: dict[str, str] = {}

    def work(name: str, claim: Claim) -> None:
        context.console.print(f"run {list(places).index(name) + 1} of {len(places)}: {name}", soft_wrap=True)
        _run_one(by_name[name][0], configs[by_name[name]], context.console)

    for last in (False, True):
        wanted = {name: place for name, place in places.items() if (by_name[name][0] == PLAIN_COMPRESSED) == last}
        failures |= workers.share(wanted, work, lambda name: (places[name] / FILE).is_file(), locks=True)
    records = {key: read_run_record(places[name]) for name, key in by_name.items() if name not in failures}
    return records, {by_name[name]: why for name, why in failures.items()}


def _model_of(record: dict) -> dict:
    return record["model"] if "model" in record else record["successor"]


def _seconds_to_best(name: str, seed: int, records: dict[tuple[str, int], dict]) -> float:
    record = records[name, seed]
    if "model" in record:
        return record["seconds_to_best"]
    stages = list(record["stages"].values())
    own = sum(stage["seconds"] for stage in stages[:-1]) + stages[-1]["seconds_to_best"]
    return own + records[WHOLE[name], seed]["seconds_to_best"]


def _summarise(
    name: str,
    records: dict[tuple[str, int], dict],
    failures: dict[tuple[str, int], str],
    latency: dict[str, float],
    tuned: dict,
) -> Setting:
    own = {seed: record for (setting, seed), record in records.items() if setting == name}
    models = [_model_of(record) for record in own.values()]
    text = {DOMAIN: "predecessor", DOMAIN_COMPRESSED: "successor"}.get(name)
    return Setting(
        name=name,
        scores=[model["score"] for model in models],
        perplexity=tuned[text]["metrics"]["perplexity"] if text else None,
        seconds_to_best=statistics.median(_seconds_to_best(name, seed, records) for seed in own) if own else None,
        retained=None,
        speedup_of_tuning=None,
        parameters=models[0]["parameters"] if models else None,
        latency_ms=latency.get(name),
        **speedup_keys(None),
        failures={seed: why for (setting, seed), why in failures.items() if setting == name},
        remark=seeds_remark(models),
        learnt=has_learnt_in_most(models),
    )


def _compare(row: Setting, whole: Setting | None, timed: dict, batch: str) -> Setting:
    if whole is None:
        return row
    found = read_speedup(timed, row.name, batch)
    ratio = _ratio(whole.latency_ms, row.latency_ms)
    if found is None and ratio is not None:  # all that an earlier version measured
        found = ShownSpeedup(ratio, batch)
    ratios = {
        "retained": _ratio(row.median, whole.median),
        "speedup_of_tuning": _ratio(whole.seconds_to_best, row.seconds_to_best),
        **speedup_keys(found),
    }
    return Setting(**{**vars(row), **ratios})


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None


def _measure_latency(config: RunConfig, records: dict[tuple[str, int], dict], context: Context) -> dict[str, Any]:
    """Median time of a prediction and speed-up by setting, one model each, all in turn; kept in the folder."""
    paths: dict[str, str] = {}
    for (name, _), record in records.items():
        paths.setdefault(name, _model_of(record)["path"])
    file, options = context.folder / "latency.json", config.evaluation
    if file.is_file() and (known := read_json(file)).get("paths") == paths:
        return known
    if not paths:
        return {}
    context.console.print(f"latency: {options.latency_predictions} predictions a model, on {context.device.type}")
    first = config.model_copy(
        update={"predecessor": config.predecessor.model_copy(update={"path": next(iter(paths.values()))})}
    )
    run = read_run(first, replace(context, console=Console(quiet=True)))
    measured = measure_latency(
        {name: run.open(path) for name, path in paths.items()},
        run.task.timed(),
        batch_sizes=options.latency_batch_sizes[:1],
        predictions=options.latency_predictions,
        references={name: whole for name, whole in WHOLE.items() if {name, whole} <= paths.keys()},
    )
    tell_speed(measured, context.console, f"delete {file} and run the same command again")
    batch = str(options.latency_batch_sizes[0])
    found = {
        "paths": paths,
        "p50_ms": {name: by_size[batch]["p50_ms"] for name, by_size in measured.latency.items()},
        "latency": measured.latency,
        "speedups": as_json(measured.speedups),
        "timing": measured.timing(),
    }
    write_text(file, json.dumps(found, indent=2))
    return found


def show_settings(settings: Settings, console: Console) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("", no_wrap=True)
    for column in _columns(settings):
        table.add_column(column, justify="right")
    for row in settings.rows:
        table.add_row(row.name, *_figures(row)[: len(_columns(settings))])
    console.print(_title(settings), soft_wrap=True)
    console.print(table)
    for line in _remarks(settings):
        console.print(line, soft_wrap=True)


def _remarks(settings: Settings) -> list[str]:
    told = [f"{row.name}: {row.remark}; {WHOLE_ADVICE}" for row in settings.rows if row.remark]
    return told + [
        f"{row.name}: seed {seed} failed: {why}" for row in settings.rows for seed, why in row.failures.items()
    ]


def write_settings(settings: Settings, folder: Path) -> Path:
    """Writes table.md and table.json; gives the path of the first."""
    columns = _columns(settings)
    lines = [f"## {_title(settings)}", "", *markdown_head(["", *columns])]
    lines += [markdown_line([row.name, *_figures(row)[: len(columns)]]) for row in settings.rows]
    lines += [f"- {line}" for line in _remarks(settings)]
    write_text(folder / "table.md", "\n".join([*lines, "", f"{MEANING[0].upper()}{MEANING[1:]}.", ""]))
    write_text(folder / "table.json", json.dumps({**asdict(settings), "machine": describe_machine()}, indent=2))
    return folder / "table.md"


def _title(settings: Settings) -> str:
    seeds = len(settings.seeds)
    return f"{settings.task}: score is {' and '.join(settings.score)} on dev, {seeds} seed{'s' if seeds > 1 else ''}"


def _columns(settings: Settings) -> list[str]:
    if settings.latency_batch is None:
        return list(COLUMNS[:-2])
    return [f"ms @{settings.latency_batch}" if column == "latency" else column for column in COLUMNS]


def _figures(row: Setting) -> list[str]:
    if row.median is None:
        return ["", "failed", *[""] * (len(COLUMNS) - 2)]
    return [
        "" if row.perplexity is None else f"{row.perplexity:.2f}",
        show_score(row.median),
        show_score(max(row.scores) - min(row.scores)),
        show_share(row.retained, marked=not row.learnt),
        f"{row.seconds_to_best:.0f} s",
        "" if row.speedup_of_tuning is None else f"{row.speedup_of_tuning:.2f}×",
        show_count(row.parameters),
        "" if row.latency_ms is None else f"{row.latency_ms:.2f}",
        "" if (faster := speedup_of_row(vars(row))) is None else faster.brief,
    ]
