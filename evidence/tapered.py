"""Writes plans of thin blocks whose widths fall from block to block, for `cells.py --plans FOLDER`.

    python evidence/tapered.py plans && python evidence/cells.py cells --plans plans --task reviews …

A row is the share of feed-forward channels and of heads that each block keeps; a block that keeps all stays as it is. Multiply-adds
of a block are a third its attention's, by heads, and two thirds its feed-forward network's, by channels.
"""

import argparse
from pathlib import Path

import tomli_w

from plankwise.files import write_text

PATH = "bert.encoder.layer"
WHOLE = (1.0, 1.0)
SIX = {
    "uniform": [(0.25, 1.0)] * 6,
    "taper-a": [WHOLE, *[(0.25, 1.0)] * 2, *[(0.125, 0.75)] * 3],
    "taper-b": [WHOLE, *[(0.25, 0.6667)] * 5],
    "taper-c": [WHOLE, (0.5, 1.0), (0.25, 1.0), *[(0.125, 0.5)] * 3],
    "taper-d": [WHOLE, WHOLE, *[(0.125, 0.5)] * 4],
    "taper-third": [(0.5, 1.0), (0.25, 0.75), *[(0.125, 0.5)] * 4],
}
TWELVE = {
    "taper-c": [*[WHOLE] * 2, *[(0.5, 1.0)] * 2, *[(0.25, 1.0)] * 2, *[(0.125, 0.5)] * 6],
    "uniform": [(0.25, 1.0)] * 12,
}
TASKS = {
    **dict.fromkeys(("reviews", "sst2", "cola", "germeval"), SIX),
    **dict.fromkeys(("gte-sst2", "gte-cola"), TWELVE),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    for task, plans in TASKS.items():
        for name, widths in plans.items():
            slots = [
                {"path": PATH, "span": [block], "part": "thin", "options": {"ffn": ffn, "heads": heads}}
                for block, (ffn, heads) in enumerate(widths)
                if (ffn, heads) != WHOLE
            ]
            (folder / task).mkdir(parents=True, exist_ok=True)
            write_text(folder / task / f"{name}.toml", tomli_w.dumps({"plan": {"slots": slots}}))
            work = sum(ffn * 2 / 3 + heads / 3 for ffn, heads in widths) / len(widths)
            print(f"{task} {name}: {work:.1%} of the blocks' multiply-adds")


if __name__ == "__main__":
    main()
