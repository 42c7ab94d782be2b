"""A few queries with texts, for the contract of every kind of task: of a query's texts, those with a good word are relevant."""

from collections.abc import Sequence
from pathlib import Path

GOOD, BAD = ("fine", "great", "lovely", "superb"), ("dull", "awful", "boring", "weak")
FILLERS = ("a", "the", "film", "plot", "actor", "scene", "is", "was", "and", "very", "end", "music")


def pairs(queries: Sequence[int]) -> list[tuple[str, str, int]]:
    """Four texts for each query, the relevant one somewhere among them."""
    made = []
    for index in queries:
        query = " ".join(FILLERS[index // 12**power % 12] for power in range(2))
        for place in range(4):
            words = GOOD if place == index % 4 else BAD
            made.append(
                (query, f"{FILLERS[(index + place) % 12]} {words[(index // 4 + place) % 4]}", int(words is GOOD))
            )
    return made


def triples(queries: Sequence[int]) -> list[tuple[str, str, str]]:
    """The relevant text of each query with each of the others."""
    made = pairs(queries)
    return [
        (query, next(text for other, text, score in made if other == query and score), text)
        for query, text, score in made
        if not score
    ]


def write(path: Path, columns: str, rows: Sequence[tuple]) -> Path:
    path.write_text("\n".join([columns, *(",".join(map(str, row)) for row in rows)]) + "\n", "utf-8")
    return path


def section(folder: Path) -> dict:
    """Writes the examples, and gives the [task] section that reads them."""
    train = write(folder / "train.csv", "query,text,score", pairs(range(30)))
    dev = write(folder / "dev.csv", "query,text,score", pairs(range(30, 46)))
    return {"name": "ranking", "train": str(train), "dev": str(dev)}
