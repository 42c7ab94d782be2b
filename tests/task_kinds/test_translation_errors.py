"""The error view of translators, on cases worked out by hand."""

import pytest

from plankwise.data.parallel import Pair
from plankwise.evaluation.translations import score_sentences, score_translations
from plankwise.task_kinds._translation_errors import compare_translations, repetitions

PAIRS = [Pair("a ship", "ein Schiff"), Pair("the plank is very old", "das Brett ist sehr alt"), Pair("yes", "ja")]
BEFORE = ["ein Schiff", "das Brett ist alt", "ja"]
AFTER = ["ein ein ein ein", "", "ja"]


def test_pairs_of_words_that_stood_in_the_text_before_are_repeated():
    assert repetitions(["a b a b a", "a a", "a a a", "a", ""]).tolist() == [[2, 4], [0, 1], [1, 2], [0, 0], [0, 0]]


def test_chrf_of_a_sentence_is_that_of_a_corpus_of_it_alone():
    (found,) = score_sentences(["das Brett ist alt"], ["das Brett ist sehr alt"])
    assert found == pytest.approx(score_translations(["das Brett ist alt"], ["das Brett ist sehr alt"])["chrf"])
    assert score_sentences(["ja", ""], ["ja", "ja"]).tolist() == [100.0, 0.0]


def test_the_figures_of_a_hand_made_case():
    found = compare_translations(PAIRS, BEFORE, AFTER).to_json()
    by_words, by_score = found["tables"]
    whole = by_words["rows"][0]
    assert (whole["name"], whole["of"]) == ("all", 3)
    assert whole["before"][1:] == [(10 + 17 + 2) / (10 + 22 + 2), 0.0, 0]
    assert whole["after"][1:] == [(15 + 0 + 2) / (10 + 22 + 2), 2 / 3, 1]  # of "ein ein" twice again, of three pairs
    scores = score_sentences(BEFORE, [pair.target for pair in PAIRS])
    assert whole["before"][0] == pytest.approx(scores.mean())
    assert [(row["name"], row["of"]) for row in by_words["rows"][1:]] == [("1–2", 2), ("5", 1)]
    assert sum(row["before"][0] for row in by_score["rows"]) == sum(row["after"][0] for row in by_score["rows"]) == 3
    assert by_score["rows"][-1] == {"name": "80–100", "of": None, "before": [2], "after": [1]}
    assert "; 0.0% in the right translations" in found["note"]


def test_texts_whose_chrf_fell_most_come_first():
    found = compare_translations(PAIRS, BEFORE, AFTER).to_json()
    fell = score_sentences(BEFORE, [pair.target for pair in PAIRS]) - score_sentences(
        AFTER, [pair.target for pair in PAIRS]
    )
    assert [one["row"] for one in found["cases"]] == sorted((0, 1), key=lambda row: -fell[row])
    case = next(one for one in found["cases"] if one["row"] == 1)
    assert case["fields"] == [["source", "the plank is very old"], ["right", "das Brett ist sehr alt"]]
    assert (case["before"], case["after"]) == (["das Brett ist alt"], ["(nothing)"])
