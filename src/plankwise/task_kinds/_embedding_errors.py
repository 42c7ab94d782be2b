"""What two sentence encoders disagree on: how many of its nearest neighbours each text keeps, and the texts that lose most."""

from collections.abc import Sequence

import numpy as np

from plankwise.evaluation.error_view import MOST_CASES, Case, ErrorView, Table, make_row, worst_first
from plankwise.evaluation.vectors import share_kept

SHOWN = 5  # neighbours of a text
CHARACTERS = 200  # of a neighbour


def compare_neighbours(texts: Sequence[str], reference: np.ndarray, before: np.ndarray, after: np.ndarray) -> ErrorView:
    """The view of two encoders by the neighbours (N, K) that each finds, and those that are to be found."""
    count = reference.shape[1]
    kept = [np.rint(share_kept(found, reference) * count).astype(int) for found in (before, after)]
    common = np.rint(share_kept(after, before) * count).astype(int)
    rows = worst_first(count - common)
    numbers = [[np.bincount(some, minlength=count + 1)[number] for some in kept] for number in range(count + 1)]
    means = [f"{some.mean() / count:.1%}" for some in kept]
    return ErrorView(
        kind="embedding",
        examples=len(texts),
        unit="texts",
        note=(
            f"A text's {count} nearest among all held-out texts. On average the predecessor has {means[0]} of those that are to be "
            f"found, the successor {means[1]}. Lost: no longer among the {count}; new: not among them before."
        ),
        tables=[
            Table(
                f"Texts by how many of {count} neighbours they keep",
                "neighbours kept",
                [("texts", "count")],
                [make_row(str(number), ([int(some)] for some in numbers[number])) for number in range(count, -1, -1)],
            )
        ],
        cases=[
            Case(
                row,
                f"{common[row]} of {count} neighbours kept",
                [("text", texts[row])],
                _show(texts, before[row], after[row], "lost"),
                _show(texts, after[row], before[row], "new"),
            )
            for row in rows[:MOST_CASES]
        ],
        cases_title=f"Texts whose neighbours changed most, with the nearest {min(SHOWN, count)}",
        cases_total=len(rows),
    )


def _show(texts: Sequence[str], own: np.ndarray, others: np.ndarray, otherwise: str) -> list[str]:
    known = set(others.tolist())
    return [
        f"{rank}. {'kept' if place in known else otherwise}: {_shorten(texts[place])}"
        for rank, place in enumerate(own[:SHOWN].tolist(), 1)
    ]


def _shorten(text: str) -> str:
    return text if len(text) <= CHARACTERS else f"{text[:CHARACTERS]}…"
