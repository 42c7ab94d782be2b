"""What the benchmarks share: the option `--section`, Markdown, and the peak memory of this process."""

import argparse
import resource
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from plankwise.files import write_text


def add_section_option(parser: argparse.ArgumentParser) -> None:
    """`--section FILE`: where `benchmarks/all.py` finds what it puts into results.md."""
    parser.add_argument("--section", type=Path, metavar="FILE", help="also write the results to FILE, as Markdown")


def write_section(path: Path | None, title: str, paragraphs: Iterable[str]) -> None:
    """Writes a heading and what stands under it; without a path nothing."""
    if path is not None:
        write_text(path, "\n\n".join([f"## {title}", *paragraphs]) + "\n")


def make_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table: the first column to the left, the others, which are figures, to the right."""
    marks = ["---", *["---:"] * (len(headings) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [headings, marks, *rows])


def peak_mb() -> float:
    """The most memory this process has held. On Linux `ru_maxrss` also counts what the process that started it held."""
    try:
        with open("/proc/self/status") as status:
            return 1024 * next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1e6
    except (OSError, StopIteration):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6
