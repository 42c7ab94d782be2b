"""A few tagged texts, for the contract of every kind of task: most words tell their tag, and some have two pieces.

A word that may be followed by "s" is two pieces to a tokenizer that knows "##s". "scene" is praise in every third text, which
nothing tells, so that no model is always right.
"""

import json
from pathlib import Path

PRAISE, BLAME = ("fine", "great", "greats", "lovely"), ("dull", "awful", "dulls", "weak")
FILLERS = ("a", "the", "film", "plot", "actor", "scene", "is", "was")


def rows(count: int) -> list[dict]:
    made = []
    for index in range(count):
        fillers = [FILLERS[(index // 8**power) % 8] for power in range(3)]
        words = [*fillers[: 1 + index % 3], PRAISE[index % 4], fillers[0], BLAME[index // 4 % 4]]
        made.append({"words": words, "tags": [_tag(word, index) for word in words]})
    return made


def _tag(word: str, index: int) -> str:
    if word in PRAISE or (word == "scene" and index % 3 == 0):
        return "PRAISE"
    return "BLAME" if word in BLAME else "O"


def section(folder: Path) -> dict:
    """Writes the examples, and gives the [task] section that reads them."""
    made = rows(60)
    for name, part in {"train": made[:40], "dev": made[40:]}.items():
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, part)), "utf-8")
    return {"name": "tag_lines", "train": str(folder / "train.jsonl"), "dev": str(folder / "dev.jsonl")}
