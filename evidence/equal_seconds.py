"""Rows of a comparison again, each with as many steps as take equally long: options for a second `plankwise compare`.

    plankwise compare RECIPE --folder steps …
    mapfile -t rows < <(python evidence/equal_seconds.py steps/NAME --seconds 20 --method kd …)
    plankwise compare RECIPE --folder seconds --methods '' "${rows[@]}" …

A step of a row costs what its cells of the first comparison took, divided by their steps: mean over the seeds. What a row does
before its first step (importance of heads, sensitivity of blocks) is counted as if it grew with the steps.
"""

import argparse
import json
from pathlib import Path
from statistics import fmean


def read_cells(folder: Path) -> list[dict]:
    """Of one row, those that did not fail."""
    cells = [json.loads(file.read_text("utf-8")) for file in sorted(folder.glob("seed-*/cell.json"))]
    return [cell for cell in cells if cell["failure"] is None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a recipe's folder in a finished comparison's")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument(
        "--keys", action="append", default=[], help="LABEL: KEY=VALUE …, of a row that is no method's own"
    )
    arguments = parser.parse_args()
    own = dict(text.split(": ", 1) for text in arguments.keys)
    for folder in sorted({file.parent.parent for file in arguments.folder.glob("*/seed-*/cell.json")}):
        cells = read_cells(folder)
        if not cells or not any(cell["steps"] for cell in cells):
            continue
        a_step = fmean(cell["seconds"] / cell["steps"] for cell in cells)
        steps = max(1, round(arguments.seconds / a_step))
        keys = own.get(folder.name, f"method.name={folder.name}")
        print(f"--variant\n{folder.name}: {keys} training.max_steps={steps} training.evaluate_every={steps}")


if __name__ == "__main__":
    main()
