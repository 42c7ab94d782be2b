"""Writes what the runs on kinds of task need from public files, as the tasks read it.

    python evidence/prepare.py sentences wiki.train.raw texts.txt --most 11000
    python evidence/prepare.py retrieval xquad.en.json xquad-retrieval
    python evidence/prepare.py ranking xquad.en.json xquad-ranking

`sentences`: sentences of WikiText, one a line, in a random order. `retrieval`: which paragraph answers a question, in BEIR's
layout. `ranking`: pairs of a question and each paragraph of its article, 1 for the right one; every fifth article is dev.
"""

import argparse
import csv
import json
import random
import re
from pathlib import Path


def write_sentences(source: Path, target: Path, most: int) -> None:
    """Sentences of 5 to 60 words; headings are left out."""
    found: dict[str, None] = {}
    for line in source.read_text("utf-8").splitlines():
        if line.strip() and not line.strip().startswith("="):
            text = line.strip().replace(" @-@ ", "-").replace(" @,@ ", ",").replace(" @.@ ", ".")
            for sentence in re.split(r"(?<=[.!?]) (?=[A-Z\"])", text):
                if 5 <= len(sentence.split()) <= 60:
                    found.setdefault(sentence)
    sentences = list(found)
    random.Random(0).shuffle(sentences)
    target.write_text("\n".join(sentences[:most]) + "\n", "utf-8")


def read_articles(source: Path) -> list[list[tuple[str, list[str]]]]:
    """By article, its paragraphs with their questions."""
    return [
        [(part["context"], [one["question"] for one in part["qas"]]) for part in article["paragraphs"]]
        for article in json.loads(source.read_text("utf-8"))["data"]
    ]


def write_retrieval(source: Path, folder: Path) -> None:
    """All paragraphs are the corpus, and each question has one that answers it."""
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    corpus, queries, qrels = [], [], ["query-id\tcorpus-id\tscore"]
    for text, questions in [part for article in read_articles(source) for part in article]:
        corpus.append({"_id": f"d{len(corpus)}", "title": "", "text": text})
        for question in questions:
            queries.append({"_id": f"q{len(queries)}", "text": question})
            qrels.append(f"{queries[-1]['_id']}\t{corpus[-1]['_id']}\t1")
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    (folder / "qrels/test.tsv").write_text("\n".join(qrels) + "\n", "utf-8")


def write_ranking(source: Path, folder: Path) -> None:
    """train.csv and dev.csv: query, text, score."""
    folder.mkdir(parents=True, exist_ok=True)
    articles = read_articles(source)
    for name, some in (("dev", articles[::5]), ("train", [one for at, one in enumerate(articles) if at % 5])):
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["query", "text", "score"])
            for article in some:
                for right, questions in article:
                    rows.writerows(
                        [question, text, int(text == right)] for question in questions for text, _ in article
                    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("sentences", "retrieval", "ranking"))
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--most", type=int, default=11000, help="sentences")
    arguments = parser.parse_args()
    if arguments.what == "sentences":
        write_sentences(arguments.source, arguments.target, arguments.most)
    else:
        {"retrieval": write_retrieval, "ranking": write_ranking}[arguments.what](arguments.source, arguments.target)


if __name__ == "__main__":
    main()
