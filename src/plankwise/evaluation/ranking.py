"""How good the order is that a model's scores put the texts of a query in: nDCG@10 and MRR@10, query by query.

Gains count as they are, divided by log2(rank + 1), over those of the best order of all relevant texts (Järvelin and Kekäläinen
2002); the reciprocal rank is that of the first relevant text, 0 if it is not among the first ten.

Texts with the same score have no order: each metric is then its mean over all orders of such texts (McSherry and Najork 2008), so
that nothing depends on the order of the input. A model that gives every text one score has what a random order has on average.
"""

import numpy as np
from scipy.stats import norm

from plankwise.data.ranking import Candidates
from plankwise.errors import RunError

CUT = 10
NDCG, MRR = f"ndcg@{CUT}", f"mrr@{CUT}"
ALPHA = 0.05
TOLERANCE = 1e-9  # two ways of adding up the same gains differ by less


def score_rankings(scores: np.ndarray, candidates: Candidates) -> np.ndarray:
    """nDCG@10 and MRR@10 of each query by the scores of all candidates (N,), (Q, 2).

    Raises:
        RunError: a score is not a finite number.
    """
    scores = np.asarray(scores, dtype=np.float64)
    if not np.isfinite(scores).all():
        raise RunError("the model's scores are not finite numbers; train it anew with a lower training.learning_rate")
    found = np.empty((len(candidates.queries), 2))
    for query, missing in enumerate(candidates.missing):
        rows = candidates.rows(query)
        found[query] = score_query(scores[rows], candidates.gains[rows], missing)
    return found


def score_query(scores: np.ndarray, gains: np.ndarray, missing: tuple[float, ...] = ()) -> tuple[float, float]:
    """nDCG@10 and MRR@10 of one query's texts; `missing`: gains of relevant texts that are not among them."""
    _, group, sizes = np.unique(-scores, return_inverse=True, return_counts=True)  # the highest score first
    mean_gain = np.bincount(group, gains) / sizes
    found = np.repeat(mean_gain, sizes)[:CUT] @ discounts(len(gains))[: min(CUT, len(gains))]
    relevant = np.bincount(group, gains > 0).astype(int)
    return float(found / best_gain(gains, missing)), _reciprocal_rank(sizes.tolist(), relevant.tolist())


def _reciprocal_rank(sizes: list[int], relevant: list[int]) -> float:
    """The mean over all orders inside groups of equals, of so many texts and relevant ones; the best group first."""
    ahead = 0
    for size, wanted in zip(sizes, relevant, strict=True):
        if wanted == 0:
            ahead += size
            continue
        chance, total = wanted / size, 0.0  # that the first relevant one is at this place of the group
        for place in range(1, min(size - wanted + 1, CUT - ahead) + 1):
            total += chance / (ahead + place)
            chance *= (size - place - wanted + 1) / max(1, size - place)
        return total
    return 0.0


def discounts(count: int) -> np.ndarray:
    """What a text's gain is multiplied by at each of so many ranks; nothing after the tenth."""
    ranks = np.arange(count)
    return np.where(ranks < CUT, 1 / np.log2(ranks + 2), 0.0)


def best_gain(gains: np.ndarray, missing: tuple[float, ...] = ()) -> float:
    """The discounted gains of the best order of all relevant texts."""
    best = np.sort(np.concatenate([gains, np.array(missing, dtype=np.float64)]))[::-1]
    return float(best @ discounts(len(best)))


def score_at_random(candidates: Candidates) -> tuple[np.ndarray, np.ndarray]:
    """The mean and the variance of each query's nDCG@10 over all orders of its texts, (Q,) each.

    Of the sum of products of gains with discounts that are put in a random order (Hoeffding 1951).
    """
    means, variances = np.empty(len(candidates.queries)), np.zeros(len(candidates.queries))
    for query, missing in enumerate(candidates.missing):
        gains = candidates.gains[candidates.rows(query)]
        weights, best = discounts(len(gains)), best_gain(gains, missing)
        means[query] = gains.mean() * weights.sum() / best
        if len(gains) > 1:
            spread = gains.var() * len(gains) * weights.var() * len(gains)
            variances[query] = spread / (len(gains) - 1) / best**2
    return means, variances


def beyond_random(ndcg: np.ndarray, candidates: Candidates) -> dict:
    """What the record says of whether a model with this nDCG@10 by query (Q,) is better than a random order.

    A one-sided test by the mean and the variance of random orders, as if their mean over queries were normal.
    """
    means, variances = score_at_random(candidates)
    spread = float(np.sqrt(variances.sum()))
    p = float(norm.sf((ndcg - means).sum() / spread)) if spread > 0 else 1.0
    return {
        "constant": "one score, which is a random order",
        "constant_score": float(means.mean()),
        "answered": None,
        "most_answered": None,
        "most_answered_share": None,
        "p": p,
        "shown": p < ALPHA,
    }
