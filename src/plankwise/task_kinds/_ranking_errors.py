"""Which queries lose by the successor: where each one's best relevant text stood before, and stands after."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from scipy.stats import kendalltau, rankdata

from plankwise.analysis_options import AnalysisOptions
from plankwise.data.ranking import Candidates
from plankwise.errors import ConfigError
from plankwise.evaluation.errors import MODELS
from plankwise.evaluation.ranking import TOLERANCE, score_rankings
from plankwise.runtimes import Predictor
from plankwise.task_kinds import ErrorRequest
from plankwise.task_kinds._ranking_examples import DEV

if TYPE_CHECKING:
    from plankwise.task_kinds.ranking import Ranking

MOST = 50  # queries that are listed


def find_errors(
    task: "Ranking",
    open_model: Callable[[str], Predictor],
    options: AnalysisOptions,
    request: ErrorRequest,
    console: Console,
) -> dict:
    """How many queries rank better and worse, how alike both orders are, and the queries whose best text fell furthest.

    Raises:
        ConfigError: errors are to be labelled, but an order is not right or wrong.
    """
    if request.sample or request.labels:
        raise ConfigError(
            "the run's task is on rankings, so no answer is right or wrong; leave --sample and --labels out"
        )
    console.print(f"errors: both models rank the texts of {len(task.candidates.queries)} dev queries")
    scores = [task.outputs(open_model(name))[DEV] for name in MODELS]
    return compare_rankings(task.candidates, *scores, keep_texts=options.texts)


def compare_rankings(candidates: Candidates, before: np.ndarray, after: np.ndarray, *, keep_texts: bool = True) -> dict:
    """The same of both models' scores (N,). Texts with the same score share the mean of their ranks.

    `agreement` is Kendall's tau-b, the mean over the queries where neither model gives all texts one score.
    """
    changes = score_rankings(after, candidates)[:, 0] - score_rankings(before, candidates)[:, 0]
    rows, taus = [], []
    for query in range(len(candidates.queries)):
        own = candidates.rows(query)
        ranks = [rankdata(-scores[own]) for scores in (before, after)]
        if all(np.ptp(some) > 0 for some in ranks):
            taus.append(float(kendalltau(*ranks).statistic))
        if (candidates.gains[own] > 0).any():
            rows.append(_describe(candidates, query, *ranks, keep_texts=keep_texts))
    fallen = sorted((row for row in rows if row["after"] > row["before"]), key=lambda row: row["before"] - row["after"])
    return {
        "queries": len(candidates.queries),
        "better": int((changes > TOLERANCE).sum()),
        "worse": int((changes < -TOLERANCE).sum()),
        "agreement": float(np.mean(taus)) if taus else None,
        "fallen_total": len(fallen),
        "fallen": fallen[:MOST],
    }


def _describe(candidates: Candidates, query: int, before: np.ndarray, after: np.ndarray, *, keep_texts: bool) -> dict:
    """The ranks of a query's best relevant text: of those with the highest gain, the one that the predecessor ranks highest."""
    own = candidates.rows(query)
    gains, texts = candidates.gains[own], candidates.texts[own]
    best = min(np.flatnonzero(gains == gains.max()).tolist(), key=lambda row: before[row])
    found: dict[str, Any] = {
        "row": query,
        "texts": len(texts),
        "before": float(before[best]),
        "after": float(after[best]),
    }
    if keep_texts:
        found |= {"query": candidates.queries[query], "text": texts[best], "first": texts[int(after.argmin())]}
    return found
