"""What a corpus that is larger than memory costs: shards found, all read, some made into sequences, and the memory for it.

Writes a text file of the size asked for into a temporary folder; a fresh process reads it. Peak memory is what that process
needs above what it had with torch, transformers and a tokenizer loaded.

    python benchmarks/corpus_memory.py [--gb 2] [--section FILE]
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from _common import add_section_option, make_table, peak_mb, write_section
from rich.console import Console
from rich.progress import Progress, track

LIMIT_MB = 1_500
NUM_SEQUENCES = 20_000
LENGTH = 128
NUM_READ = 1_000
SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "en", "or")]


def main(gigabytes: float, section: Path | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "corpus.txt"
        write_corpus(path, int(gigabytes * 1e9))
        into = [] if section is None else ["--section", str(section)]
        subprocess.run([sys.executable, __file__, "--measure", str(path), *into], check=True)


def write_corpus(path: Path, size: int) -> None:
    """Lines of pseudo-words, each with its number, so that no two are alike."""
    chance = np.random.default_rng(0)
    words = ["".join(chance.choice(SYLLABLES, count)) for count in chance.integers(1, 4, 5_000)]
    endings = [" ".join(chance.choice(words, count)) for count in chance.integers(5, 25, 10_000)]
    line = 0
    with open(path, "wb") as file, Progress() as progress:
        bar = progress.add_task("writing", total=size)
        while file.tell() < size:
            file.write("".join([f"{line + number} {ending}\n" for number, ending in enumerate(endings)]).encode())
            line += len(endings)
            progress.update(bar, completed=file.tell())


def measure(path: Path, section: Path | None) -> None:
    import torch  # noqa: F401  part of the base

    from plankwise.data.corpus import find_shards, read_shard, shuffled
    from plankwise.data.sequences import open_sequences, write_sequences
    from plankwise.models.loading import Loader

    console = Console()
    tokenizer = Loader().tokenizer("embedded")
    tokenizer("a first text sets up what is set up once")
    base = peak_mb()

    start = time.perf_counter()
    shards = find_shards(str(path), unit="line", column=None, key="--measure")
    found = time.perf_counter()
    lines = sum(len(read_shard(shard)) for shard in track(shards, "reading"))
    read = time.perf_counter()
    after_reading = peak_mb() - base

    file = path.with_name("sequences.arrow")
    with Progress() as progress:
        bar = progress.add_task("tokenising", total=NUM_SEQUENCES)
        written = write_sequences(
            shuffled(shards, 0),
            tokenizer,
            file,
            length=LENGTH,
            form="packed",
            keep=lambda text: True,
            most_sequences=NUM_SEQUENCES,
            progress=lambda sequences: progress.advance(bar, sequences),
        )
    made = time.perf_counter()
    sequences = open_sequences(file)
    rows = np.random.default_rng(0).integers(0, len(sequences.dataset), NUM_READ)
    tokens = sum(len(sequences.dataset[int(row)]["input_ids"]) for row in track(rows, "drawing"))
    drawn = time.perf_counter()

    above = peak_mb() - base
    opening = f"{lines:,} lines, {path.stat().st_size / 1e9:.2f} GB, {len(shards)} shards"
    times = {
        "finding shards": found - start,
        "reading all of them": read - found,
        f"{written.blocks:,} sequences of {LENGTH} from {written.texts:,} texts": made - read,
        f"{NUM_READ:,} random sequences, {tokens:,} tokens": drawn - made,
    }
    closing = (
        f"peak memory above the base of {base:,.0f} MB: {after_reading:,.0f} MB after reading, {above:,.0f} MB in all, "
        f"which is {'under' if above < LIMIT_MB else 'NOT under'} {LIMIT_MB:,}"
    )
    console.print(opening, highlight=False)
    for name, seconds in times.items():
        console.print(f"  {name:50} {seconds:8.2f} s", soft_wrap=True, highlight=False)
    console.print(f"  {closing}", soft_wrap=True, highlight=False)
    table = make_table(["step", "seconds"], [[name, f"{seconds:.2f}"] for name, seconds in times.items()])
    write_section(section, "A corpus on disk", [f"{opening}.", table, f"{closing[0].upper()}{closing[1:]}."])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", type=float, default=2.0, help="size of the corpus")
    add_section_option(parser)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure, arguments.section)
    else:
        main(arguments.gb, arguments.section)
