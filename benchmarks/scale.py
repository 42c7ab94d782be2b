"""The cost model of docs/scale.md against measurements, and what it says of machines that were not there to measure.

A step of module replacing on untrained BERTs, forward, backward and AdamW, every second slot replaced from the lowest on, over a
grid of layers, widths and lengths. Multiply-adds are counted by torch, activations by what autograd keeps; seconds are the best of
several rounds in which all points take turns. With `--paper` nothing is measured: large models on many GPUs, by the formulas alone.

    python benchmarks/scale.py [--rounds 5] [--section FILE]
    python benchmarks/scale.py --paper
"""

import argparse
import itertools
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from _common import add_section_option, make_table, write_section
from rich.console import Console
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig, BertForSequenceClassification

import plankwise
from plankwise.core.schedule import draw_mask
from plankwise.estimate.steps import storages

TITLE = "The cost model against measurements"
ROUNDS = 5
TOKENS = 512  # of a batch
VOCABULARY = 1000
GRID = list(itertools.product((4, 8), (128, 256, 384), (32, 128, 256)))  # layers, width, length
GB = 1e9
SCHEDULE, STEPS = plankwise.Linear(start=0.3, full_at=0.5), 4000  # of a run on paper; steps whose masks are drawn


@dataclass(frozen=True)
class Shape:
    """A transformer in numbers; `inner`: width of its feed-forward networks, `products`: matrices in each (3 with a gate)."""

    layers: int
    width: int
    inner: int
    vocabulary: int
    products: int = 2
    heads_on_tokens: bool = False  # whether each token is told from the whole vocabulary

    @property
    def block(self) -> int:
        """Weights in the matrices of a block: four of attention, then the feed-forward network."""
        return 4 * self.width**2 + self.products * self.width * self.inner

    @property
    def outside(self) -> int:
        """Weights of the embeddings, and of a head on tokens."""
        return self.vocabulary * self.width * (1 + self.heads_on_tokens)

    def step_work(self, mask: Sequence[bool], span: int, length: int) -> float:
        """Multiply-adds of a step, per token: forward, gradients of trained weights, gradients that flow through; 0 if skipped."""
        if not any(mask):
            return 0.0
        head = self.vocabulary * self.width if self.heads_on_tokens else self.width**2 / length
        work = 2 * head  # forward, and the gradient that flows through
        flows = False
        for replaced in mask:
            blocks, attention = 1 if replaced else span, 2 * length * self.width
            work += blocks * (self.block + attention)
            if replaced:
                work += self.block  # its weights' gradients
            if replaced or flows:
                work += blocks * (self.block + 2 * attention)
            if replaced and not flows:
                work -= 3 * self.width**2  # what enters the lowest successor needs no gradient
            flows = flows or replaced
        return work

    def activations(self, mask: Sequence[bool], span: int) -> float:
        """Numbers that are kept for the backward pass, per token: of trained blocks, and of frozen ones above the lowest of those.

        A trained block keeps the inputs of its products and norms, queries, keys and values; a frozen one not those of products.
        """
        inner = self.inner * (self.products - 1)
        kept, flows = 0.0, False
        for replaced in mask:
            flows = flows or replaced
            if replaced:
                kept += 8 * self.width + inner + self.inner
            elif flows:
                kept += span * (6 * self.width + inner)
        return kept


def expect(of: Callable[[Sequence[bool]], float], slots: int) -> float:
    """The mean of a figure over the masks of a run."""
    return statistics.fmean(of(draw_mask(0, step, SCHEDULE(step, STEPS), slots)) for step in range(STEPS))


# --- measured


