"""What a run of module replacing costs: the published procedure against plankwise.

Same model, sentences, schedule and masks; after each step of plankwise's own training the published procedure takes the same step,
so what else the machine does falls on both alike. The matrix-multiply rate is taken between the steps. Peak memory is of
processes of their own, above what they hold with libraries and data loaded.

    python benchmarks/training_cost.py [--steps 20] [--glue FOLDER] [--encoder FOLDER] [--section FILE]
    python benchmarks/training_cost.py --profile
    python benchmarks/training_cost.py --score --steps 100

Film reviews run anywhere. With --glue (the folders CoLA, SST-2, RTE as distributed), these run too, on the 12-layer encoder in
--encoder; without one, on a model of the same shape with random weights: the cost is the same.
"""

import argparse
import copy
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from _common import add_section_option, make_table, peak_mb, write_section
from _published import Published
from rich.console import Console
from transformers import BertConfig, BertForSequenceClassification, TrainerCallback

import plankwise
from plankwise.config import FitOptions, load_config
from plankwise.context import Context
from plankwise.data.batch import LengthSampler
from plankwise.models.loading import Loader
from plankwise.runtimes.torch import TorchPredictor
from plankwise.task_kinds import read_task
from plankwise.training.stage import Stage

GLUE = {"cola": "CoLA", "sst2": "SST-2", "rte": "RTE"}
BATCH_SIZE, MAX_LENGTH, LEARNING_RATE = 32, 128, 2e-4
MEMORY_STEPS = 8
WEIGHED = (
    "cola",
    "rte",
    "reviews",
)  # tasks whose memory is measured: the shortest texts, the longest, and what anyone has
WAYS = ("fine-tuning", "published", "plankwise")
OPERATIONS = {  # torch's, by what they are for
    "products with weights": ("mm", "addmm"),
    "products of attention": ("bmm",),
    "masks and softmax of attention": ("_softmax", "_softmax_backward_data", "all", "where", "isneginf", "logical_not"),
    "dropout's coins": ("bernoulli_", "random_", "lt"),
    "GELU": ("gelu", "gelu_backward"),
    "layer norm": ("native_layer_norm", "native_layer_norm_backward"),
    "copies": ("copy_",),
    "sums and products by element": ("mul", "add", "add_", "div_", "sum", "div"),
    "clipping": ("linalg_vector_norm", "mul_", "_foreach_norm", "_foreach_mul_"),
    "optimiser": ("_fused_adamw_",),
}
SQUARE = 1024  # of the matrices whose product is timed


@dataclass(frozen=True)
class Work:
    """A task, ready to train on."""

    tokenizer: Any
    task: Any
    predecessor: Any
    num_steps: int
    seed: int

    def stage(self, folder: str, score: Any = lambda model: {"score": 0.0}) -> Stage:
        return Stage(
            name="cost",
            train=self.task.train,
            score=score,
            tokenizer=self.tokenizer,
            options=FitOptions(max_steps=self.num_steps, batch_size=BATCH_SIZE, learning_rate=LEARNING_RATE),
            folder=Path(folder),
            context=Context(Console(quiet=True), Path(folder), self.seed),
        )

    def score(self, model: Any) -> dict[str, float]:
        return self.task.score(TorchPredictor(model))

    def published(self) -> Published:
        return Published(
            copy.deepcopy(self.predecessor),
            self.tokenizer,
            self.task.train.dataset,
            schedule=plankwise.Linear(),
            num_steps=self.num_steps,
            batch_size=BATCH_SIZE,
            learning_rate=LEARNING_RATE,
            max_length=MAX_LENGTH,
            seed=self.seed,
        )


def _sentences(arguments: argparse.Namespace) -> int:
    return arguments.sentences or arguments.steps * BATCH_SIZE


def open_task(task: str, num_steps: int, arguments: argparse.Namespace) -> Work:
    """The task and its predecessor."""
    keys = [f"training.max_length={MAX_LENGTH}", "run.data_seed=0", f"task.train_limit={_sentences(arguments)}"]
    if task in GLUE:
        keys += ["task.name=glue", f"task.subset={task}", f"task.folder={json.dumps(str(arguments.glue / GLUE[task]))}"]
    encoder = (arguments.encoder if task in GLUE else None) or "embedded"
    loader = Loader()
    tokenizer = loader.tokenizer(encoder)
    own = read_task(load_config(None, keys), tokenizer, Console(quiet=True))
    if task in GLUE and arguments.encoder is None:
        shape = BertConfig(hidden_size=384, intermediate_size=1536, num_hidden_layers=12, num_attention_heads=12)
        return Work(tokenizer, own, BertForSequenceClassification(shape), num_steps, arguments.seed)
    return Work(tokenizer, own, own.load(loader, encoder).model, num_steps, arguments.seed)


