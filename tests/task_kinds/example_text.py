"""A few documents, for the contract of every kind of task."""

from pathlib import Path


def section(folder: Path) -> dict:
    """Writes the examples, and gives the [task] section that reads them."""
    words = ("a", "the", "film", "plot", "actor", "scene", "is", "was")
    lines = [" ".join(words[(index * step) % 8] for step in range(1, 12)) for index in range(80)]
    lines = [f"{words[index % 8]} {words[index // 8 % 8]} {line}" for index, line in enumerate(lines)]
    (folder / "text.txt").write_text("\n".join(lines), "utf-8")
    return {"name": "text", "path": str(folder / "text.txt"), "dev_share": 0.3}
