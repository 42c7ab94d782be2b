"""A few labelled texts, for the contract of every kind of task."""

from pathlib import Path


def section(folder: Path) -> dict:
    """Writes the examples, and gives the [task] section that reads them."""
    fillers = ("a", "the", "film", "plot", "actor", "scene", "is", "was")
    lines = [
        f"{fillers[index % 8]} {fillers[index // 8]} {('fine', 'dull')[index % 2]},{('positive', 'negative')[index % 2]}"
        for index in range(48)
    ]
    (folder / "labels.csv").write_text("\n".join(["text,label", *lines]), "utf-8")
    return {"name": "table", "train": str(folder / "labels.csv"), "text": "text", "label": "label"}
