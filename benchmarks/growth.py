"""How cost grows: seconds per epoch of module replacing over examples, tokens, layers and width, beside its multiply-adds.

Untrained BERTs on real film reviews; for tokens, reviews are joined and cut to exactly so many. Every second slot is replaced in
every step, the lowest among them: as many as at a rate of 0.5, without the noise of a coin. The time is a stage's own: evaluations
are left out, saving the best weights is not. All points are measured in turn, several times, and the best time of each counts.
The multiply-adds are counted in a whole epoch, backward passes included.

    python benchmarks/growth.py [--section FILE]
"""

import argparse
import itertools
import math
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pyarrow as pa
import torch
from _common import add_section_option, make_table, write_section
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import Progress
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig, BertForSequenceClassification

import plankwise
from plankwise.config import FitOptions
from plankwise.context import Context
from plankwise.data.encode import Encoded, encode
from plankwise.files import whole_file
from plankwise.models.loading import Loader
from plankwise.report.plots import COLOURS, SETTINGS
from plankwise.tasks import reviews
from plankwise.training.stage import Stage

TITLE = "How cost grows"
PICTURE = Path(__file__).with_name("growth.svg")
ROUNDS = 5
SECONDS = 160  # after which no other round is begun, if there have been two
BATCH_SIZE = 16
HEAD_WIDTH = 64
MOST_TOKENS = 512
STRAIGHT = 0.99  # R² from which on a line is called straight
NEAR_ZERO = 0.1  # of the cost in the middle: up to here an offset is called nearly zero


@dataclass(frozen=True)
class Point:
    """One epoch to measure; tokens None: sentences as they are."""

    examples: int = 128
    tokens: int | None = None
    layers: int = 4
    width: int = 192
    replacing: bool = True  # False: the whole predecessor is fine-tuned

    @property
    def steps(self) -> int:
        return math.ceil(self.examples / BATCH_SIZE)


AXES: dict[str, list[Point]] = {
    "examples": [Point(examples=count) for count in (128, 256, 384, 512, 640)],
    "tokens": [Point(tokens=count, examples=64, width=128) for count in (32, 64, 128, 256, 384)],
    "layers": [Point(layers=count) for count in (4, 8, 12, 16)],
    "width": [Point(width=count) for count in (128, 192, 256, 320, 384)],
}
WHOLE = [replace(point, replacing=False) for point in AXES["examples"][:3]]
BARE = [
    Point(tokens=4, width=16, layers=count) for count in (4, 16)
]  # next to no arithmetic: what they take is overhead


@dataclass(frozen=True)
class Fit:
    """A polynomial, coefficients from the constant up, and the share of the variance that it explains."""

    coefficients: tuple[float, ...]
    r2: float

    def __call__(self, x: Any) -> Any:
        return sum(coefficient * x**power for power, coefficient in enumerate(self.coefficients))


