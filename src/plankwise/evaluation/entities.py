"""Entities in tagged words, by the definition of CoNLL's script and of seqeval's default mode (CoNLL 2000 shared task).

A tag is `O`, or a prefix (B, I, E, S) and a type: `B-location`. An entity is a type and a run of words. A word goes on with the
entity before it if its prefix is I or E, that of the word before is B or I, and their types are the same; any other word that is
not `O` begins one, a stray I, too. An entity is found if its type and both of its ends are right.
"""

from collections.abc import Sequence

import numpy as np

NOTHING = "O"
PREFIXES = ("B", "I", "E", "S")


def are_entities(tags: Sequence[str]) -> bool:
    """Whether tags mark entities: each is O, or a prefix and a type."""
    return any(tag != NOTHING for tag in tags) and all(
        tag == NOTHING or (tag[:1] in PREFIXES and tag[1:2] == "-") for tag in tags
    )


def find_entities(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """The entities of one text: type, first word, last word."""
    found: list[tuple[str, int, int]] = []
    before = NOTHING
    for place, tag in enumerate(tags):
        if tag != NOTHING:
            prefix, kind = tag[0], tag[2:]
            goes_on = prefix in "IE" and before[0] in "BI" and before[2:] == kind
            first = found.pop()[1] if goes_on else place
            found.append((kind, first, place))
        before = tag
    return set(found)


def count_entities(predicted: Sequence[Sequence[str]], right: Sequence[Sequence[str]]) -> np.ndarray:
    """Of each text how many entities are found, given and there, (N, 3)."""
    pairs = [(find_entities(ours), find_entities(theirs)) for ours, theirs in zip(predicted, right, strict=True)]
    return np.array([(len(ours & theirs), len(ours), len(theirs)) for ours, theirs in pairs])


def f1_of(found: float, given: float, there: float) -> dict[str, float]:
    """Precision, recall and F1; 0 where there is nothing to divide by."""
    return {
        "precision": _share(found, given),
        "recall": _share(found, there),
        "f1": _share(2 * found, given + there),
    }


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole else 0.0
