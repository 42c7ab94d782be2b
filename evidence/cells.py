"""Time to quality: what each way to a successor keeps, by the seconds of one core that it takes.

A *row* is a task, a cut, a method, a start, a budget of steps and a number of labels. Its learning rate is searched on seed 0,
among the same rates for every row, by one half of dev; the other half of dev reports, for three seeds. No checkpoint is chosen: a
run is scored once, when its steps are done. Each cell is one file; a cell that is there is not computed again, and several
processes may work on one folder.

A row of a *plan* takes its [plan] from a recipe, FOLDER/TASK/NAME.toml of `--plans FOLDER`, as `plankwise plan` and
`evidence/parts.py` write them: untrained, and by `--method` after `--steps`.

A row *via* another depth cuts twice: each cut is solved from what the last one left, with the head as it is, and trained for half
of the steps, all at one rate, with the model that is cut as the teacher.

    python evidence/cells.py FOLDER --predecessors FOLDER --glue FOLDER --germeval FOLDER --part untrained-3 --part half-30

PREDECESSORS holds one folder a task with the model that `plankwise finetune` left; `evidence/README.md` has the commands. Start it
once a core, each with OMP_NUM_THREADS=1: seconds are those of the processor, so that other work on the machine does not count.
"""

import argparse
import itertools
import json
import os
import shutil
import time
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from plankwise.config import validate_config
from plankwise.evaluation.held_back import HALVES
from plankwise.files import write_text
from plankwise.models.plans import make_plan, try_plan
from plankwise.models.saving import save
from plankwise.run.sharing import ReadyPredecessor, make_predecessor, open_inputs
from plankwise.run.training import train
from plankwise.runtimes.torch import TorchPredictor

LATE = "-late"
THIN = "thin"  # solved, all layers kept: shares of channels and heads that have the multiply-adds of 3, 2 and 1 of 6 layers
WIDTHS = {3: {"ffn": 0.25, "heads": 1.0}, 2: {"ffn": 0.25, "heads": 0.5}, 1: {"ffn": 0.125, "heads": 0.25}}
TOKENS = "-tokens-"  # behind a solved start: on how many, if not on as many as by default
PLAN = "plan-"  # what the start of a row of a plan begins with
UNTRAINED = ("none", "head")
DRAWN = "solved-late"  # untrained successors that there are of every seed, to start from; of others, of the first
RATES = (5e-5, 1.5e-4, 4e-4)
HIGHER = 1e-3  # tried where the highest of them is the best
SEEDS = (0, 1, 2)
MOST_LABELS = 4000
BATCH_SIZE = 32
TASKS = ("reviews", "sst2", "cola", "germeval")
TWELVE = ("gte-sst2", "gte-cola")


@dataclass(frozen=True)
class Row:
    task: str
    successors: int  # layers; of thin ones, how many whole layers they cost as much as
    method: str  # a method's name; none: as they start; head: the same, with the head solved on the labels
    start: (
        str  # copies, fitted or solved, in even spans; in late ones with "-late" behind it; thin: solved, no layer less
    )
    steps: int
    labels: int = MOST_LABELS
    via: int = 0  # layers of the successor that is cut again; 0: cut once

    @property
    def cut(self) -> str:
        return "late" if self.start.endswith(LATE) else "even"

    @property
    def computed(self) -> str:
        return self.start.partition(TOKENS)[0].removesuffix(LATE)

    @property
    def name(self) -> str:
        via = f"-via-{self.via}" if self.via else ""
        return f"{self.task}-{self.successors}-{self.method}-{self.start}-{self.steps}-{self.labels}{via}"

    @property
    def is_solved(self) -> bool:
        return self.computed in ("solved", THIN) or self.is_planned

    @property
    def is_planned(self) -> bool:
        return self.start.startswith(PLAN)

    @property
    def is_trained(self) -> bool:
        return self.method not in UNTRAINED


def untrained(depth: int) -> Iterator[Row]:
    """Copies and solved successors as they are."""
    for task, start in itertools.product(TASKS, ("solved-late", "solved", "copies", "copies-late")):
        if depth > 1 or not start.endswith(LATE):
            yield Row(task, depth, "none", start, 0)


def trained(depth: int, steps: int, labels: int = MOST_LABELS, tasks: tuple[str, ...] = TASKS) -> Iterator[Row]:
    """Distillation and replacing, from copies and from solved successors."""
    solved = DRAWN if depth > 1 else "solved"  # one span is neither late nor even
    rows = (("kd", solved), ("kd", "copies"), ("replacing", solved))
    for (method, start), task in itertools.product(rows, tasks):
        yield Row(task, depth, method, start, steps, labels)


