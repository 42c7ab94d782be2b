"""Which rows of a table lead: the best one, and all that nothing measured tells from it."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from plankwise.report.text import is_number

ALPHA = 0.05  # the level of the comparison's paired test
SIGNIFICANT = 1.96  # standard errors


def lead_by_test(rows: Sequence[Mapping[str, Any]]) -> set[int]:
    """The rows of a comparison that lead, by their places: each has a `median`, and `difference` and `p` to the best baseline.

    Those that are shown to be better than the baseline lead; if there are none, those that are not shown to differ from it:
    the others, and rows without a p, which are the baseline itself or could not be tested. A row whose median is the highest, or
    equal to it, leads in any case.
    """
    known = {index: row for index, row in enumerate(rows) if is_number(row.get("median"))}
    if not known:
        return set()
    top = max(row["median"] for row in known.values())
    best = {index for index, row in known.items() if is_same(row["median"], top)}
    tested = {index: row for index, row in known.items() if is_number(row.get("p"))}
    better = {index for index, row in tested.items() if row["p"] < ALPHA and row["difference"] > 0}
    alike = {index for index in known if index not in tested or known[index]["p"] >= ALPHA} if tested else set()
    return best | better if better else best | alike if best & alike else best


def lead_by_seeds(scores: Sequence[Sequence[float]], middles: Sequence[float | None]) -> set[int]:
    """The rows that lead where nothing was tested: those whose scores over the seeds overlap with the best row's.

    A row with one seed has no range, so that nothing tells it from the others.
    """
    known = {index: middle for index, middle in enumerate(middles) if is_number(middle)}
    if not known:
        return set()
    top = max(known, key=known.__getitem__)
    if any(len(scores[index]) < 2 for index in known):
        return set(known)
    return {index for index in known if max(scores[index]) >= min(scores[top]) or is_same(known[index], known[top])}


def lead_by_error(
    values: Sequence[float | None], errors: Sequence[float | None], *, lower: bool = False, places: int = 4
) -> set[int]:
    """The rows that lead by one measurement each, with its standard error if that is known: those within it of the best.

    Without an error those that are the best one's equal with as many places as are shown.
    """
    known = {index: value for index, value in enumerate(values) if is_number(value)}
    if not known:
        return set()
    top = (min if lower else max)(known, key=known.__getitem__)

    def ties(index: int) -> bool:
        one, other = errors[index], errors[top]
        gap = 0.0 if one is None or other is None else SIGNIFICANT * math.hypot(one, other)
        return is_same(known[index], known[top], places) or abs(known[index] - known[top]) < gap

    return {index for index in known if ties(index)}


def is_same(one: float, other: float, places: int = 4) -> bool:
    """Whether both are shown as the same number."""
    return f"{one:.{places}f}" == f"{other:.{places}f}"


def listed(names: Sequence[str], most: int = 4) -> str:
    """Names as a sentence has them: a, b and c."""
    shown = list(names) if len(names) <= most else [*names[: most - 1], f"{len(names) - most + 1} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
