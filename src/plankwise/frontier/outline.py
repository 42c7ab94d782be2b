"""Which points are worth having: those that no other beats in everything, and the fastest and smallest within a tolerance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]  # a point as table.json has it


def mark_frontier(rows: Sequence[Row], cost: str) -> list[bool]:
    """For each row whether no other beats it: is cheaper with no lower score, or as cheap with a higher one."""

    def beats(one: Row, other: Row) -> bool:
        return (
            one[cost] <= other[cost]
            and one["score"] >= other["score"]
            and (one[cost] < other[cost] or one["score"] > other["score"])
        )

    known = [row for row in rows if row[cost] is not None]
    return [row[cost] is not None and not any(beats(one, row) for one in known) for row in rows]


def choose(rows: Sequence[Row], cost: str, tolerance: float) -> Row | None:
    """The cheapest row that keeps all but `tolerance` of the predecessor's score on the half of dev that chooses, or on all of
    dev where its halves have no scores."""

    def kept(row: Row) -> float:
        return (row["kept"] or 0.0) if row["kept_halves"] is None else row["kept_halves"][0]

    fitting = [row for row in rows if row[cost] is not None and kept(row) >= 1 - tolerance]
    return min(fitting, key=lambda row: row[cost], default=None)
