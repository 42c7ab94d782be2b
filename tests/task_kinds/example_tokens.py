"""A few tagged texts in CoNLL's form, for the contract of every kind of task: names of actors and films, some of two words."""

from pathlib import Path

FILLERS = ("a", "the", "is", "was", "and", "very")
NAMES = {"PER": ("actor", "actor great"), "WORK": ("film", "scene plot")}


def texts(count: int) -> list[list[tuple[str, str]]]:
    made = []
    for index in range(count):
        text = [(FILLERS[index % 6], "O"), (FILLERS[index // 6 % 6], "O")]
        for number, (kind, names) in enumerate(NAMES.items()):
            words = names[(index >> number) % 2].split()
            text += [(word, f"{'I' if place else 'B'}-{kind}") for place, word in enumerate(words)]
            text.append((FILLERS[index // 36 % 6], "O"))
        made.append(text)
    return made


def write(path: Path, some: list[list[tuple[str, str]]]) -> None:
    path.write_text("\n".join("".join(f"{word}\t{tag}\n" for word, tag in text) for text in some), "utf-8")


def section(folder: Path) -> dict:
    """Writes the examples, and gives the [task] section that reads them."""
    made = texts(70)
    write(folder / "train.conll", made[:50])
    write(folder / "dev.conll", made[50:])
    return {"name": "tokens", "train": str(folder / "train.conll"), "dev": str(folder / "dev.conll")}
