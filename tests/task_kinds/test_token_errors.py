"""The error view of taggers, on cases counted by hand."""

import pytest

from plankwise.data.tagged import Tagged
from plankwise.task_kinds._token_errors import compare_tags, judge_entities, judge_words


def tagged(pairs):
    words, tags = zip(*(pair.split("/") for pair in pairs.split()), strict=True)
    return Tagged(words, tags)


@pytest.mark.parametrize(
    ("given", "right", "expected"),
    [
        ("B-PER I-PER O", "B-PER I-PER O", {("PER", "found"): 1}),
        ("B-PER O O", "B-PER I-PER O", {("PER", "wrong border"): 1}),
        ("B-LOC I-LOC O", "B-PER I-PER O", {("PER", "wrong type"): 1}),
        ("O O O", "B-PER I-PER O", {("PER", "missed"): 1}),
        ("O O B-PER", "O O O", {("PER", "invented"): 1}),
        # Of another type and with other borders nothing is right: one is missed, one invented.
        ("B-LOC O O", "B-PER I-PER O", {("PER", "missed"): 1, ("LOC", "invented"): 1}),
        # Two pieces of one entity: its border is wrong once, and neither is invented.
        ("B-PER B-PER O", "B-PER I-PER O", {("PER", "wrong border"): 1}),
        # One entity over two: each has a wrong border.
        ("B-PER I-PER I-PER", "B-PER B-PER O", {("PER", "wrong border"): 2}),
    ],
)
def test_an_entity_is_found_or_wrong_in_one_way_or_missed_or_invented(given, right, expected):
    found = [(kind, outcome) for kind, outcome, _ in judge_entities(given.split(), right.split())]
    assert {pair: found.count(pair) for pair in found} == expected


TEXTS = [
    tagged("Anna/B-PER saw/O New/B-LOC York/I-LOC in/O May/O"),
    tagged("Bob/B-PER slept/O"),
    tagged("Rome/B-LOC fell/O"),
]
BEFORE = [["B-PER", "O", "B-LOC", "I-LOC", "O", "O"], ["B-PER", "O"], ["O", "O"]]
AFTER = [["O", "O", "B-PER", "I-PER", "O", "B-LOC"], ["B-PER", "O"], ["B-LOC", "O"]]


def test_the_counts_of_a_hand_made_case():
    found = compare_tags(TEXTS, BEFORE, AFTER, entities=True).to_json()
    assert found["cells"] == {"both_right": 1, "lost": 2, "gained": 1, "both_wrong": 0}
    (table,) = found["tables"]
    assert [column["name"] for column in table["columns"]] == [
        "found",
        "wrong border",
        "wrong type",
        "missed",
        "invented",
    ]
    assert table["rows"] == [
        {"name": "all", "of": 4, "before": [3, 0, 0, 1, 0], "after": [2, 0, 1, 1, 1]},
        {"name": "LOC", "of": 2, "before": [1, 0, 0, 1, 0], "after": [1, 0, 1, 0, 1]},
        {"name": "PER", "of": 2, "before": [2, 0, 0, 0, 0], "after": [1, 0, 0, 1, 0]},
    ]


def test_a_text_that_lost_entities_is_shown_with_the_words_and_both_tags():
    found = compare_tags(TEXTS, BEFORE, AFTER, entities=True).to_json()
    assert found["cases_total"] == 1
    assert found["cases"] == [
        {
            "row": 0,
            "title": "lost: Anna (PER), New York (LOC)",
            "fields": [
                ["text", "Anna saw New York in May"],
                ["right", "Anna/B-PER … New/B-LOC York/I-LOC … May/O"],
            ],
            "before": ["Anna/B-PER … New/B-LOC York/I-LOC … May/O"],
            "after": ["Anna/O … New/B-PER York/I-PER … May/B-LOC"],
        }
    ]


def test_where_tags_mark_no_entities_words_are_counted():
    assert judge_words(["N", "V"], ["N", "D"]) == [
        ("N", "right", ("N", 0, 0)),
        ("D", "missed", ("D", 1, 1)),
        ("V", "invented", ("V", 1, 1)),
    ]
    texts = [tagged("dogs/N bark/V"), tagged("a/D dog/N")]
    found = compare_tags(texts, [["N", "V"], ["D", "N"]], [["N", "N"], ["D", "D"]], entities=False).to_json()
    assert found["cells"] == {"both_right": 2, "lost": 2, "gained": 0, "both_wrong": 0}
    assert found["tables"][0]["rows"] == [
        {"name": "all", "of": 4, "before": [4, 0, 0], "after": [2, 2, 2]},
        {"name": "N", "of": 2, "before": [2, 0, 0], "after": [1, 1, 1]},
        {"name": "D", "of": 1, "before": [1, 0, 0], "after": [1, 0, 1]},
        {"name": "V", "of": 1, "before": [1, 0, 0], "after": [0, 1, 0]},
    ]
    assert [(one["title"], one["before"], one["after"]) for one in found["cases"]] == [
        ("lost: bark (V)", ["… bark/V"], ["… bark/N"]),
        ("lost: dog (N)", ["… dog/N"], ["… dog/D"]),
    ]