class Turns(TrainerCallback):
    """After each of plankwise's steps lets the other procedure take the same one; times both, and a product of matrices."""

    def __init__(self, other: Published) -> None:
        self.other = other
        self.ours: list[float] = []  # from one step's end to the next
        self.within: list[float] = []  # forward, backward, optimiser
        self.theirs: list[float] = []
        self.products: list[float] = []
        self.masks: list[tuple[bool, ...]] = []
        self.square = torch.randn(SQUARE, SQUARE)

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        self.mark = time.perf_counter()

    def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
        self.begun = time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.ours.append(time.perf_counter() - self.mark)
        self.within.append(time.perf_counter() - self.begun)
        self.masks.append(kwargs["model"].mask)
        with torch.random.fork_rng():
            start = time.perf_counter()
            self.other.take(state.global_step - 1)
            self.theirs.append(time.perf_counter() - start)
        for _ in range(3):
            start = time.perf_counter()
            self.square @ self.square
            self.products.append(time.perf_counter() - start)
        self.mark = time.perf_counter()


@dataclass(frozen=True)
class Cost:
    ours: float  # seconds of all steps
    theirs: float
    pace: float  # the ratio of the two if every step had run at the median pace of its procedure
    sentences: int
    share: float  # of the matrix-multiply rate, within the steps that train something
    scores: tuple[float, float] | None  # on dev: ours, theirs

    @property
    def ratio(self) -> float:
        return self.theirs / self.ours

    def per_epoch(self, seconds: float, epoch: int) -> float:
        return seconds / self.sentences * epoch


def measure(work: Work, *, scored: bool) -> Cost:
    """Both procedures in turns, over the whole schedule."""
    other = work.published()
    ship = plankwise.hybrid(work.predecessor, schedule=plankwise.Linear(), seed=work.seed)
    turns = Turns(other)
    with tempfile.TemporaryDirectory() as folder:
        stage = work.stage(folder, work.score) if scored else work.stage(folder)
        result = stage.run(ship, [ship.callback(), turns], reads_first_token=True)
    scores = (result.best_score, work.score(other.successor())["score"]) if scored else None
    counts = count_multiply_adds(work, ship)
    within = sum(seconds for seconds, count in zip(turns.within, counts, strict=True) if count)
    rate = SQUARE**3 / statistics.median(turns.products)
    layers = [
        sum(1 if replaced else 2 for replaced in mask) for mask in turns.masks
    ]  # all that a published step depends on
    return Cost(
        ours=sum(turns.ours),
        theirs=sum(turns.theirs),
        pace=_at_median_pace(turns.theirs, layers) / _at_median_pace(turns.ours, counts),
        sentences=work.num_steps * BATCH_SIZE,
        share=sum(counts) / within / rate,
        scores=scores,
    )


def _at_median_pace(seconds: list[float], work: list[int]) -> float:
    """What all steps would have taken, had none been disturbed; those without work took what they took."""
    pairs = list(zip(seconds, work, strict=True))
    return sum(work) * statistics.median(t / w for t, w in pairs if w) + sum(t for t, w in pairs if not w)


def count_multiply_adds(work: Work, ship: Any) -> list[int]:
    """Of each step of plankwise, in the blocks of a BERT: no more than must be done for the padded batch at hand.

    A block below the lowest replaced slot only runs forward; a frozen one above it also passes the gradient down; a successor
    also gets gradients of its own weights. Of the last block's weights, five sixths meet the first token alone.
    """
    lengths, width = work.task.train.lengths, work.predecessor.config.hidden_size
    sampler = LengthSampler(lengths, BATCH_SIZE, work.seed)
    counts: list[int] = []
    while len(counts) < work.num_steps:
        order = list(sampler)
        for start in range(0, len(order), BATCH_SIZE):
            rows = order[start : start + BATCH_SIZE]
            ship.set_step(len(counts))
            counts.append(_count_step(ship.mask, len(rows), max(int(lengths[row]) for row in rows), width))
        sampler.set_epoch(sampler.epoch + 1)
    return counts[: work.num_steps]


def _count_step(mask: tuple[bool, ...], texts: int, longest: int, width: int) -> int:
    if not any(mask):
        return 0
    linear, attention = (texts * longest * width * each for each in (12 * width, 2 * longest))
    total, graph = 0, False
    for replaced in mask:
        graph = graph or replaced
        passes, products = 3 if replaced else 2 if graph else 1, 3 if graph else 1
        total += (1 if replaced else 2) * (passes * linear + products * attention)
    return total - round((1 - 1 / longest) * (passes * linear * 10 / 12 + products * attention))


def profile(work: Work) -> list[list[str]]:
    """Where plankwise's steps spend their time: the share of each kind of operation in all operations' own time."""
    ship = plankwise.hybrid(work.predecessor, schedule=plankwise.Linear(), seed=work.seed)
    with tempfile.TemporaryDirectory() as folder, torch.profiler.profile() as seen:
        work.stage(folder).run(ship, [ship.callback()], reads_first_token=True)
    kinds = {name: kind for kind, names in OPERATIONS.items() for name in names}
    shares: dict[str, float] = {}
    for event in seen.key_averages():
        kind = kinds.get(event.key.removeprefix("aten::"), "all else")
        shares[kind] = shares.get(kind, 0.0) + event.self_cpu_time_total
    total = sum(shares.values())
    return [[kind, f"{share / total:.1%}"] for kind, share in sorted(shares.items(), key=lambda item: -item[1])]


