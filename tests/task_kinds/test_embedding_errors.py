"""The error view of sentence encoders, on neighbours written by hand."""

import numpy as np

from plankwise.task_kinds._embedding_errors import compare_neighbours

TEXTS = ["north", "south", "east", "west"]
REFERENCE = np.array([[1, 2], [0, 3], [3, 0], [2, 1]])
AFTER = np.array([[2, 1], [2, 3], [1, 0], [0, 1]])  # of the two neighbours 2, 1, 1 and 1 are kept


def test_the_counts_of_a_hand_made_case():
    found = compare_neighbours(TEXTS, REFERENCE, REFERENCE, AFTER).to_json()
    assert [(row["name"], row["before"], row["after"]) for row in found["tables"][0]["rows"]] == [
        ("2", [4], [1]),
        ("1", [0], [3]),
        ("0", [0], [0]),
    ]
    assert "the predecessor has 100.0% of those that are to be found, the successor 62.5%" in found["note"]


def test_the_predecessor_itself_is_measured_where_another_model_is_the_reference():
    found = compare_neighbours(TEXTS, AFTER, REFERENCE, AFTER).to_json()
    assert [(row["before"], row["after"]) for row in found["tables"][0]["rows"]] == [([1], [4]), ([3], [0]), ([0], [0])]


def test_texts_whose_neighbours_changed_most_come_first_with_those_before_and_after():
    other = AFTER.copy()
    other[2] = [0, 3]  # the same two in another order
    other[3] = [0, 0]  # none of them
    found = compare_neighbours(TEXTS, REFERENCE, REFERENCE, other).to_json()
    assert [(one["row"], one["title"]) for one in found["cases"]] == [
        (3, "0 of 2 neighbours kept"),
        (1, "1 of 2 neighbours kept"),
    ]
    assert found["cases"][1]["fields"] == [["text", "south"]]
    assert found["cases"][1]["before"] == ["1. lost: north", "2. kept: west"]
    assert found["cases"][1]["after"] == ["1. new: east", "2. kept: west"]
