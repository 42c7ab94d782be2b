"""Error classes by rule, and whether their shares of the errors change from predecessor to successor (thesis §5.6).

Intervals are of 95 %. A share's is Wilson's. A difference's is Newcombe's, made of the two Wilson intervals, with the
correlation that the errors which both models make bring (Zou and Donner 2008): the two sets of errors overlap, and what they
share cancels out. The correlation is taken at its lower bound, so that a few shared errors do not count as certainty.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from scipy.stats import binomtest

from plankwise.analysis_options import RuleOptions
from plankwise.evaluation.matching import count_matches

WORD = re.compile(r"\w+(?:['’-]\w+)*")
MENTION = re.compile(r"(?<!\w)[@#]\w+")
_PICTURE = (
    "[\u231a\u231b\u23e9-\u23f3\u23f8-\u23fa\u25fd\u25fe\u2600-\u27bf\u2b1b\u2b1c\u2b50\u2b55"
    "\U0001f004\U0001f0cf\U0001f18e\U0001f191-\U0001f19a\U0001f300-\U0001faff]"
)
_TONE = "[\ufe0f\U0001f3fb-\U0001f3ff]*"
EMOJI = re.compile(
    f"[\U0001f1e6-\U0001f1ff]{{2}}|[0-9#*]\ufe0f\u20e3|{_PICTURE}{_TONE}(?:\u200d{_PICTURE}{_TONE})*"
)  # flags, keys, pictures; what is joined to one picture counts once

UNITS = {
    "regex": "matches of {pattern}",
    "length": "words",
    "capitals": "of the letters capital",
    "emoji": "emoji",
    "mentions": "mentions or hashtags",
    "rare_words": "of the words at most {seen} times in train",
}


def apply_rules(rules: list[RuleOptions], texts: list[str], train: Iterable[str]) -> dict[str, np.ndarray]:
    """For each rule by name which texts belong to its class, (N,) bool; `train` tells which words are rare."""
    counts: Counter[str] = Counter()
    if any(rule.kind == "rare_words" for rule in rules):
        for text in train:
            counts.update(_words(text))
    members = {}
    for rule in rules:
        measured = _measure(rule, texts, counts)
        low = -math.inf if rule.above is None else rule.above
        high = math.inf if rule.below is None else rule.below
        members[rule.name] = np.array([low < value < high for value in measured], dtype=bool)
    return members


def describe(rule: RuleOptions) -> str:
    """The rule in words."""
    bounds = [f"more than {rule.above:g}"] if rule.above is not None else []
    bounds += [f"less than {rule.below:g}"] if rule.below is not None else []
    return f"{' and '.join(bounds)} {UNITS[rule.kind].format(pattern=rule.pattern, seen=rule.seen)}"


def _measure(rule: RuleOptions, texts: list[str], counts: Counter[str]) -> Sequence[float]:
    """What the rule measures in each text."""
    if rule.kind == "regex":
        return count_matches(rule.pattern or "", texts, rule.name)
    return list(map(_measure_of(rule, counts), texts))


def _measure_of(rule: RuleOptions, counts: Counter[str]) -> Callable[[str], float]:
    match rule.kind:
        case "length":
            return lambda text: len(text.split())
        case "capitals":
            return lambda text: _share([letter.isupper() for letter in text if letter.isalpha()])
        case "emoji":
            return lambda text: len(EMOJI.findall(text))
        case "mentions":
            return lambda text: len(MENTION.findall(text))
        case "rare_words":
            seen = rule.seen or 0
            return lambda text: _share([counts[word] <= seen for word in _words(text)])
    raise AssertionError(f"rules of kind {rule.kind} are not measured text by text")


def _words(text: str) -> list[str]:
    return [word.casefold() for word in WORD.findall(text)]


def _share(found: list[bool]) -> float:
    return sum(found) / len(found) if found else 0.0


def compare_classes(
    members: dict[str, np.ndarray], wrong: dict[str, np.ndarray], labels: np.ndarray, *, binary: bool, margin: float
) -> list[dict]:
    """Each class's share of the predecessor's errors (before) and of the successor's (after), and how it changes.

    Two classes: false positives and false negatives apart, class 1 being positive; otherwise all errors together. A side on
    which one of the models makes no error has no rows: nothing has a share of it. `stable` is True if the whole interval
    of the difference lies within the margin, False if all of it lies beyond, None if neither is shown.
    """
    everywhere = np.ones(len(labels), dtype=bool)
    sides = {"false positives": labels == 0, "false negatives": labels == 1} if binary else {"errors": everywhere}
    rows = []
    for side, inside in sides.items():
        before, after = (wrong[name] & inside for name in ("predecessor", "successor"))
        if before.any() and after.any():
            rows += [_compare(name, side, member, before, after, margin) for name, member in members.items()]
    return rows


def _compare(name: str, side: str, member: np.ndarray, before: np.ndarray, after: np.ndarray, margin: float) -> dict:
    found = {
        when: wilson(int((member & errors).sum()), int(errors.sum()))
        for when, errors in (("before", before), ("after", after))
    }
    shared = before & after
    difference = newcombe(found["before"], found["after"], int(shared.sum()), int((member & shared).sum()))
    low, high = difference["low"], difference["high"]
    stable = True if -margin <= low and high <= margin else False if low > margin or high < -margin else None
    return {"name": name, "side": side, **found, "difference": difference, "stable": stable}


def wilson(count: int, of: int) -> dict:
    """A share with its interval."""
    interval = binomtest(count, of).proportion_ci(method="wilson")
    return {
        "count": count,
        "of": of,
        "share": count / of,
        "low": float(interval.low),
        "high": float(interval.high),
    }


def newcombe(before: dict, after: dict, shared: int, shared_count: int) -> dict:
    """The share after less that before, with its interval; `shared` errors, `shared_count` of the class, are in both."""
    correlation = _correlation(before, after, shared, shared_count)
    down = (after["share"] - after["low"], before["high"] - before["share"])
    up = (after["high"] - after["share"], before["share"] - before["low"])
    share = after["share"] - before["share"]
    return {"share": share, "low": share - _join(*down, correlation), "high": share + _join(*up, correlation)}


def _correlation(before: dict, after: dict, shared: int, shared_count: int) -> float:
    """Of the two shares, from 0 to 1: how far the errors overlap, times how alike the class spreads in the overlap."""
    overlap = math.sqrt(wilson(shared, before["of"])["low"] * wilson(shared, after["of"])["low"])
    first, second = before["share"], after["share"]
    spread = math.sqrt(first * (1 - first) * second * (1 - second))
    if not shared or not spread:
        return 0.0
    inside, outside = shared_count / shared, 1 - shared_count / shared
    common = inside * (1 - first) * (1 - second) + outside * first * second
    return overlap * min(1.0, common / spread)


def _join(first: float, second: float, correlation: float) -> float:
    return math.sqrt(max(0.0, first**2 - 2 * correlation * first * second + second**2))
