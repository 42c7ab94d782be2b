"""Every method in several comparisons: one table, and the same rows again at equal seconds.

    plankwise compare RECIPE --folder steps/one … && plankwise compare OTHER --folder steps/two …
    python evidence/methods.py show steps/one steps/two
    mapfile -t rows < <(python evidence/methods.py rows steps/one --seconds 20)
    plankwise compare RECIPE --folder seconds/one --methods '' "${rows[@]}" …

`show` has, for each row and comparison, the mean over seeds of the share of the predecessor's score that is kept, and seconds of a
row's training, mean over all; rows come in the order of their mean share; "<": a test calls the row worse than the
best baseline (p < 0.05, corrected within a table). `rows` gives each row as many steps as take so many seconds; a step costs what a
row's cells took, divided by their steps, so that what is done before the first step is counted as if it grew with the steps.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

WORSE = 0.05


def read_table(folder: Path) -> dict[str, Any]:
    (task,) = json.loads((folder / "table.json").read_text("utf-8"))["tasks"]
    return task


def read_cells(folder: Path) -> dict[str, list[dict]]:
    """By row, its cells that did not fail."""
    found: dict[str, list[dict]] = defaultdict(list)
    for file in sorted(folder.glob("*/*/seed-*/cell.json")):
        cell = json.loads(file.read_text("utf-8"))
        if cell["failure"] is None:
            found[cell["label"]].append(cell)
    return found


def show(folders: list[Path]) -> None:
    tables = [read_table(folder) for folder in folders]
    shares: dict[str, list[float | None]] = defaultdict(lambda: [None] * len(folders))
    seconds: dict[str, list[float]] = defaultdict(list)
    worse: set[tuple[str, int]] = set()
    for place, (folder, table) in enumerate(zip(folders, tables, strict=True)):
        whole = table["predecessor"]["score"]
        for label, cells in read_cells(folder).items():
            shares[label][place] = fmean(cell["score"] for cell in cells) / whole
            seconds[label].append(fmean(cell["seconds"] for cell in cells))
        for row in table["rows"]:
            shares[row["label"]][place] = shares[row["label"]][place] or row["retained"]
            if row.get("p") is not None and row["p"] < WORSE and row["difference"] < 0:
                worse.add((row["label"], place))

    def text(label: str, place: int) -> str:
        share = shares[label][place]
        return "" if share is None else f"{share:.1%}{' <' if (label, place) in worse else ''}"

    print(f"| | {' | '.join(folder.name for folder in folders)} | mean | seconds |")
    print(f"|---|{'---:|' * (len(folders) + 2)}")
    mean = {label: fmean(share or 0.0 for share in found) for label, found in shares.items()}
    for label in sorted(mean, key=lambda one: -mean[one]):
        took = f"{fmean(seconds[label]):.0f}" if seconds[label] else ""
        kept = [text(label, place) for place in range(len(folders))]
        print(f"| {label} | {' | '.join(kept)} | {mean[label]:.1%} | {took} |")


def print_rows(folder: Path, wanted: float, own: dict[str, str]) -> None:
    """A `--variant` a line and its value in the next."""
    for label, cells in read_cells(folder).items():
        if not any(cell["steps"] for cell in cells):
            continue
        steps = max(1, round(wanted / fmean(cell["seconds"] / cell["steps"] for cell in cells)))
        keys = own.get(label, f"method.name={label}")
        print(f"--variant\n{label}: {keys} training.max_steps={steps} training.evaluate_every={steps}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    shown = commands.add_parser("show")
    shown.add_argument("folders", type=Path, nargs="+", help="of finished comparisons on one recipe each")
    rows = commands.add_parser("rows")
    rows.add_argument("folder", type=Path)
    rows.add_argument("--seconds", type=float, required=True)
    rows.add_argument("--variant", action="append", default=[], help="LABEL: KEY=VALUE …, as the comparison had it")
    arguments = parser.parse_args()
    if arguments.command == "show":
        show(arguments.folders)
    else:
        print_rows(arguments.folder, arguments.seconds, dict(text.split(": ", 1) for text in arguments.variant))


if __name__ == "__main__":
    main()