def others(depth: int, steps: int) -> Iterator[Row]:
    """What is left of the product of methods and starts."""
    rows = (
        ("kd", "copies-late"),
        ("kd", "solved"),
        ("replacing", "solved"),
        ("replacing", "copies"),
        ("replacing", "fitted"),
    )
    for (method, start), task in itertools.product(rows, TASKS):
        yield Row(task, depth, method, start, steps)


def thin(depth: int, steps: int = 120, labels: int = MOST_LABELS) -> Iterator[Row]:
    """As many layers, narrower, at the multiply-adds of fewer: untrained, distilled, replaced."""
    for (method, count), task in itertools.product((("none", 0), ("replacing", steps), ("kd", steps)), TASKS):
        yield Row(task, depth, method, THIN, count, labels if count else MOST_LABELS)


def fewer_tokens(depth: int) -> Iterator[Row]:
    """Thin layers solved on fewer texts, untrained."""
    for tokens, task in itertools.product((2000, 4000, 8000), TASKS):
        yield Row(task, depth, "none", f"{THIN}{TOKENS}{tokens}", 0)


def twelve() -> Iterator[Row]:
    """12 layers to 6, 3 and 2, untrained, one seed."""
    for depth, task, start in itertools.product((6, 3, 2), TWELVE, ("solved-late", "solved", "copies")):
        yield Row(task, depth, "none", start, 0)


def iterated(tasks: tuple[str, ...], depth: int, via: int, steps: int = 120) -> Iterator[Row]:
    """A cut by way of another depth and the same cut at once, untrained and distilled for as many steps in all."""
    at_once = DRAWN if depth > 1 else "solved"
    for (method, count), task in itertools.product((("none", 0), ("kd", steps)), tasks):
        yield Row(task, depth, method, DRAWN, count, via=via)
        yield Row(task, depth, method, at_once, count)


def baselines(depth: int, steps: int = 120) -> Iterator[Row]:
    """Patient distillation and truncation, as they are published: from copies."""
    for method, task in itertools.product(("pkd", "finetune"), TASKS):
        yield Row(task, depth, method, "copies", steps)


def planned(folder: Path, methods: list[str], steps: int) -> Iterator[Row]:
    """Every plan of a folder, untrained and trained."""
    for file in sorted(folder.glob("*/*.toml")):
        for method in ("none", *methods):
            yield Row(file.parent.name, 0, method, PLAN + file.stem, 0 if method == "none" else steps)


def heads(depth: int) -> Iterator[Row]:
    """Solved successors whose head is solved, too, on many labels and on few."""
    for labels, task in itertools.product((MOST_LABELS, 300), TASKS):
        yield Row(task, depth, "head", DRAWN if depth > 1 else "solved", 0, labels)


PARTS = {
    **{f"untrained-{depth}": partial(untrained, depth) for depth in (3, 2, 1)},
    **{f"half-{steps}": partial(trained, 3, steps) for steps in (30, 120, 480)},
    **{f"others-{depth}": partial(others, depth, 120) for depth in (3, 2, 1)},
    **{f"thin-{depth}": partial(thin, depth) for depth in WIDTHS},
    **{f"deep-{depth}": partial(trained, depth, 120) for depth in (2, 1)},
    "few": partial(trained, 3, 60, 300),
    "few-thin": partial(thin, 3, 60, 300),
    "tokens-3": partial(fewer_tokens, 3),
    "twelve": twelve,
    **{f"twelve-{depth}": partial(trained, depth, 120, tasks=TWELVE) for depth in (6, 3)},
    "iterated-2": partial(iterated, TASKS, 2, 3),
    "iterated-1": partial(iterated, TASKS, 1, 3),
    "iterated-twelve": partial(iterated, TWELVE, 3, 6),
    **{f"baselines-{depth}": partial(baselines, depth) for depth in (3, 2)},
    **{f"head-{depth}": partial(heads, depth) for depth in (3, 1)},
}