@dataclass
class Point:
    """One model and batch of the grid."""

    layers: int
    width: int
    length: int

    def __post_init__(self) -> None:
        self.shape = Shape(self.layers, self.width, 4 * self.width, VOCABULARY)
        self.mask = tuple(index % 2 == 0 for index in range(self.layers // 2))
        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=self.width,
            num_hidden_layers=self.layers,
            num_attention_heads=self.width // 64,
            intermediate_size=4 * self.width,
            max_position_embeddings=self.length,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        self.ship: Any = plankwise.hybrid(BertForSequenceClassification(config)).train()
        trained = [one for one in self.ship.parameters() if one.requires_grad]
        self.optimiser = torch.optim.AdamW(trained)
        ids = torch.randint(VOCABULARY, (TOKENS // self.length, self.length))
        self.batch = {"input_ids": ids, "labels": torch.zeros(len(ids), dtype=torch.long)}

    @property
    def predicted(self) -> float:
        """Multiply-adds of a step."""
        return TOKENS * self.shape.step_work(self.mask, 2, self.length)

    def step(self) -> float:
        """Seconds of one."""
        begun = time.perf_counter()
        with self.ship.masked(list(self.mask)):
            self.ship(**self.batch)["loss"].backward()
        self.optimiser.step()
        self.optimiser.zero_grad()
        return time.perf_counter() - begun

    def count(self) -> float:
        """Multiply-adds of one, as torch counts them."""
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            self.step()
        return counter.get_total_flops() / 2

    def kept(self) -> float:
        """Bytes that autograd keeps."""
        own, kept = storages(self.ship), {}

        def note(tensor: torch.Tensor) -> torch.Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in own:
                kept[storage.data_ptr()] = storage.nbytes()
            return tensor

        with saved_tensors_hooks(note, lambda tensor: tensor):
            self.step()
        return float(sum(kept.values()))


def measure(points: list[Point], rounds: int) -> list[float]:
    """The best seconds of a step at each point."""
    for point in points:
        point.step()
    times = [[point.step() for point in points] for _ in range(rounds)]
    return [min(taken) for taken in zip(*times, strict=True)]


def check(rounds: int, console: Console, section: Path | None) -> None:
    points = [Point(*values) for values in GRID]
    counts, kept = [point.count() for point in points], [point.kept() for point in points]
    seconds = measure(points, rounds)
    rate = statistics.median(point.predicted / one for point, one in zip(points, seconds, strict=True))
    headings = [
        "layers, width, length",
        "10⁹ multiply-adds",
        "counted / model",
        "activations / model",
        "ms",
        "time / model",
    ]
    rows, ratios = [], []
    for point, counted, held, one in zip(points, counts, kept, seconds, strict=True):
        numbers = TOKENS * point.shape.activations(point.mask, 2)
        ratios.append(one * rate / point.predicted)
        rows.append(
            [
                f"{point.layers}, {point.width}, {point.length}",
                f"{point.predicted / 1e9:.2f}",
                f"{counted / point.predicted:.4f}",
                f"{held / (4 * numbers):.3f}",
                f"{1000 * one:.0f}",
                f"{ratios[-1]:.2f}",
            ]
        )
    opening = (
        f"Steps of {TOKENS} tokens, every second slot replaced from the lowest on, best of {rounds} rounds, threads: "
        f"{torch.get_num_threads()}. The times of the model are its multiply-adds at one rate for all points, the median: "
        f"{rate / 1e9:.0f}·10⁹ a second. Measured times are {min(ratios):.2f} to {max(ratios):.2f} of them."
    )
    table = make_table(headings, rows)
    console.print(opening, table, sep="\n\n", markup=False)
    write_section(section, TITLE, [opening, table])


# --- calculated


@dataclass(frozen=True)
class Machine:
    """GPUs, assumed: multiply-adds per second that each achieves, and bytes per second that it sends and receives in a ring."""

    gpus: int
    network: float
    rate: float = 312e12 / 2 * 0.35
    memory: float = 80 * GB


@dataclass(frozen=True)
class Job:
    """A run of module replacing on paper; every step of the same size, whatever the number of GPUs."""

    name: str
    shape: Shape
    slots: int
    span: int
    tokens: float  # in all, padding included
    step_tokens: int
    micro_tokens: int  # in memory at once on one GPU
    length: int

    def seconds(self, machine: Machine) -> tuple[float, float]:
        """Of a step, on average over the run: computing, and adding up gradients."""
        work = expect(lambda mask: self.shape.step_work(mask, self.span, self.length), self.slots)
        trained = expect(lambda mask: sum(mask) * self.shape.block, self.slots)
        ring = 2 * (machine.gpus - 1) / machine.gpus
        return work * self.step_tokens / machine.gpus / machine.rate, ring * 4 * trained / machine.network

    def memory(self) -> dict[str, float]:
        """Bytes on each GPU: float32 weights, gradients and moments; activations of the largest mask in two bytes a number."""
        trained = self.slots * self.shape.block
        most = max(
            self.shape.activations(mask, self.span)
            for mask in ((True,) * self.slots, (True, *(False,) * (self.slots - 1)))
        )
        logits = 3 * 4 * self.shape.vocabulary if self.shape.heads_on_tokens else 0
        return {
            "predecessor": 4.0 * (self.shape.layers * self.shape.block + self.shape.outside),
            "successors": 4.0 * trained,
            "gradients": 4.0 * trained,
            "AdamW": 8.0 * trained,
            "activations": self.micro_tokens * (2 * most + logits),
        }


BERT_LARGE = Shape(24, 1024, 4096, 30522)
DECODER = Shape(32, 4096, 11008, 32000, products=3, heads_on_tokens=True)
JOBS = [
    Job("BERT-large, 24 to 12 blocks", BERT_LARGE, 12, 2, 400e6 * 28, 4096 * 28, 64 * 28, 28),
    Job("7 B decoder, 32 to 16 blocks", DECODER, 16, 2, 10e9, 256 * 2048, 2048, 2048),
    Job("7 B decoder, 32 to 8 blocks", DECODER, 8, 4, 10e9, 256 * 2048, 2048, 2048),
]
MACHINES = [Machine(8, 100 * GB), Machine(64, 25 * GB)]


def tell_paper(console: Console) -> None:
    headings = ["calculated, not measured", "GPUs", "steps", "computing", "adding up", "all steps", "GB a GPU"]
    rows = []
    for job, machine in itertools.product(JOBS, MACHINES):
        steps, (computing, adding) = math.ceil(job.tokens / job.step_tokens), job.seconds(machine)
        memory = sum(job.memory().values()) / GB
        rows.append(
            [
                job.name,
                str(machine.gpus),
                f"{steps:,}",
                f"{1000 * computing:,.0f} ms",
                f"{1000 * adding:,.0f} ms",
                f"{steps * (computing + adding) / 3600:,.1f} h",
                f"{memory:.0f}{'' if memory * GB < machine.memory else ', too much'}",
            ]
        )
    console.print(make_table(headings, rows), markup=False)
    parts = list(JOBS[0].memory())
    figures = [[job.name, *(f"{job.memory()[part] / GB:.1f}" for part in parts)] for job in JOBS]
    console.print("\n" + make_table(["GB on each GPU", *parts], figures), markup=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="steps that are timed at each point")
    parser.add_argument("--paper", action="store_true", help="print what the formulas say of large models on many GPUs")
    add_section_option(parser)
    given = parser.parse_args()
    shown = Console(soft_wrap=True, highlight=False)
    tell_paper(shown) if given.paper else check(given.rounds, shown, given.section)
