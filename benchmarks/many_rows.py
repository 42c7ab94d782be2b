"""What a labelled table of ten million rows costs until the first batches are made, against a tenth of it.

Writes a csv file of pseudo-sentences, some of them twice, into a temporary folder. A fresh process reads, cleans, splits and
encodes it, as `plankwise compress` does, and makes the first batches; another does so again with the tokens in the cache. Peak
memory is what such a process needs above what it had with torch, transformers and a tokenizer loaded.

    python benchmarks/many_rows.py [--rows 10000000] [--section FILE]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from _common import add_section_option, make_table, peak_mb, write_section
from rich.console import Console
from rich.progress import Progress

SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "en", "or")]
NUM_WORDS = 10_000  # in 16,384 short texts of film reviews there are twice as many, most of them rare
STRIDE = 48_271_183  # times a row's number, modulo NUM_WORDS²: gives its first two words, and no others the same
LEAST, MOST = 2, 5  # words that follow them
REPEATED = 1_000  # one row in this many repeats the row before it
WRITTEN_ROWS = 100_000  # at once
BATCHES = 100
BATCH_SIZE = 32
STAGES = ("reading", "cleaning and splitting", "encoding", "sampler")
FLAT = 1.25  # times as much a row as with a tenth of the rows, at most


def main(rows: int, section: Path | None) -> None:
    console = Console(soft_wrap=True, highlight=False)
    found: dict[str, dict] = {}
    with tempfile.TemporaryDirectory() as folder:
        for count in (rows // 10, rows):
            file = Path(folder) / f"{count}.csv"
            write_rows(file, count)
            for cache in ("cold", "warm"):
                name = f"{count:,} rows, {cache} cache"
                found[name] = run_apart(file, Path(folder) / f"cache-{count}", name)
                report(name, found[name], console)
            file.unlink()
    sentences = conclude(found)
    console.print("\n".join(sentences))
    write_section(section, "Ten million rows" if rows == 10**7 else f"{rows:,} rows", describe(found, sentences))


def write_rows(path: Path, rows: int) -> None:
    """No two rows are alike, except that each row whose number is a multiple of REPEATED repeats the one before it."""
    chance = np.random.default_rng(0)
    made = ("".join(chance.choice(SYLLABLES, count)) for count in iter(lambda: chance.integers(1, 4), None))
    words = pa.array(list(dict.fromkeys(islice(made, 2 * NUM_WORDS)))[:NUM_WORDS])
    schema = pa.schema([("text", pa.string()), ("label", pa.string())])
    with pa.csv.CSVWriter(path, schema) as writer, Progress() as progress:
        bar = progress.add_task(f"writing {rows:,} rows", total=rows)
        for start in range(0, rows, WRITTEN_ROWS):
            numbers = np.arange(start, min(start + WRITTEN_ROWS, rows))
            repeats = (numbers % REPEATED == 0) & (numbers > 0)
            writer.write_batch(pa.record_batch(make_batch(numbers - repeats, words), schema=schema))
            progress.update(bar, completed=start + len(numbers))


def make_batch(numbers: np.ndarray, words: pa.Array) -> list[pa.Array]:
    """Texts and labels that depend on the numbers alone."""
    spread = numbers * STRIDE % len(words) ** 2
    columns = [words.take(pa.array(spread // len(words))), words.take(pa.array(spread % len(words)))]
    for place in range(MOST):
        drawn = (spread * (2 * place + 3) // 97) % len(words)
        columns.append(words.take(pa.array(drawn, mask=place >= LEAST + numbers % (MOST - LEAST + 1))))
    texts = pc.binary_join_element_wise(*columns, " ", null_handling="skip")
    return [texts, pa.array(["negative", "positive"]).take(pa.array(numbers // 3 % 2))]


def run_apart(file: Path, cache: Path, name: str) -> dict:
    """What a process of its own finds; this one stays small, for on Linux a peak may begin with that of the parent."""
    results = file.with_suffix(".json")
    environment = {**os.environ, "HF_DATASETS_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, __file__, "--measure", str(file), "--results", str(results), "--name", name]
    subprocess.run(command, check=True, env={"TOKENIZERS_PARALLELISM": "false", **environment})
    return json.loads(results.read_text("utf-8"))


def measure(file: Path, results: Path, name: str) -> None:
    from plankwise.config import validate_config
    from plankwise.data.batch import LengthSampler, examples_of, plain_collator
    from plankwise.data.encode import encode
    from plankwise.data.split import prepare
    from plankwise.models.loading import Loader
    from plankwise.tasks import table

    console = Console()
    task = {"name": "table", "train": str(file), "text": "text", "label": "label"}
    config = validate_config({"task": task, "training": {"max_length": 32}})
    tokenizer = Loader().tokenizer("embedded")
    tokenizer("a first text sets up what is set up once")
    base = peak_mb()
    seconds: dict[str, float] = dict.fromkeys(STAGES, 0.0)

    def timed(stage: str, call: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = call()
        seconds[stage] += time.perf_counter() - start
        peak = peak_mb() - base
        console.print(f"  {name}: {stage} {seconds[stage]:.1f} s, peak so far {peak:,.0f} MB", highlight=False)
        return result

    # What `task_kinds.labels` does, step by step.
    source = timed("reading", lambda: table.read(config.task))
    prepared = timed("cleaning and splitting", lambda: prepare(source, config.task, seed=config.run.seed_of_data))
    length = config.training.max_length
    for held_out in prepared.dev.values():
        timed("encoding", partial(encode, held_out, tokenizer, length))
    train = timed("encoding", lambda: encode(prepared.train, tokenizer, length))
    order = iter(LengthSampler(train.lengths, BATCH_SIZE, seed=0))
    batches = batches_of(order)
    first = timed("sampler", lambda: next(batches))
    peak = peak_mb() - base
    collate = plain_collator(train, tokenizer)
    times = []
    for batch in islice(batches, BATCHES):
        start = time.perf_counter()
        collate(examples_of(train.dataset, batch))
        times.append(time.perf_counter() - start)
    assert len(first) == BATCH_SIZE
    duplicates = prepared.dropped["train"].duplicates
    figures = {
        "rows": prepared.train.num_rows + prepared.dev["dev"].num_rows + duplicates,
        "duplicates": duplicates,
        "tokens": float(train.lengths.mean()),
        "seconds": seconds,
        "batch_ms": 1000 * float(np.median(times)),
        "peak_mb": peak,
        "peak_mb_later": peak_mb() - base,
    }
    results.write_text(json.dumps(figures), "utf-8")


def batches_of(order: Iterator[int]) -> Iterator[list[int]]:
    while batch := list(islice(order, BATCH_SIZE)):
        yield batch


def report(name: str, figures: dict, console: Console) -> None:
    seconds, rows = figures["seconds"], figures["rows"]
    console.print(
        f"{name}: {sum(seconds.values()):.1f} s to the first batch, {per_million(figures):.2f} s a million rows, "
        f"{figures['batch_ms']:.2f} ms a batch; peak {figures['peak_mb']:,.0f} MB above the base, "
        f"{bytes_per_row(figures):.0f} bytes a row, {figures['peak_mb_later']:,.0f} MB after {BATCHES} batches; "
        f"{figures['duplicates']:,} of {rows:,} rows were repeated"
    )


def per_million(figures: dict) -> float:
    return sum(figures["seconds"].values()) / figures["rows"] * 1e6


def bytes_per_row(figures: dict) -> float:
    return figures["peak_mb"] * 1e6 / figures["rows"]


def conclude(found: dict[str, dict]) -> list[str]:
    """What is flat per row and what is not."""
    few_cold, few_warm, many_cold, many_warm = found.values()
    ratios = {
        "time with a cold cache": per_million(many_cold) / per_million(few_cold),
        "time with a warm cache": per_million(many_warm) / per_million(few_warm),
        "peak memory with a cold cache": bytes_per_row(many_cold) / bytes_per_row(few_cold),
        "peak memory with a warm cache": bytes_per_row(many_warm) / bytes_per_row(few_warm),
    }
    flat = [f"{name} ({ratio:.2f} times)" for name, ratio in ratios.items() if ratio <= FLAT]
    grown = [f"{name} ({ratio:.2f} times)" for name, ratio in ratios.items() if ratio > FLAT]
    more_bytes = 1e6 * (many_cold["peak_mb"] - few_cold["peak_mb"]) / (many_cold["rows"] - few_cold["rows"])
    batch = many_cold["batch_ms"] / few_cold["batch_ms"]
    return [
        f"With ten times the rows, a row takes at most {FLAT} times as much in: {', '.join(flat) or 'nothing'}.",
        f"It takes more in: {', '.join(grown) or 'nothing'}.",
        f"From the smaller table to the larger one the peak grows by {more_bytes:.0f} bytes a row.",
        f"A batch of {BATCH_SIZE} random rows takes {batch:.2f} times as long.",
    ]


def describe(found: dict[str, dict], sentences: list[str]) -> list[str]:
    headings = ["", *STAGES, "in all, a million rows", "a batch", "peak memory", "a row", f"after {BATCHES} batches"]
    cells = [
        [
            name,
            *(f"{figures['seconds'][stage]:.1f} s" for stage in STAGES),
            f"{per_million(figures):.2f} s",
            f"{figures['batch_ms']:.2f} ms",
            f"{figures['peak_mb']:,.0f} MB",
            f"{bytes_per_row(figures):.0f} bytes",
            f"{figures['peak_mb_later']:,.0f} MB",
        ]
        for name, figures in found.items()
    ]
    last = list(found.values())[-1]
    opening = (
        f"A csv file of pseudo-sentences ({last['tokens']:.1f} tokens on average, {NUM_WORDS:,} different words, one row in "
        f"{REPEATED:,} twice), from the file to the first batch; cold: nothing in the cache; warm: the tokens of the run before. "
        "Peak memory is above what the process had with torch, transformers and a tokenizer loaded, until the first batch; what "
        "batches read of the mapped tokens counts in the last column, and the system takes it back when it needs it. Encoding is "
        "slower with more different words, and for tokenizers that do not work word by word."
    )
    return [opening, make_table(headings, cells), " ".join(sentences)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the larger table")
    add_section_option(parser)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--results", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--name", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure, arguments.results, arguments.name)
    else:
        main(arguments.rows, arguments.section)