def measure_memory(task: str, arguments: argparse.Namespace) -> dict[str, float]:
    """Megabytes at the peak of a short run, each way in a process of its own."""
    given = [sys.executable, __file__, "--sentences", str(_sentences(arguments))]
    for name in ("glue", "encoder"):
        if getattr(arguments, name) is not None:
            given += [f"--{name}", str(getattr(arguments, name))]
    found = {}
    for way in WAYS:
        command = [*given, "--measure-memory", task, way]
        found[way] = float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-1])
    return found


def run_one_way(task: str, way: str, arguments: argparse.Namespace) -> float:
    """The megabytes that this process comes to hold by training one way."""
    work = open_task(task, MEMORY_STEPS, arguments)
    model_mb = sum(p.numel() * p.element_size() for p in work.predecessor.parameters()) / 1e6
    base = peak_mb() - model_mb
    if way == "published":
        other = work.published()
        for step in range(2):  # all its batches are alike, and the first masks are the emptiest
            other.take(step)
        return peak_mb() - base - model_mb  # `published` copies the model
    model = work.predecessor if way == "fine-tuning" else plankwise.hybrid(work.predecessor, seed=work.seed)
    with tempfile.TemporaryDirectory() as folder:
        callbacks = [] if way == "fine-tuning" else [model.callback()]
        work.stage(folder).run(model, callbacks, reads_first_token=True)
    return peak_mb() - base


def main(arguments: argparse.Namespace) -> None:
    console = Console()
    tasks = [*(GLUE if arguments.glue else ()), "reviews"] if arguments.tasks is None else arguments.tasks.split(",")
    rows = []
    for task in tasks:
        console.print(f"{task}: {arguments.steps} steps each way")
        work = open_task(task, arguments.steps, arguments)
        if arguments.profile:
            console.print(make_table(["operation", task], profile(work)))
            continue
        epoch = len(work.task.train.lengths)
        cost = measure(work, scored=arguments.score)
        console.print(f"  published {cost.theirs:.1f} s, plankwise {cost.ours:.1f} s: {cost.ratio:.1f}×")
        weighed = not arguments.score and (task in WEIGHED or len(tasks) == 1)
        memory = measure_memory(task, arguments) if weighed else {}
        row = [
            task,
            f"{cost.per_epoch(cost.theirs, epoch):.1f}",
            f"{cost.per_epoch(cost.ours, epoch):.1f}",
            f"{cost.ratio:.1f}×",
            f"{cost.pace:.1f}×",
            f"{cost.share:.0%}",
        ]
        if cost.scores:
            row += [f"{score:.4f}" for score in reversed(cost.scores)]
        elif memory:
            row += [*(f"{memory[way]:.0f}" for way in WAYS), f"{memory['plankwise'] / memory['fine-tuning']:.2f}"]
        else:
            row += [""] * (len(WAYS) + 1)
        rows.append(row)
        console.print("  " + "  ".join(row[1:]))
    if arguments.profile:
        return
    headings = ["task", "published", "plankwise", "ratio", "at median pace", "share of matmul rate"]
    headings += ["dev, published", "dev, plankwise"] if arguments.score else [f"MB, {way}" for way in WAYS]
    headings += [] if arguments.score else ["plankwise / fine-tuning"]
    table = make_table(headings, rows)
    console.print(table, soft_wrap=True)
    shape = "" if arguments.glue is None or arguments.encoder else " (12 layers of width 384 with random weights)"
    opening = (
        f"Seconds for {_sentences(arguments)} sentences (reviews: 6 layers to 3; CoLA, SST-2, RTE{shape}: 12 to 6), "
        f"{arguments.steps} steps of {BATCH_SIZE} with the linear schedule, both procedures in turns with the same masks. Their "
        "ratio, and what it would be had every step run at the median pace of its procedure, which leaves disturbed steps out. "
        "What plankwise reaches, forward, backward and optimiser, of the rate of a "
        f"{SQUARE} × {SQUARE} product, taken between the steps. The peak of memory over {MEMORY_STEPS} steps."
    )
    write_section(arguments.section, "A run, against the published procedure", [opening, table])


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20, help="optimiser steps of each run")
    parser.add_argument("--sentences", type=int, help="training sentences; as many as the steps see once if absent")
    parser.add_argument("--seed", type=int, default=0, help="of masks, data order and dropout")
    parser.add_argument("--glue", type=Path, help="folder with CoLA, SST-2 and RTE")
    parser.add_argument("--encoder", help="folder of a 12-layer BERT")
    parser.add_argument("--tasks", help="some of cola,sst2,rte,reviews; all that can run if absent")
    parser.add_argument("--score", action="store_true", help="score both on dev at the end, instead of memory")
    parser.add_argument("--profile", action="store_true", help="only say where plankwise's steps spend their time")
    parser.add_argument("--measure-memory", nargs=2, metavar=("TASK", "WAY"), help=argparse.SUPPRESS)
    add_section_option(parser)
    return parser.parse_args()


if __name__ == "__main__":
    given = parse()
    if given.measure_memory:
        print(run_one_way(*given.measure_memory, given))
    else:
        main(given)
