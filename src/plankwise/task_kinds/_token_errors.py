"""Where two taggers err: entities of each type, or words of each tag where tags mark none, and the texts that lost some.

Each right entity is found, or has a wrong border (one of its type overlaps it), or a wrong type (one of another type has its
borders), or is missed. An entity that a model gives is invented if it is none of those: neither its borders are a right one's, nor
does it overlap one of its type.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from plankwise.data.tagged import Tagged
from plankwise.evaluation.entities import NOTHING, find_entities
from plankwise.evaluation.error_view import MOST_CASES, Case, ErrorView, Table, make_row, worst_first
from plankwise.evaluation.errors import count_cells

OF_ENTITIES = ("found", "wrong border", "wrong type", "missed", "invented")
OF_WORDS = ("right", "missed", "invented")
ALL = "all"

Found = list[tuple[str, str, tuple]]  # type or tag, outcome, and what it is the outcome of
Tags = Sequence[Sequence[str]]  # of the words of each text


def compare_tags(texts: Sequence[Tagged], before: Tags, after: Tags, *, entities: bool) -> ErrorView:
    """The view of two taggers; of entities, or of words."""
    judge, outcomes = (judge_entities, OF_ENTITIES) if entities else (judge_words, OF_WORDS)
    judged = [[judge(ours, text.tags) for ours, text in zip(tags, texts, strict=True)] for tags in (before, after)]
    right = [[{what for _, outcome, what in found if outcome == outcomes[0]} for found in some] for some in judged]
    lost = [sorted(ours - theirs) for ours, theirs in zip(*right, strict=True)]
    rows = worst_first(np.array([len(some) for some in lost]))
    cases = [
        Case(
            row,
            _name_lost(texts[row], lost[row], entities=entities),
            [
                ("text", " ".join(texts[row].words)),
                ("right", _show(texts, texts[row].tags, row, before, after, entities)),
            ],
            [_show(texts, before[row], row, before, after, entities)],
            [_show(texts, after[row], row, before, after, entities)],
        )
        for row in rows[:MOST_CASES]
    ]
    what = "entities" if entities else "words"
    return ErrorView(
        kind="tokens",
        examples=len(texts),
        unit="texts",
        note=_explain(entities=entities),
        tables=[_tabulate(judged, outcomes, entities=entities)],
        cells=_count_right(judged, outcomes),
        cells_of=f"{what} in the data",
        cases=cases,
        cases_title=f"Texts where the successor lost {what} that the predecessor had right",
        cases_total=len(rows),
    )


def judge_entities(given: Sequence[str], right: Sequence[str]) -> Found:
    """The outcome of each entity of a text that is there, and those that are invented."""
    ours, theirs = find_entities(given), find_entities(right)
    found: Found = [(one[0], _judge(one, ours), one) for one in sorted(theirs)]
    invented = [one for one in sorted(ours) if _judge(one, theirs) == "missed"]
    return found + [(one[0], "invented", one) for one in invented]


def _judge(entity: tuple[str, int, int], others: set[tuple[str, int, int]]) -> str:
    kind, first, last = entity
    if entity in others:
        return "found"
    if any((begin, end) == (first, last) for _, begin, end in others):
        return "wrong type"
    overlaps = any(other == kind and begin <= last and first <= end for other, begin, end in others)
    return "wrong border" if overlaps else "missed"


def judge_words(given: Sequence[str], right: Sequence[str]) -> Found:
    """The outcome of each word of a text; a wrong one is missed for its tag, and invented for the one that it was given."""
    found: Found = []
    for place, (ours, theirs) in enumerate(zip(given, right, strict=True)):
        found.append((theirs, "right" if ours == theirs else "missed", (theirs, place, place)))
        if ours != theirs:
            found.append((ours, "invented", (ours, place, place)))
    return found


def _tabulate(judged: list[list[Found]], outcomes: Sequence[str], *, entities: bool) -> Table:
    counts = [Counter((kind, outcome) for found in some for kind, outcome, _ in found) for some in judged]
    of = Counter(kind for found in judged[0] for kind, outcome, _ in found if outcome != "invented")
    kinds = sorted({kind for some in counts for kind, _ in some}, key=lambda kind: (-of[kind], kind))
    everything = ([sum(some[kind, outcome] for kind in kinds) for outcome in outcomes] for some in counts)
    rows = [make_row(ALL, everything, of.total())]
    rows += [
        make_row(kind, ([some[kind, outcome] for outcome in outcomes] for some in counts), of[kind]) for kind in kinds
    ]
    title = "Entities of each type" if entities else "Words of each tag"
    return Table(title, "type" if entities else "tag", [(name, "count") for name in outcomes], rows, "in the data")


def _count_right(judged: list[list[Found]], outcomes: Sequence[str]) -> dict[str, int]:
    before, after = (
        np.array(
            [outcome == outcomes[0] for found in some for _, outcome, _ in found if outcome != "invented"], dtype=bool
        )
        for some in judged
    )
    return count_cells(before, after)


def _name_lost(text: Tagged, lost: list[tuple], *, entities: bool) -> str:
    named = [
        f"{' '.join(text.words[first : last + 1])} ({kind})"
        for kind, first, last in sorted(lost, key=lambda one: one[1:])
    ]
    return f"lost: {', '.join(named)}"


def _show(texts: Sequence[Tagged], tags: Sequence[str], row: int, before: Tags, after: Tags, entities: bool) -> str:
    """The words of a text that matter, each with its tag: those of entities, or those that are tagged otherwise by one of them."""
    shown, gap = [], False
    for place, (word, tag) in enumerate(zip(texts[row].words, tags, strict=True)):
        three = {texts[row].tags[place], before[row][place], after[row][place]}
        matters = three != {NOTHING} if entities else len(three) > 1
        if matters:
            shown.append(f"{word}/{tag}")
        elif not gap:
            shown.append("…")
        gap = not matters
    return " ".join(shown)


def _explain(*, entities: bool) -> str:
    if not entities:
        return "A word whose tag is wrong is missed for its right tag, and invented for the one that it was given."
    return (
        "Found: type and borders are right. Wrong border: an entity of the type overlaps it. Wrong type: another type has its "
        "borders. Missed: neither. Invented: what a model gives that is none of these."
    )
