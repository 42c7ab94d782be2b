"""Queries with texts: pairs with a score or triples to train on, and by query the texts that a model is to put in order."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plankwise.data.clean import Dropped, clean
from plankwise.data.mapped import pick
from plankwise.data.pieces import Layout
from plankwise.data.quotes import Tell
from plankwise.data.retrieval import Retrieval
from plankwise.data.tables import encode_numbers, read_table
from plankwise.errors import DataError

Gains = Mapping[str, Mapping[str, float]]  # by query, then by text


@dataclass(frozen=True)
class Candidates:
    """The texts of each query, those of one query in neighbouring rows; every query has one that a good order shows."""

    queries: tuple[str, ...]
    texts: tuple[str, ...]
    bounds: np.ndarray  # (Q + 1,): query q has the rows from bounds[q] to bounds[q + 1]
    gains: np.ndarray  # (N,): how relevant; 0 for what is not
    missing: tuple[
        tuple[float, ...], ...
    ]  # of each query, the gains of relevant texts that are not among its candidates

    def table(self) -> pa.Table:
        """A row for each candidate: `text` is the query, `text_pair` the text."""
        counts = np.diff(self.bounds)
        queries = [query for query, count in zip(self.queries, counts.tolist(), strict=True) for _ in range(count)]
        return pa.table({"text": queries, "text_pair": list(self.texts)})

    def rows(self, query: int) -> slice:
        return slice(int(self.bounds[query]), int(self.bounds[query + 1]))

    def take(self, queries: Sequence[int] | np.ndarray) -> "Candidates":
        """Those of some queries, in the order asked for."""
        some = [(self.rows(query), query) for query in map(int, queries)]
        return Candidates(
            tuple(self.queries[query] for _, query in some),
            tuple(text for rows, _ in some for text in self.texts[rows]),
            np.cumsum([0, *(rows.stop - rows.start for rows, _ in some)]),
            np.concatenate([np.zeros(0), *(self.gains[rows] for rows, _ in some)]),
            tuple(self.missing[query] for _, query in some),
        )


@dataclass(frozen=True)
class Left:
    """Queries that were left out, since any order of their texts is as good."""

    irrelevant: int  # no text is relevant
    alike: int  # all texts are as relevant
    empty: int  # there are no candidates


def read_pairs(path: str, columns: Sequence[str], layout: Layout, *, key: str, tell: Tell) -> tuple[pa.Table, Dropped]:
    """Pairs with a score, cleaned: `text` is the query, `text_pair` the text, `label` the score; `columns` are theirs.

    Raises:
        DataError: the file cannot be used; says which line.
    """
    place = Path(path).expanduser()
    table = read_table(place, columns, layout, key=key, tell=tell)
    scores = encode_numbers(table[columns[2]], place, layout, "is not a finite number; fix it, or take the row out")
    named = pa.table({"text": table[columns[0]], "text_pair": table[columns[1]], "label": scores})
    kept, dropped = clean(named)
    return pick(named, kept), dropped


def read_triples(
    path: str, columns: Sequence[str], layout: Layout, *, key: str, tell: Tell
) -> tuple[pa.Table, Dropped]:
    """Triples as two neighbouring rows of the same table, the better text first: scores of 1 and 0.

    Dropped are triples with an empty text, with the same text on both sides, and those that occur before.

    Raises:
        DataError: the file cannot be used.
    """
    table = read_table(Path(path).expanduser(), columns, layout, key=key, tell=tell)
    rows = list(zip(*(table[name].to_pylist() for name in columns), strict=True))
    filled = [row for row in rows if all(text.strip() for text in row)]
    apart = [row for row in filled if row[1] != row[2]]
    kept = list(dict.fromkeys(apart))
    dropped = Dropped(len(rows) - len(filled), len(filled) - len(apart), len(apart) - len(kept))
    queries = [query for query, _, _ in kept for _ in range(2)]
    texts = [text for _, *both in kept for text in both]
    labels = pa.array([1.0, 0.0] * len(kept), pa.float64())
    return pa.table(
        {"text": pa.array(queries, pa.string()), "text_pair": pa.array(texts, pa.string()), "label": labels}
    ), dropped


def gains_of(table: pa.Table) -> dict[str, dict[str, float]]:
    """The scores of pairs by query and text, those below 0 as 0; of a text that occurs twice, the highest."""
    found: dict[str, dict[str, float]] = {}
    columns = (table[name].to_pylist() for name in ("text", "text_pair", "label"))
    for query, text, score in zip(*columns, strict=True):
        own = found.setdefault(query, {})
        own[text] = max(own.get(text, 0.0), score)
    return found


def gather(gains: Gains) -> tuple[Candidates, Left]:
    """The candidates of queries, and how many queries are left out."""
    rows = [(query, tuple(texts), tuple(texts.values()), ()) for query, texts in gains.items()]
    return _keep(rows)


def gather_from(
    retrieval: Retrieval, chosen: Sequence[Sequence[int]] | None, negatives: int, seed: int
) -> tuple[Candidates, Left]:
    """The candidates of judged queries: those chosen, by rows of the corpus; or the judged ones and others drawn by the seed.

    `negatives`: how many others for each query.
    """
    rows = []
    for query, (relevant, irrelevant) in enumerate(zip(retrieval.relevant, retrieval.irrelevant, strict=True)):
        if chosen is None:
            judged = list(dict.fromkeys([*relevant, *irrelevant]))
            documents = [
                *judged,
                *_draw(len(retrieval.corpus), set(judged), negatives, np.random.default_rng([seed, query])),
            ]
        else:
            documents = list(chosen[query])
        there = set(documents)
        rows.append(
            (
                retrieval.queries[query],
                tuple(retrieval.corpus[row] for row in documents),
                tuple(relevant.get(row, 0.0) for row in documents),
                tuple(gain for row, gain in relevant.items() if row not in there),
            )
        )
    return _keep(rows)


def _draw(count: int, without: set[int], wanted: int, random: np.random.Generator) -> list[int]:
    """So many different numbers below `count`, none of those `without`; fewer if there are no more."""
    drawn = random.choice(count, size=min(count, wanted + len(without)), replace=False)
    return [row for row in drawn.tolist() if row not in without][:wanted]


def _keep(rows: Iterable[tuple[str, tuple[str, ...], tuple[float, ...], tuple[float, ...]]]) -> tuple[Candidates, Left]:
    """Of queries with their texts, gains and missing gains, those whose order matters."""
    kept, irrelevant, alike, empty = [], 0, 0, 0
    for row in rows:
        _, texts, gains, missing = row
        if max(*gains, *missing, 0.0, 0.0) <= 0:
            irrelevant += 1
        elif not texts:
            empty += 1
        elif not missing and len(set(gains)) == 1:
            alike += 1
        else:
            kept.append(row)
    found = Candidates(
        queries=tuple(query for query, _, _, _ in kept),
        texts=tuple(text for _, texts, _, _ in kept for text in texts),
        bounds=np.cumsum([0, *(len(texts) for _, texts, _, _ in kept)]),
        gains=np.array([gain for _, _, gains, _ in kept for gain in gains], dtype=np.float64),
        missing=tuple(missing for _, _, _, missing in kept),
    )
    return found, Left(irrelevant, alike, empty)


def split_queries(queries: Sequence[str], share: float, random: np.random.Generator) -> set[str]:
    """The share of different queries that becomes dev, drawn.

    Raises:
        DataError: there is only one.
    """
    names = list(dict.fromkeys(queries))
    if len(names) < 2:
        raise DataError("train has 1 query, too few to split dev off; add queries, or give task.dev")
    count = min(max(1, round(len(names) * share)), len(names) - 1)
    return {names[row] for row in random.permutation(len(names))[:count].tolist()}


def with_queries(table: pa.Table, queries: Iterable[str]) -> np.ndarray:
    """Which rows (N,) of a table of pairs have one of the queries."""
    wanted = pa.array(list(queries), pa.string())
    found = [pc.is_in(chunk, value_set=wanted).to_numpy(zero_copy_only=False) for chunk in table["text"].chunks]
    return np.concatenate([np.zeros(0, dtype=bool), *found])
