"""The error view of models that answer questions, on cases counted by hand."""

import pytest

from plankwise.data.squad import Question
from plankwise.task_kinds._answer_errors import compare_answers, judge


@pytest.mark.parametrize(
    ("answer", "right", "kind"),
    [
        ("The Eiffel Tower!", ("eiffel tower",), "right"),
        ("Tower", ("Eiffel", "the tower"), "right"),  # one of several
        ("the old Eiffel Tower in Paris", ("Eiffel Tower",), "too long"),
        ("Tower", ("Eiffel Tower",), "too short"),
        ("Tower of Paris", ("Eiffel Tower",), "overlapping"),
        ("Tower Eiffel", ("Eiffel Tower",), "overlapping"),
        ("London", ("Eiffel Tower",), "no overlap"),
        ("", ("Eiffel Tower",), "nothing, but there is an answer"),
        ("London", (), "an answer, but there is none"),
        ("", (), "right"),
        ("London", ("the",), "no overlap"),  # nothing is left of it in the normal form
    ],
)
def test_an_answer_is_of_one_kind(answer, right, kind):
    assert judge(answer, right) == kind


def question(number, context, *answers):
    starts = tuple(context.index(answer) for answer in answers)
    return Question(str(number), "", context, f"question {number}?", answers, starts)


QUESTIONS = [
    question(0, "the red ship sails", "red ship"),
    question(1, "the red ship sails", "sails"),
    question(2, "a plank is old", "old"),
    question(3, "a plank is old", "plank"),
    question(4, "nothing is asked"),
]
BEFORE = ["red ship", "sails", "old", "is", ""]
AFTER = ["the red ship sails", "", "old", "plank", "asked"]


def test_the_counts_of_a_hand_made_case():
    found = compare_answers(QUESTIONS, BEFORE, AFTER).to_json()
    assert found["cells"] == {"both_right": 1, "lost": 3, "gained": 1, "both_wrong": 0}
    assert [(row["name"], *row["before"], *row["after"]) for row in found["tables"][0]["rows"]] == [
        ("right", 4, 2),
        ("too long", 0, 1),
        ("no overlap", 1, 0),
        ("nothing, but there is an answer", 0, 1),
        ("an answer, but there is none", 0, 1),
    ]


def test_questions_whose_answer_got_worse_are_shown_with_the_right_answers_the_worst_first():
    found = compare_answers(QUESTIONS, BEFORE, AFTER).to_json()
    assert [(one["row"], one["title"]) for one in found["cases"]] == [
        (1, "F1 1.00 → 0.00: nothing, but there is an answer"),
        (4, "F1 1.00 → 0.00: an answer, but there is none"),
        (0, "F1 1.00 → 0.80: too long"),
    ]
    assert found["cases"][0]["after"] == ["(none)"]
    assert found["cases"][1]["fields"][-1] == ["right answers", "(none)"]
    assert found["cases"][2] == {
        "row": 0,
        "title": "F1 1.00 → 0.80: too long",
        "fields": [["question", "question 0?"], ["text", "the red ship sails"], ["right answers", "red ship"]],
        "before": ["red ship"],
        "after": ["the red ship sails"],
    }


def test_of_a_long_text_what_stands_around_the_answer_is_shown():
    context = f"{'a ' * 300}plank{' b' * 300}"
    (case,) = compare_answers([question(0, context, "plank")], ["plank"], ["a"]).cases
    text = dict(case.fields)["text"]
    assert text == f"…{'a ' * 100}plank{' b' * 100}…"
