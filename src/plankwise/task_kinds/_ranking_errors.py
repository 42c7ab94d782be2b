"""Which queries lose by the successor: where each one's best relevant text stood before, and stands after."""

from typing import NamedTuple

import numpy as np
from scipy.stats import kendalltau, rankdata

from plankwise.data.ranking import Candidates
from plankwise.evaluation.error_view import MOST_CASES, Case, ErrorView, Row, Table, worst_first
from plankwise.evaluation.ranking import TOLERANCE, score_rankings

PLACES = (1, 3, 10)  # the best text is among so many


class Best(NamedTuple):
    """The best relevant text of a query: of those with the highest gain, the one that the predecessor ranks highest."""

    query: int
    text: str
    ranks: tuple[float, float]  # before and after; texts with the same score share the mean of their ranks
    first: tuple[str, str]  # the text that each model puts first


def compare_rankings(candidates: Candidates, before: np.ndarray, after: np.ndarray) -> ErrorView:
    """The view of two models by their scores (N,) of all texts.

    The agreement is Kendall's tau-b, the mean over the queries where neither model gives all texts one score.
    """
    scores = [score_rankings(some, candidates)[:, 0] for some in (before, after)]
    changes, taus, found = scores[1] - scores[0], [], []
    for query in range(len(candidates.queries)):
        own = candidates.rows(query)
        ranks = [rankdata(-some[own]) for some in (before, after)]
        if all(np.ptp(some) > 0 for some in ranks):
            taus.append(float(kendalltau(*ranks).statistic))
        if (candidates.gains[own] > 0).any():
            found.append(_find_best(candidates, query, *ranks))
    rows = worst_first(np.array([one.ranks[1] - one.ranks[0] for one in found]))
    worse, better = ((change > TOLERANCE).sum() for change in (-changes, changes))
    agreement = f"is {np.mean(taus):.3f}" if taus else "cannot be told: a model gives all texts one score"
    return ErrorView(
        kind="ranking",
        examples=len(candidates.queries),
        unit="queries",
        note=(
            f"By nDCG {worse:,} queries rank worse and {better:,} better; how far both orders agree (Kendall's tau) "
            f"{agreement}. Texts with the same score share the mean of their ranks."
        ),
        tables=[_tabulate(found)],
        cases=[
            Case(
                found[row].query,
                f"from rank {found[row].ranks[0]:g} to {found[row].ranks[1]:g}",
                [("query", candidates.queries[found[row].query]), ("its best text", found[row].text)],
                *([f"first: {text}"] for text in found[row].first),
            )
            for row in rows[:MOST_CASES]
        ],
        cases_title="Queries whose best relevant text fell",
        cases_total=len(rows),
    )


def _find_best(candidates: Candidates, query: int, before: np.ndarray, after: np.ndarray) -> Best:
    own = candidates.rows(query)
    gains, texts = candidates.gains[own], candidates.texts[own]
    best = min(np.flatnonzero(gains == gains.max()).tolist(), key=lambda row: before[row])
    first = texts[int(before.argmin())], texts[int(after.argmin())]
    return Best(query, texts[best], (float(before[best]), float(after[best])), first)


def _tabulate(found: list[Best]) -> Table:
    ranks = np.array([one.ranks for one in found]).reshape(-1, 2)
    counts = [(f"among the first {place}" if place > 1 else "first", (ranks <= place).sum(0)) for place in PLACES]
    rows = [Row(name, [int(both[0])], [int(both[1])], len(found)) for name, both in counts]
    return Table(
        "Queries by where their best relevant text stands", "best text", [("queries", "count")], rows, "queries"
    )