def fit_polynomial(xs: list[int], ys: list[float], degree: int) -> Fit:
    """The polynomial with the least squares of relative errors: short times count as much as long ones."""
    x, y = np.array(xs, float), np.array(ys, float)
    columns = np.stack([(x / x.max()) ** power for power in range(degree + 1)], axis=1)
    found = np.linalg.lstsq(columns / y[:, None], np.ones_like(y), rcond=None)[0]
    r2 = 1 - ((y - columns @ found) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    return Fit(tuple(float(value / x.max() ** power) for power, value in enumerate(found)), float(r2))


def fit_exponent(xs: list[int], ys: list[float]) -> float:
    """The power of x with which y grows: the slope between their logarithms."""
    return float(np.polyfit(np.log(xs), np.log(ys), 1)[0])


@dataclass(frozen=True)
class Measured:
    """One axis: its values, the best seconds per epoch and the multiply-adds per epoch at each."""

    name: str
    points: list[Point]
    seconds: list[float]
    counts: list[float]

    @property
    def xs(self) -> list[int]:
        return [getattr(point, self.name) for point in self.points]

    @property
    def degree(self) -> int:
        """Examples and layers are done one after the other; tokens meet tokens, and the width meets itself."""
        return 1 if self.name in ("examples", "layers") else 2

    @property
    def predicted(self) -> list[float]:
        """The seconds, if all multiply-adds took as long as those of the point in the middle."""
        middle = len(self.points) // 2
        return [count * self.seconds[middle] / self.counts[middle] for count in self.counts]

    @property
    def rates(self) -> list[float]:
        """Multiply-adds per second."""
        return [count / seconds for count, seconds in zip(self.counts, self.seconds, strict=True)]

    def describe(self) -> str:
        """What the figures say, in a sentence."""
        tell = {"tokens": self._tell_tokens, "width": self._tell_width}.get(self.name, self._tell_line)
        return f"**{self.name.capitalize()}**: {tell()}"

    def _tell_line(self) -> str:
        line, counted = (fit_polynomial(self.xs, ys, 1) for ys in (self.seconds, self.counts))
        middle = self.xs[len(self.xs) // 2]
        offset, expected = line(0) / line(middle), counted(0) / counted(middle)
        through = "through nearly zero" if abs(offset) <= NEAR_ZERO else "that does not go through zero"
        shape = f"a straight line {through}" if line.r2 >= STRAIGHT else "NOT a straight line"
        return (
            f"{shape} (R² {line.r2:.4f}; at 0 {self.name} the line is at {offset:+.1%} of its height at {middle}); "
            f"the multiply-adds have R² {counted.r2:.4f} and {expected:+.1%}."
        )

    def _tell_tokens(self) -> str:
        xs = self.xs
        growth = [
            [fit_exponent(xs[at], ys[at]) for at in (slice(2), slice(-2, None))] for ys in (self.seconds, self.counts)
        ]
        (first, last), (first_counted, last_counted) = growth
        curve, counted = (fit_polynomial(xs, ys, 2) for ys in (self.seconds, self.counts))
        square, expected = (fit.coefficients[2] * xs[-1] ** 2 / fit(xs[-1]) for fit in (curve, counted))
        bend = "bends upwards" if square > 0 else "does NOT bend upwards"
        return (
            f"the curve {bend}: from {xs[0]} to {xs[1]} the cost grows with the power {first:.2f}, from {xs[-2]} to {xs[-1]} with "
            f"{last:.2f} (multiply-adds {first_counted:.2f} and {last_counted:.2f}); of the fitted c + a·T + b·T² the square is "
            f"{square:.0%} at {xs[-1]} tokens (multiply-adds {expected:.0%}; R² {curve.r2:.4f})."
        )

    def _tell_width(self) -> str:
        power, expected = fit_exponent(self.xs, self.seconds), fit_exponent(self.xs, self.counts)
        narrow, wide = self.rates[0] / 1e9, self.rates[-1] / 1e9
        return (
            f"the cost grows with the power {power:.2f}, {name_power(power)}, its multiply-adds with {expected:.2f}: the machine "
            f"does {narrow:.0f}·10⁹ of them a second at width {self.xs[0]} and {wide:.0f}·10⁹ at {self.xs[-1]}."
        )


def name_power(exponent: float) -> str:
    """The words for a growth with this power."""
    bounds = {0.9: "less than linear", 1.1: "about linear", 1.9: "between linear and quadratic", 2.1: "about quadratic"}
    return next((words for bound, words in bounds.items() if exponent <= bound), "more than quadratic")


class Epoch:
    """A point's model and data, which can be trained for an epoch again and again."""

    def __init__(self, point: Point, table: pa.Table, tokenizer: Any) -> None:
        self.point = point
        self.tokenizer = tokenizer
        self.train = make_examples(table, tokenizer, point)
        self.model = make_model(point, len(tokenizer))

    def run(self) -> float:
        """Seconds, evaluations left out."""
        with tempfile.TemporaryDirectory() as folder:
            stage = Stage(
                name="replacing" if self.point.replacing else "fine-tuning",
                train=self.train,
                score=lambda model: {"score": 0.0},
                tokenizer=self.tokenizer,
                options=FitOptions(epochs=1, batch_size=BATCH_SIZE),
                folder=Path(folder),
                context=Context(Console(quiet=True), Path(folder)),
            )
            if not self.point.replacing:
                return stage.run(self.model, reads_first_token=True).seconds
            ship: Any = self.model
            with ship.masked([index % 2 == 0 for index in range(len(ship.plan.slots))]):
                callbacks = [ship.callback(stage.score)]
                return stage.run(ship, callbacks, reads_first_token=True, settled=lambda: ship.settled).seconds

    def count(self) -> int:
        """The multiply-adds of an epoch; `plankwise.evaluation.multiply_adds` says why attention is the plain one."""
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            self.run()
        return counter.get_total_flops() // 2


def make_model(point: Point, vocabulary: int) -> nn.Module:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=point.width,
        num_hidden_layers=point.layers,
        num_attention_heads=max(1, point.width // HEAD_WIDTH),
        intermediate_size=4 * point.width,
        max_position_embeddings=MOST_TOKENS,
    )
    model = BertForSequenceClassification(config)
    return plankwise.hybrid(model, schedule=plankwise.Constant(rate=0.5, full_at=1.0)) if point.replacing else model


def make_examples(table: pa.Table, tokenizer: Any, point: Point) -> Encoded:
    """The first sentences of the table as they are, or joined and cut to exactly `point.tokens`."""
    if point.tokens is None:
        return encode(table.slice(0, point.examples), tokenizer, MOST_TOKENS)
    texts = list(itertools.islice(join_texts(table["text"].to_pylist(), point.tokens), point.examples))
    labels = table["label"].slice(0, point.examples)
    encoded = encode(pa.table({"text": texts, "label": labels}), tokenizer, point.tokens)
    assert set(encoded.lengths) == {point.tokens}
    return encoded


def join_texts(texts: list[str], num_words: int) -> Iterator[str]:
    """Texts of at least so many words, and so of at least as many tokens; begins again at the end."""
    words: list[str] = []
    for text in itertools.cycle(texts):
        words += text.split()
        if len(words) >= num_words:
            yield " ".join(words)
            words = []


def measure(points: list[Point], console: Console) -> tuple[dict[Point, list[float]], dict[Point, int]]:
    """For each point the seconds per epoch, round by round, and the multiply-adds."""
    started = time.monotonic()
    tokenizer = Loader().tokenizer("embedded")
    table = reviews.read(reviews.Options()).train
    table = table.take(np.random.default_rng(0).permutation(table.num_rows)[:5_000])
    with Progress(console=console) as progress:
        bar = progress.add_task("counting", total=len(points) * (1 + ROUNDS))
        epochs = {point: Epoch(point, table, tokenizer) for point in points}
        counts = {}
        for point, epoch in epochs.items():
            counts[point] = epoch.count()
            progress.advance(bar)
        times: dict[Point, list[float]] = {point: [] for point in points}
        for number in range(1, ROUNDS + 1):
            progress.update(bar, description=f"round {number}")
            begun = time.monotonic()
            for point, epoch in epochs.items():
                times[point].append(epoch.run())
                progress.advance(bar)
            now = time.monotonic()
            if number >= 2 and now + (now - begun) - started > SECONDS:
                break
        progress.update(bar, completed=len(points) * (1 + ROUNDS))
    return times, counts


def describe_overhead(seconds: dict[Point, float], examples: Measured, layers: Measured) -> str:
    """Where a step's time goes that is no arithmetic."""
    shallow, deep = (1000 * seconds[point] / point.steps for point in BARE)
    each = (deep - shallow) / (BARE[1].layers - BARE[0].layers)
    base = 1000 * layers.seconds[0] / layers.points[0].steps
    at_zero = 1000 * fit_polynomial(layers.xs, layers.seconds, 1)(0) / layers.points[0].steps
    per_epoch = 1000 * fit_polynomial(examples.xs, examples.seconds, 1)(0)
    return (
        f"**Overhead**: a step with next to no arithmetic (width {BARE[0].width}, {BARE[0].tokens} tokens) takes {shallow:.1f} ms "
        f"with {BARE[0].layers} layers and {deep:.1f} ms with {BARE[1].layers}: {each:.2f} ms a layer and "
        f"{shallow - each * BARE[0].layers:.1f} ms beside the layers (batches, Trainer, embeddings, head); "
        f"that is {shallow / base:.0%} of a step of {BARE[0].layers} layers at width {layers.points[0].width}. "
        f"The line over layers meets 0 at {at_zero:+.1f} ms a step, the line over examples at {per_epoch:+.0f} ms an epoch."
    )


def describe_whole(seconds: dict[Point, float], counts: dict[Point, int]) -> str:
    """What fine-tuning the whole predecessor costs beside replacing."""
    ratios = [
        statistics.median(figures[point] / figures[replace(point, replacing=True)] for point in WHOLE)
        for figures in (seconds, counts)
    ]
    return (
        f"**Fine-tuning** the whole predecessor takes {ratios[0]:.2f} times as long as replacing on the same examples "
        f"(multiply-adds: {ratios[1]:.2f} times)."
    )


def tabulate(axes: list[Measured]) -> list[list[str]]:
    """A row for each point of each axis."""
    return [
        [
            axis.name,
            str(x),
            str(point.steps),
            f"{seconds:.2f}",
            f"{1000 * seconds / point.steps:.0f}",
            f"{count / 1e9:.1f}",
        ]
        for axis in axes
        for x, point, seconds, count in zip(axis.xs, axis.points, axis.seconds, axis.counts, strict=True)
    ]


def draw(axes: list[Measured], whole: dict[int, float], path: Path) -> None:
    """One picture with a panel for each axis."""
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(9.0, 7.0), layout="constrained")
        for panel, axis in zip(figure.subplots(2, 2).flat, axes, strict=True):
            _draw_panel(panel, axis)
            if axis.name == "examples":
                panel.plot(list(whole), list(whole.values()), "s-", color=COLOURS[1], label="fine-tuning all")
            panel.set(xlim=(0, None), ylim=(0, None), xlabel=axis.name, ylabel="seconds per epoch")
            panel.legend(fontsize=9, frameon=False)
        with whole_file(path) as part:
            figure.savefig(part, format="svg", metadata={"Date": None})


def _draw_panel(panel: Axes, axis: Measured) -> None:
    fit = fit_polynomial(axis.xs, axis.seconds, axis.degree)
    grid = np.linspace(0 if axis.degree == 1 else axis.xs[0], axis.xs[-1], 100)
    panel.plot(axis.xs, axis.seconds, "o", color=COLOURS[0], label="replacing, measured")
    panel.plot(grid, fit(grid), "-", color=COLOURS[0], label="fitted line" if axis.degree == 1 else "fitted parabola")
    panel.plot(axis.xs, axis.predicted, "--", color="0.4", label="by its multiply-adds")


def main(section: Path | None) -> None:
    console = Console(soft_wrap=True, highlight=False)
    times, counts = measure([*dict.fromkeys(itertools.chain(*AXES.values(), WHOLE, BARE))], console)
    seconds = {point: min(taken) for point, taken in times.items()}
    rounds = len(next(iter(times.values())))
    spread = statistics.median(statistics.median(taken) / min(taken) - 1 for taken in times.values())
    axes = [
        Measured(name, points, [seconds[point] for point in points], [counts[point] for point in points])
        for name, points in AXES.items()
    ]
    draw(axes, {point.examples: seconds[point] for point in WHOLE}, PICTURE)
    opening = (
        f"Seconds per epoch of module replacing at batches of {BATCH_SIZE}, every second slot replaced, on untrained BERTs and "
        f"film reviews; best of {rounds} rounds in which all points took turns, threads: {torch.get_num_threads()}. "
        f"A point's median time is {spread:.0%} above its best: much more than a few percent means that the machine was busy."
    )
    rows = tabulate(axes)
    headings = ["varied", "at", "steps", "seconds per epoch", "ms per step", "10⁹ multiply-adds"]
    found = [*(axis.describe() for axis in axes), describe_whole(seconds, counts)]
    found.append(describe_overhead(seconds, axes[0], axes[2]))
    console.print(opening, markup=False)
    for row in [headings, *rows]:
        console.print(
            "  " + "  ".join(f"{cell:>{len(heading) + 1}}" for cell, heading in zip(row, headings, strict=True))
        )
    for sentence in found:
        console.print(sentence.replace("**", ""), markup=False)
    picture = f"![Seconds per epoch over examples, tokens, layers and width]({PICTURE.name})"
    write_section(section, TITLE, [opening, picture, make_table(headings, rows), *found])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_section_option(parser)
    main(parser.parse_args().section)
