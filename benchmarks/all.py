"""Runs every benchmark, each in a process of its own, one after the other, and writes what they found to benchmarks/results.md.

A benchmark that fails, or takes longer than its limit, gets a section that says so; the others still run, and the exit code is 1.

    python benchmarks/all.py [--glue FOLDER] [--encoder FOLDER]

The folders are for training_cost.py, which says what they hold.
"""

import argparse
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from plankwise.files import write_text

HERE = Path(__file__).parent
RESULTS = HERE / "results.md"
COMMAND = "make bench"


@dataclass(frozen=True)
class Benchmark:
    """A script that takes `--section FILE`, and the seconds after which it is given up."""

    script: str
    arguments: tuple[str, ...] = ()
    limit: float = 300.0


BENCHMARKS = (
    Benchmark("training_cost.py", limit=600),
    Benchmark("training_step.py", limit=120),
    Benchmark("products.py", limit=60),
    Benchmark("attention.py", limit=120),
    Benchmark("solving.py", limit=180),
    Benchmark("growth.py", limit=240),
    Benchmark("scale.py", limit=120),
    Benchmark("many_rows.py", limit=420),
    Benchmark("corpus_memory.py", ("--gb", "0.5"), limit=120),
)


@dataclass(frozen=True)
class Result:
    section: str
    seconds: float
    fault: str | None = None  # what went wrong


def run(benchmark: Benchmark, folder: Path) -> Result:
    """Runs a script of the folder; its output goes through, and what it had written before a fault is kept."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "section.md"
        command = [sys.executable, str(folder / benchmark.script), *benchmark.arguments, "--section", str(file)]
        fault = _run_process(command, benchmark.limit)
        section = file.read_text("utf-8").strip() if file.exists() else ""
    if not section and fault is None:
        fault = "it ended without a fault, but wrote no section"
    if fault is not None:
        section = f"{section or f'## {benchmark.script}'}\n\n**Failed**: {fault}."
    return Result(section, time.monotonic() - started, fault)


def _run_process(command: list[str], limit: float) -> str | None:
    """Runs a command to its end or its limit; in words what went wrong, if anything did."""
    # A session of its own: what the benchmark itself has started ends with it.
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        code = process.wait(limit)
    except subprocess.TimeoutExpired:
        return f"it was stopped at its limit of {limit:g} seconds"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if code < 0:
        return f"it was ended by the signal {signal.Signals(-code).name}"
    return None if code == 0 else f"it ended with the exit code {code}"


def run_all(benchmarks: Sequence[Benchmark], folder: Path, results: Path, console: Console) -> bool:
    """Runs the scripts of the folder in their order and writes the results; whether all went well."""
    date, started = datetime.now(UTC), time.monotonic()
    done = []
    for number, benchmark in enumerate(benchmarks, 1):
        console.rule(f"{number}/{len(benchmarks)} {benchmark.script}")
        result = run(benchmark, folder)
        console.print(f"{benchmark.script}: {result.fault or 'done'}, {result.seconds:.0f} s")
        done.append(result)
    minutes = (time.monotonic() - started) / 60
    heading = [
        "# What plankwise costs",
        f"Written by `{COMMAND}` on {date:%Y-%m-%d %H:%M} UTC in {minutes:.1f} minutes.",
        "\n".join(f"- {line}" for line in describe_machine()),
    ]
    write_text(results, "\n\n".join([*heading, *(result.section for result in done)]) + "\n")
    console.print(f"{results.name}: {minutes:.1f} minutes in all")
    return all(result.fault is None for result in done)


def describe_machine() -> list[str]:
    """What the figures depend on; no names or places that are this machine's alone."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers"))
    return [
        f"{_processor()}, {cores} cores, {memory:.0f} GiB of memory",
        f"{platform.system()} {platform.release().partition('-')[0]} {platform.machine()}",
        f"Python {platform.python_version()}, {packages}",
    ]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or "unknown processor")


def with_folders(benchmarks: Sequence[Benchmark], **folders: str | None) -> list[Benchmark]:
    """The same, the first of them given the folders that are there."""
    given = tuple(text for name, folder in folders.items() if folder for text in (f"--{name}", folder))
    first, *rest = benchmarks
    return [replace(first, arguments=(*first.arguments, *given)), *rest]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--glue", help="folder with CoLA, SST-2 and RTE")
    parser.add_argument("--encoder", help="folder of a 12-layer BERT")
    chosen = with_folders(BENCHMARKS, **vars(parser.parse_args()))
    sys.exit(0 if run_all(chosen, HERE, RESULTS, Console()) else 1)
