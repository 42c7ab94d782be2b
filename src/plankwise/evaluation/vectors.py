"""How good the vectors of texts are: agreement with another model's, similarity as people see it (STS), retrieval.

All of it by cosine. The nearest neighbours of a text are those among the other texts given.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.stats import spearmanr

NEIGHBOURS = 10
MOST_PAIRED = 1000  # texts whose similarities are compared in pairs: half a million pairs
ROWS = 1024  # whose similarities to all others are in memory at once
RECALLS = (1, 10, 100)


def unit(vectors: np.ndarray) -> np.ndarray:
    """The vectors (N, D) divided by their lengths, float32; a vector of zeros stays one."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.maximum(lengths, 1e-12)).astype(np.float32)


def mean_cosine(vectors: np.ndarray, reference: np.ndarray) -> float:
    """Of each text's two vectors."""
    return float(np.einsum("nd,nd->n", unit(vectors), unit(reference)).mean())


def compare_pairs(vectors: np.ndarray, reference: np.ndarray) -> float:
    """Spearman's correlation of the similarities that two models see in all pairs of texts, of the first MOST_PAIRED."""
    ours, theirs = (unit(one[:MOST_PAIRED]) for one in (vectors, reference))
    above = np.triu_indices(len(ours), 1)
    return correlate((ours @ ours.T)[above], (theirs @ theirs.T)[above])


def correlate(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's correlation; 0 where one of the two is constant, or there is nothing to rank."""
    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    return float(spearmanr(first, second).statistic)


def find_neighbours(vectors: np.ndarray, count: int = NEIGHBOURS) -> np.ndarray:
    """The nearest other texts of each text, (N, count) row numbers, the nearest first; fewer if there are no more."""
    found = unit(vectors)
    count = min(count, len(found) - 1)
    nearest = np.empty((len(found), count), dtype=np.int64)
    for start in range(0, len(found), ROWS):
        similar = found[start : start + ROWS] @ found.T
        rows = np.arange(len(similar))
        similar[rows, start + rows] = -np.inf  # a text is not its own neighbour
        nearest[start : start + ROWS] = _highest(similar, count)
    return nearest


def share_kept(neighbours: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """The share of each text's neighbours (N, count) that it has by the reference, too, (N,)."""
    return (neighbours[:, :, None] == reference[:, None, :]).any(2).mean(1)


def score_similarity(vectors: np.ndarray, pairs: np.ndarray, scores: np.ndarray) -> float:
    """Spearman's correlation of the cosine of pairs (P, 2), row numbers of `vectors`, with how alike people find them (P,)."""
    found = unit(vectors)
    return correlate(np.einsum("nd,nd->n", found[pairs[:, 0]], found[pairs[:, 1]]), scores)


def score_retrieval(
    queries: np.ndarray, corpus: np.ndarray, relevant: Sequence[Mapping[int, float]]
) -> dict[str, float]:
    """nDCG@10 and recall@k of documents ranked by cosine, each a mean over the queries.

    `relevant` has for each query the gains of its documents, by row number; those of a gain of 0 are not relevant. Gains count
    as they are, divided by log2(rank + 1).
    """
    queries, corpus = unit(queries), unit(corpus)
    ks = [k for k in RECALLS if k == 1 or k <= len(corpus)]
    totals = dict.fromkeys(["ndcg@10", *(f"recall@{k}" for k in ks)], 0.0)
    for start in range(0, len(queries), ROWS):
        ranked = _highest(queries[start : start + ROWS] @ corpus.T, min(len(corpus), max(10, *ks)))
        for row, gains in zip(ranked, relevant[start : start + ROWS], strict=True):
            wanted = {document: gain for document, gain in gains.items() if gain > 0}
            totals["ndcg@10"] += _ndcg([wanted.get(int(document), 0.0) for document in row[:10]], list(wanted.values()))
            for k in ks:
                totals[f"recall@{k}"] += sum(int(document) in wanted for document in row[:k]) / len(wanted)
    return {name: total / len(queries) for name, total in totals.items()}


def _ndcg(gains: list[float], all_gains: list[float]) -> float:
    """The discounted gains of a ranking over those of the best one, of the first ten."""
    best = sorted(all_gains, reverse=True)[:10]
    found, most = (sum(gain / np.log2(rank + 2) for rank, gain in enumerate(some) if gain) for some in (gains, best))
    return float(found / most)


def _highest(values: np.ndarray, count: int) -> np.ndarray:
    """The places of the highest values of each row, the highest first; of equals the earlier."""
    if count < values.shape[1] // 4:
        some = np.sort(np.argpartition(-values, count - 1, axis=1)[:, :count], axis=1)
        order = np.argsort(-np.take_along_axis(values, some, 1), axis=1, kind="stable")
        return np.take_along_axis(some, order, 1)
    return np.argsort(-values, axis=1, kind="stable")[:, :count]
