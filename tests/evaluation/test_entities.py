"""Entities by seqeval's definition, in cases that were worked out by hand."""

import pytest

from plankwise.evaluation.entities import are_entities, count_entities, f1_of, find_entities


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O B-PER I-PER O B-LOC", {("PER", 1, 2), ("LOC", 4, 4)}),
        ("B-PER B-PER", {("PER", 0, 0), ("PER", 1, 1)}),
        ("O I-PER I-PER", {("PER", 1, 2)}),  # a stray I begins an entity
        ("B-PER I-LOC I-LOC", {("PER", 0, 0), ("LOC", 1, 2)}),  # and so does one of another type
        ("I-PER O I-PER", {("PER", 0, 0), ("PER", 2, 2)}),
        ("B-PER I-PER E-PER I-PER", {("PER", 0, 2), ("PER", 3, 3)}),  # E ends one
        ("S-PER I-PER S-PER", {("PER", 0, 0), ("PER", 1, 1), ("PER", 2, 2)}),  # S is one by itself
        ("O E-PER", {("PER", 1, 1)}),
        ("B-creative-work I-creative-work", {("creative-work", 0, 1)}),
        ("B-PER", {("PER", 0, 0)}),
        ("O O", set()),
    ],
)
def test_entities_are_found_as_seqeval_finds_them(tags, expected):
    assert find_entities(tags.split()) == expected


def test_an_entity_counts_where_its_type_and_both_ends_are_right():
    right = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-PER"], ["O"]]
    predicted = [
        ["B-PER", "O", "O", "B-LOC"],
        ["O", "I-PER"],
        ["B-LOC"],
    ]  # too short, right; right though stray; made up
    counts = count_entities(predicted, right)
    assert counts.tolist() == [[1, 2, 2], [1, 1, 1], [0, 1, 0]]
    assert f1_of(*counts.sum(0)) == {"precision": 2 / 4, "recall": 2 / 3, "f1": 4 / 7}


def test_where_there_is_nothing_to_find_all_is_0():
    assert f1_of(0, 0, 0) == {"precision": 0, "recall": 0, "f1": 0}


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O B-x I-x", True),
        ("O S-x E-x", True),
        ("NOUN VERB", False),
        ("O B-x NOUN", False),
        ("O", False),
        ("O B", False),
    ],
)
def test_tags_of_entities_are_told_from_others(tags, expected):
    assert are_entities(tags.split()) is expected
