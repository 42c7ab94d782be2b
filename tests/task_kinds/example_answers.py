"""A few questions in SQuAD's form, for the contract of every kind of task: "scene" asks for what stands behind "actor"."""

import json
from pathlib import Path

ASKED = {"actor": ("fine", "great", "lovely"), "plot": ("dull", "awful", "boring")}
FILLERS = ("a", "the", "film", "is", "was", "and")


def articles(count: int) -> list[dict]:
    """Articles of one paragraph each, with a question on each of two words; the answer stands right behind that word."""
    made = []
    for index in range(count):
        before, between = FILLERS[index % 6], FILLERS[index // 6 % 6]
        values = [words[index // 3**number % 3] for number, words in enumerate(ASKED.values())]
        pairs = list(zip(ASKED, values, strict=True))
        pairs = pairs if index % 2 else pairs[::-1]
        context = f"{before} {' '.join(pairs[0])} {between} {before} {' '.join(pairs[1])} {between}"
        qas = [
            {
                "id": f"{index}-{word}",
                "question": f"{word} is",
                "answers": [{"text": value, "answer_start": context.index(value)}],
            }
            for word, value in pairs
        ]
        made.append({"title": str(index), "paragraphs": [{"context": context, "qas": qas}]})
    return made


def write(path: Path, some: list[dict]) -> None:
    path.write_text(json.dumps({"version": "1.1", "data": some}), "utf-8")


def section(folder: Path) -> dict:
    """Writes the examples, and gives the [task] section that reads them."""
    made = articles(36)
    write(folder / "train.json", made[:28])
    write(folder / "dev.json", made[28:])
    return {
        "name": "answers",
        "train": str(folder / "train.json"),
        "dev": str(folder / "dev.json"),
        "longest_answer": 2,
    }
