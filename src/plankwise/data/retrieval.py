"""Files that measure vectors: pairs of sentences with a score (STS), and queries with the documents that answer them (BEIR)."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from plankwise.errors import DataError

LAYOUT = "a folder in BEIR's layout: corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv"


@dataclass(frozen=True)
class Similarities:
    """Pairs of sentences in files; each file has a correlation of its own."""

    texts: list[str]
    files: dict[str, tuple[np.ndarray, np.ndarray]]  # by name: rows of the texts (P, 2), and scores (P,)


@dataclass(frozen=True)
class Retrieval:
    """Queries that have an answer, documents, and which of them answer which."""

    queries: list[str]
    corpus: list[str]
    relevant: list[dict[int, float]]  # for each query, the gains of documents by row
    irrelevant: list[list[int]]  # for each query, the rows of documents that were judged not to answer it
    query_ids: list[str]
    corpus_ids: list[str]


def read_similarities(path: str, key: str) -> Similarities:
    """The pairs of a tsv file, or of all in a folder: score, sentence, sentence, without a header.

    Raises:
        DataError: there is no such file, or a line is something else; says which.
    """
    place = Path(path).expanduser()
    files = sorted(place.glob("*.tsv")) if place.is_dir() else [place]
    if not files or not files[0].is_file():
        raise DataError(f"{key} is '{path}'; give a tsv file, or a folder of them: score, sentence, sentence")
    rows: dict[str, int] = {}  # each text is encoded once
    found = {}
    for file in files:
        pairs, scores = [], []
        for number, line in _lines(file, key):
            score, *sentences = line.split("\t")
            if len(sentences) < 2 or not _is_number(score):
                raise DataError(
                    f"{file.name} line {number} of {key}: a line is a score, a tab, a sentence, a tab and a sentence; fix it"
                )
            pairs.append([rows.setdefault(text.strip(), len(rows)) for text in sentences[:2]])
            scores.append(float(score))
        if len(set(scores)) < 2:
            raise DataError(
                f"{file.name} of {key} has fewer than two different scores; give a file that has, or leave it out"
            )
        found[file.stem] = (np.array(pairs), np.array(scores))
    return Similarities(list(rows), found)


def read_retrieval(path: str, split: str, key: str) -> Retrieval:
    """Queries, documents and judgements; a document's title stands before its text.

    Queries without a relevant document are left out, since nothing can be found for them.

    Raises:
        DataError: a file is not there, or a line is something else; says which.
    """
    folder = Path(path).expanduser()
    qrels = folder / "qrels" / f"{split}.tsv"
    for file in (folder / "corpus.jsonl", folder / "queries.jsonl", qrels):
        if not file.is_file():
            raise DataError(f"{key} is '{path}', which has no {file.relative_to(folder)}; give {LAYOUT}")
    corpus = _read_texts(folder / "corpus.jsonl", key)
    queries = _read_texts(folder / "queries.jsonl", key)
    rows = {name: row for row, name in enumerate(corpus)}
    judged: dict[str, dict[int, float]] = {}
    refused: dict[str, list[int]] = {}
    for number, text in _lines(qrels, key):
        line = [part.strip() for part in text.split("\t")]
        if number == 1 and len(line) == 3 and not _is_number(line[2]):
            continue  # the header
        if len(line) != 3 or not _is_number(line[2]):
            raise DataError(f"{qrels.name} line {number} of {key}: a line is a query, a document and a number; fix it")
        query, document, gain = line
        if query not in queries or document not in rows:
            missing = f"query {query!r}" if query not in queries else f"document {document!r}"
            raise DataError(f"{qrels.name} line {number} of {key}: there is no {missing}; take the line out, or add it")
        if float(gain) > 0:
            judged.setdefault(query, {})[rows[document]] = float(gain)
        else:
            refused.setdefault(query, []).append(rows[document])
    if not judged:
        raise DataError(f"{qrels.name} of {key} names no document that answers a query; give {LAYOUT}")
    return Retrieval(
        [queries[name] for name in judged],
        list(corpus.values()),
        list(judged.values()),
        [refused.get(name, []) for name in judged],
        list(judged),
        list(corpus),
    )


def read_candidates(path: str, retrieval: Retrieval, key: str) -> list[list[int]]:
    """For each query the rows of the documents that a first search found, in the order of the file.

    A line is a run's as TREC has it (query, Q0, document, rank, score, name), or a query and a document, with tabs or else blanks
    between. Queries that are not judged are passed over.

    Raises:
        DataError: the file cannot be read, or a line is something else; says which.
    """
    file = Path(path).expanduser()
    queries = {name: row for row, name in enumerate(retrieval.query_ids)}
    rows = {name: row for row, name in enumerate(retrieval.corpus_ids)}
    found: list[dict[int, None]] = [{} for _ in queries]
    for number, text in _lines(file, key):
        line = [part.strip() for part in text.split("\t")] if "\t" in text else text.split()
        if len(line) < 2:
            raise DataError(f"{file.name} line {number} of {key}: a line is a query and a document, or TREC's; fix it")
        query, document = (line[0], line[2]) if len(line) == 6 else line[:2]
        if query not in queries:
            continue
        if document not in rows:
            raise DataError(
                f"{file.name} line {number} of {key}: there is no document {document!r} in the corpus; take the line out"
            )
        found[queries[query]][rows[document]] = None
    if not any(found):
        raise DataError(f"{file.name} of {key} names no judged query of task.dev; give candidates for its queries")
    return [list(one) for one in found]


def _read_texts(file: Path, key: str) -> dict[str, str]:
    """The texts of a jsonl file by their ids."""
    found = {}
    for number, line in _lines(file, key):
        try:
            row = json.loads(line)
            found[str(row["_id"])] = " ".join(part for part in (row.get("title"), row["text"]) if part).strip()
        except (ValueError, KeyError, TypeError, AttributeError):
            raise DataError(
                f'{file.name} line {number} of {key}: a line is {{"_id": …, "title": …, "text": …}}; fix it'
            ) from None
    if not found:
        raise DataError(f"{file.name} of {key} has no lines; give {LAYOUT}")
    return found


def _lines(file: Path, key: str) -> list[tuple[int, str]]:
    """The lines that are not empty, with their numbers."""
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file.name} of {key} cannot be read ({error}); give a utf-8 file") from None
    return [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
