"""Where two translators err: chrF, lengths and repetitions by the length of the source, and the sentences whose chrF fell most."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from plankwise.data.parallel import Pair
from plankwise.evaluation.error_view import MOST_CASES, Case, ErrorView, Row, Table, make_row, worst_first
from plankwise.evaluation.errors import length_bins
from plankwise.evaluation.translations import score_sentences

STEPS = (0, 20, 40, 60, 80, 100)  # of chrF, in the table of how many sentences have how much
EMPTY = "(nothing)"


def compare_translations(pairs: Sequence[Pair], before: Sequence[str], after: Sequence[str]) -> ErrorView:
    """The view of what two models write for the same texts.

    Raises:
        MissingExtraError: sacrebleu is not installed.
    """
    references = [pair.target for pair in pairs]
    scores = [score_sentences(written, references) for written in (before, after)]
    rows = worst_first(scores[0] - scores[1])
    own = _share(*repetitions(references).sum(0))
    return ErrorView(
        kind="translation",
        examples=len(pairs),
        unit="texts",
        note=(
            "chrF: mean of the texts' own. Length: characters written for one of the right translation. Repeated: pairs of "
            f"neighbouring words that stood in the same text before; {own or 0:.1%} in the right translations."
        ),
        tables=[_by_length(pairs, scores, (before, after)), _by_score(scores)],
        cases=[
            Case(
                row,
                f"chrF {scores[0][row]:.1f} → {scores[1][row]:.1f}",
                [("source", pairs[row].source), ("right", pairs[row].target)],
                [before[row] or EMPTY],
                [after[row] or EMPTY],
            )
            for row in rows[:MOST_CASES]
        ],
        cases_title="Texts whose chrF fell most",
        cases_total=len(rows),
    )


def repetitions(texts: Sequence[str]) -> np.ndarray:
    """Of each text how many of its pairs of neighbouring words stood in it before, and how many there are, (N, 2)."""
    found = []
    for text in texts:
        words = text.split()
        pairs = list(pairwise(words))
        found.append((len(pairs) - len(set(pairs)), len(pairs)))
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def _by_length(pairs: Sequence[Pair], scores: Sequence[np.ndarray], written: Sequence[Sequence[str]]) -> Table:
    characters = np.array([len(pair.target) for pair in pairs])
    measured = [
        (score, np.array([len(text) for text in texts]), repetitions(texts))
        for score, texts in zip(scores, written, strict=True)
    ]

    def figures(chosen: np.ndarray) -> list[list[float | None]]:
        return [
            [
                float(score[chosen].mean()),
                _share(lengths[chosen].sum(), characters[chosen].sum()),
                _share(*again[chosen].sum(0)),
                int((lengths[chosen] == 0).sum()),
            ]
            for score, lengths, again in measured
        ]

    bins = length_bins([len(pair.source.split()) for pair in pairs])
    groups = [("all", np.ones(len(pairs), dtype=bool)), *((_range(low, high), chosen) for low, high, chosen in bins)]
    return Table(
        "By words of the source",
        "words",
        [("chrF", "number"), ("length", "number"), ("repeated", "share"), ("empty", "count")],
        [make_row(name, figures(chosen), int(chosen.sum())) for name, chosen in groups],
        "texts",
    )


def _by_score(scores: Sequence[np.ndarray]) -> Table:
    counts = [np.histogram(some, STEPS)[0].tolist() for some in scores]
    names = [f"{low}–{high}" for low, high in pairwise(STEPS)]
    rows = [Row(name, [first], [second]) for name, first, second in zip(names, *counts, strict=True)]
    return Table("Texts by their chrF", "chrF", [("texts", "count")], rows)


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}–{high}"


def _share(part: float, whole: float) -> float | None:
    return float(part / whole) if whole else None
