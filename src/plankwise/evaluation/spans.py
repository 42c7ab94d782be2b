"""Answers that are spans of a text, scored as SQuAD defines it (Rajpurkar et al. 2016, 2018).

An answer is compared in a normal form: lower case, without punctuation and without the articles a, an and the, blanks made one.
Exact match is whether the forms are equal; F1 is over the words that both have, each as often as both have it. Of several right
answers, the one that fits best counts. A question without one is answered rightly by nothing.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

import numpy as np

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise(text: str) -> str:
    """The form in which answers are compared."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split())


def exact_match(answer: str, right: str) -> float:
    """1 if the two are the same in their normal form."""
    return float(normalise(answer) == normalise(right))


def word_f1(answer: str, right: str) -> float:
    """F1 over words; where one of the two has no words, whether both have none."""
    ours, theirs = normalise(answer).split(), normalise(right).split()
    if not ours or not theirs:
        return float(ours == theirs)
    common = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * common / (len(ours) + len(theirs))


def score_answers(answers: Sequence[str], right: Sequence[Sequence[str]]) -> np.ndarray:
    """Exact match and F1 of each answer, (N, 2); an empty list of right ones means that there is none."""
    found = [
        [max(measure(answer, one) for one in some or ("",)) for measure in (exact_match, word_f1)]
        for answer, some in zip(answers, right, strict=True)
    ]
    return np.array(found, dtype=np.float64).reshape(-1, 2)


def best_spans(starts: np.ndarray, ends: np.ndarray, allowed: np.ndarray, longest: int) -> np.ndarray:
    """First token, last token and score of the best span of each window, (B, 3), from logits (B, T).

    A span's score is the sum of its two logits; it lies within `allowed` (B, T) and has at most `longest` tokens. Of equals the
    shortest counts, then the first. A window in which nothing is allowed has a score of -inf.
    """
    starts, ends = (np.where(allowed, one, -np.inf).astype(np.float64) for one in (starts, ends))
    rows = np.arange(len(starts))
    found = np.stack([np.zeros(len(rows)), np.zeros(len(rows)), np.full(len(rows), -np.inf)], axis=1)
    for more in range(min(longest, starts.shape[1])):
        sums = starts[:, : starts.shape[1] - more] + ends[:, more:]
        first = sums.argmax(1)
        better = sums[rows, first] > found[:, 2]
        found[better] = np.stack([first, first + more, sums[rows, first]], axis=1)[better]
    return found
