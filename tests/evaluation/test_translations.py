"""BLEU by hand on a toy, and the same from counts that are summed."""

import math
import sys

import pytest

from plankwise.errors import MissingExtraError
from plankwise.evaluation.translations import bleu_of, count_ngrams, score_translations

WRITTEN = ["the cat sat on the mat", "a dog runs"]
REFERENCES = ["the cat sat on a mat", "a dog runs fast"]


def test_bleu_is_the_geometric_mean_of_precisions_times_the_penalty_for_brevity():
    # n-grams that are right of those there are, over both texts: words, pairs, triples, fours
    right, there = (5 + 3, 3 + 2, 2 + 1, 1 + 0), (6 + 3, 5 + 2, 4 + 1, 3 + 0)
    precision = math.prod(a / b for a, b in zip(right, there, strict=True)) ** 0.25
    expected = 100 * precision * math.exp(1 - 10 / 9)
    assert score_translations(WRITTEN, REFERENCES)["bleu"] == pytest.approx(expected)
    assert count_ngrams(WRITTEN, REFERENCES).sum(0).tolist() == [*right, *there, 9, 10]


def test_summed_counts_give_the_bleu_of_all_texts():
    for some in (slice(0, 1), slice(0, 2)):
        counts = count_ngrams(WRITTEN[some], REFERENCES[some]).sum(0)
        assert bleu_of(counts) == pytest.approx(score_translations(WRITTEN[some], REFERENCES[some])["bleu"])


def test_without_sacrebleu_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(MissingExtraError, match=r"needs the package sacrebleu; .*pip install plankwise\[translation\]"):
        score_translations(WRITTEN, REFERENCES)