class Cells:
    """The cells of a folder."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.folder: Path = arguments.folder
        self.plans: Path | None = arguments.plans
        self.seeds = SEEDS[: arguments.seeds]
        self.rates: tuple[float, ...] = tuple(arguments.rate) or RATES
        self.predecessors: Path = arguments.predecessors
        self.sources = {
            "reviews": {"name": "reviews", "dev_limit": 1500},
            "sst2": {"name": "glue", "subset": "sst2", "folder": str(arguments.glue / "SST-2")},
            "cola": {"name": "glue", "subset": "cola", "folder": str(arguments.glue / "CoLA")},
            "germeval": {"name": "germeval", "folder": str(arguments.germeval)},
        }
        self.ready: dict[tuple[str, int], ReadyPredecessor] = {}
        self.evaluating = 0.0  # seconds of the processor
        self.console = Console(quiet=True)

    def data(self, row: Row, seed: int, rate: float = RATES[0]) -> dict[str, Any]:
        """A cell as a config."""
        labels = min(row.labels, row.steps * BATCH_SIZE) if row.is_trained else MOST_LABELS
        starts = {"copies": "lower", "fitted": "fitted", "solved": str(self.solved(row, seed))}
        if row.via or not row.is_trained:
            starts["solved"] = "solved"
        plan = {"successors": row.successors, "cut": row.cut, "init": starts.get(row.computed, "solved")}
        if TOKENS in row.start:
            plan["solving"] = {"tokens": int(row.start.partition(TOKENS)[2])}
        if row.computed == THIN:
            plan |= {"successors": self.layers(row), "part": "thin", "options": WIDTHS[row.successors]}
        if row.is_planned:
            plan = tomllib.loads((self.plans / row.task / f"{row.start.removeprefix(PLAN)}.toml").read_text("utf-8"))[
                "plan"
            ]
            plan.setdefault("init", "solved")
        if row.method == "head":
            plan["solving"] = {"head": "labels", "head_examples": row.labels}
        steps = max(1, row.steps // 2 if row.via else row.steps)
        return {
            "run": {"folder": str(self.work(row, seed, rate)), "seed": seed, "data_seed": 0},
            "predecessor": {"path": str(self.predecessors / row.task / "model"), "finetune": False},
            "task": {**self.sources[row.task.split("-")[-1]], "train_limit": labels},
            "plan": plan,
            "method": {"name": row.method if row.is_trained else "solve"},
            "training": {
                "max_steps": steps,
                "evaluate_every": steps,
                "learning_rate": rate,
                "batch_size": BATCH_SIZE,
                "max_length": 64,
            },
            "evaluation": {"latency": False, "estimate": False, "truncated": False},
        }

    def layers(self, row: Row) -> int:
        """Of the predecessor."""
        return json.loads((self.predecessors / row.task / "model/config.json").read_text("utf-8"))["num_hidden_layers"]

    def work(self, row: Row, seed: int, rate: float = RATES[0]) -> Path:
        return self.folder / "work" / f"{row.name}-{rate}-{seed}"

    def take_solved(self, row: Row, seed: int, rate: float) -> None:
        """Lets a run begin as one that was stopped after solving: where solved successors are not a checkpoint to start from."""
        done = self.work(replace(row, method="none", steps=0, labels=MOST_LABELS), seed)
        for file in done.rglob("solved.json"):
            shutil.copytree(file.parent, self.work(row, seed, rate) / file.parent.relative_to(done), dirs_exist_ok=True)

    def solved(self, row: Row, seed: int) -> Path:
        return self.folder / "solved" / f"{row.task}-{row.successors}-{row.cut}-{seed}"

    def predecessor(self, row: Row) -> ReadyPredecessor:
        config = validate_config(self.data(row, 0))
        key = row.task, config.task.train_limit
        if key not in self.ready:
            self.ready.clear()
            ready = make_predecessor(open_inputs(config, self.console))
            task: Any = ready.run.task
            scoring = task.score_in_training

            def timed(predictor: Any) -> dict[str, float]:
                started = time.process_time()
                found = scoring(predictor)
                self.evaluating += time.process_time() - started
                return found

            task.score_in_training = timed
            self.ready[key] = ready
        return self.ready[key]

    def score(self, row: Row, model: Any) -> dict[str, float]:
        return self.predecessor(row).run.task.score_in_training(TorchPredictor(model))

    def compute(self, row: Row, seed: int, rate: float = RATES[0]) -> dict[str, Any]:
        """The cell, from its file if it is there."""
        file = self.folder / f"{row.name}-{rate}-{seed}.json"
        if file.exists():
            return json.loads(file.read_text("utf-8"))
        if row.steps and row.is_solved and not row.via:
            self.compute(replace(row, method="none", steps=0, labels=MOST_LABELS), seed)
        if row.steps and (row.computed == THIN or row.is_planned):
            self.take_solved(row, seed, rate)
        ready, config = self.predecessor(row), validate_config(self.data(row, seed, rate))
        is_copied = row.method == "none" and config.plan.init != "solved"
        if is_copied:
            config = validate_config({**self.data(row, seed), "method": {"name": "finetune"}})
        path, before = self.cut_first(row, seed, rate) if row.via else (ready.path, 0.0)
        model = ready.run.load(str(path))
        plan = make_plan(model, config.plan)
        self.evaluating, started = 0.0, time.process_time()
        if is_copied:
            successor, seconds, notes = try_plan(model, plan, init=config.plan.init, seed=seed), 0.0, {}
        else:
            outcome = train(ready.at(config), plan, model)
            successor, notes = outcome.successor, outcome.notes.get("solving", {})
            seconds = before + time.process_time() - started - self.evaluating
        scores = self.score(row, successor)
        if row.method == "none" and row.computed == "solved" and not row.via:
            save(successor, self.solved(row, seed), ready.run.tokenizer)
        cell = {**asdict(row), "seed": seed, "rate": rate, "seconds": seconds, "solving": notes, **_scores(scores)}
        write_text(file, json.dumps(cell))
        print(file.name, f"{cell['report']:.4f}", f"{seconds:.1f} s", flush=True)
        return cell

    def cut_first(self, row: Row, seed: int, rate: float) -> tuple[Path, float]:
        """The successor that a row via its depth cuts again, solved and trained for half of the steps: its folder, and seconds."""
        solved = Row(row.task, row.via, "none", DRAWN, 0)
        seconds = self.compute(solved, seed)["seconds"]
        if not row.steps:
            return self.solved(solved, seed), seconds
        data = self.data(row, seed, rate)
        data["run"]["folder"] += "-first"
        data["run"]["seed"] += len(SEEDS)  # or both cuts would be trained on the same half of the labels
        data["plan"] = {"successors": row.via, "cut": solved.cut, "init": str(self.solved(solved, seed))}
        ready, config = self.predecessor(row), validate_config(data)
        model, self.evaluating, started = ready.load(), 0.0, time.process_time()
        outcome = train(ready.at(config), make_plan(model, config.plan), model)
        seconds += time.process_time() - started - self.evaluating
        return save(
            outcome.successor, self.folder / "first" / f"{row.name}-{rate}-{seed}", ready.run.tokenizer
        ), seconds

    def compute_row(self, row: Row) -> None:
        """All cells of a row: the rates on seed 0, then the best of them on the other seeds."""
        reference = self.folder / f"{row.task}-predecessor.json"
        if not reference.exists():
            ready = self.predecessor(row)
            write_text(reference, json.dumps(_scores(self.score(row, ready.load()))))
        rates = self.rates if row.steps else RATES[:1]
        found = {rate: self.compute(row, SEEDS[0], rate) for rate in rates}
        best = max(rates, key=lambda rate: found[rate]["choose"])
        if rates == RATES and best == RATES[-1]:  # at the edge: one more, for every row alike
            found[HIGHER] = self.compute(row, SEEDS[0], HIGHER)
            best = max(found, key=lambda rate: found[rate]["choose"])
        drawn = row.steps > 0 or (
            (row.start == DRAWN or row.computed == THIN or row.is_planned) and not row.task.startswith("gte")
        )
        for seed in self.seeds[1:] if drawn else ():
            self.compute(row, seed, best)


def _scores(found: dict[str, float]) -> dict[str, float]:
    return {"choose": found[HALVES[0]], "report": found[HALVES[1]], "score": found["score"]}


def claim(folder: Path, row: Row) -> bool:
    """Takes a row for this process; one that another process has taken, or finished, is left."""
    try:
        os.close(os.open(folder / f"{row.name}.claim", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    for name in ("predecessors", "glue", "germeval"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--part", action="append", choices=PARTS, default=[])
    parser.add_argument("--task", action="append", default=[], help="of all rows, only those of this task")
    parser.add_argument("--only", action="append", default=[], help="of all rows, only those with this in their name")
    parser.add_argument("--plans", type=Path, help="plans to compute, too")
    parser.add_argument("--method", action="append", default=[], help="that trains each plan")
    parser.add_argument("--steps", type=int, default=120, help="of each plan's training")
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    parser.add_argument("--rate", type=float, action="append", default=[], help="learning rates to search instead")
    parser.add_argument("--again", action="store_true", help="take claimed rows too: their process was stopped")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    cells = Cells(arguments)
    rows = [row for part in arguments.part for row in PARTS[part]()]
    if arguments.plans:
        rows += planned(arguments.plans, arguments.method, arguments.steps)
    for row in rows:
        if arguments.task and row.task not in arguments.task:
            continue
        if arguments.only and not any(text in row.name for text in arguments.only):
            continue
        if arguments.again or claim(arguments.folder, row):
            cells.compute_row(row)


if __name__ == "__main__":
    main()
