"""A few texts, for the contract of every kind of task."""

from pathlib import Path


def section(folder: Path) -> dict:
    """Writes the examples, and gives the [task] section that reads them."""
    words = ("a", "the", "film", "plot", "actor", "scene", "is", "was", "fine", "dull")
    lines = [" ".join(words[(index // 10**power) % 10] for power in range(3)) for index in range(0, 1000, 7)]
    (folder / "texts.txt").write_text("\n".join(lines), "utf-8")
    return {"name": "embedding", "path": str(folder / "texts.txt"), "dev_share": 0.3}
