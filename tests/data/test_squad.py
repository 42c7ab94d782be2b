"""SQuAD's files, and what is said of those that are not."""

import json

import pytest

from plankwise.data.squad import Question, read_squad
from plankwise.errors import DataError

QAS = [
    {"id": "1", "question": " what? ", "answers": [{"text": "film", "answer_start": 2}]},
    {"id": "2", "question": "who?", "answers": [], "is_impossible": True},
]


def write(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return str(path)


def squad(qas):
    return {"data": [{"title": "Films", "paragraphs": [{"context": "a film", "qas": qas}]}]}


def test_questions_are_read_with_their_article_text_and_answers(tmp_path):
    path = write(tmp_path / "x.json", squad(QAS))
    first = Question("1", "Films", "a film", "what?", ("film",), (2,))
    assert read_squad(path, key="task.train") == [first, Question("2", "Films", "a film", "who?", (), ())]
    assert read_squad(path, key="task.test", answers=False)[0].answers == ()


def test_a_line_of_jsonl_is_a_question_with_answers_in_either_form(tmp_path):
    base = {"id": "1", "title": "Films", "context": "a film", "question": "what?"}
    lines = [
        {**base, "answers": {"text": ["film"], "answer_start": [2]}},
        {**base, "answers": [{"text": "film", "answer_start": 2}]},
    ]
    path = write(tmp_path / "x.jsonl", "\n".join(map(json.dumps, lines)))
    one, other = read_squad(path, key="task.train")
    assert one == other == Question("1", "Films", "a film", "what?", ("film",), (2,))


def test_an_answer_is_placed_if_it_stands_where_the_file_says():
    assert Question("1", "", "a film", "what?", ("film",), (2,)).is_placed
    assert not Question("1", "", "a film", "what?", ("film",), (0,)).is_placed
    assert Question("1", "", "a film", "what?", (), ()).is_placed


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("x.json", "[1", r"x\.json of task\.train is not in SQuAD's form"),
        ("x.json", {"data": [{"title": "Films"}]}, r"x\.json of task\.train is not in SQuAD's form"),
        (
            "x.json",
            squad([{"id": "1", "answers": []}]),
            r"article 'Films' paragraph 1 of task\.train is not a question",
        ),
        ("x.json", squad([{**QAS[0], "answers": [{"text": "a"}]}]), "is not a question with a context and answers"),
        ("x.json", squad([{**QAS[0], "answers": [{"text": "a", "answer_start": -1}]}]), "an answer_start of -1"),
        ("x.json", {"data": []}, "which has no questions"),
        ("x.jsonl", '{"question": "what?"}', r"x\.jsonl line 1 of task\.train is not a JSON object with a context"),
    ],
)
def test_what_is_not_a_question_is_told_by_its_place(name, content, reason, tmp_path):
    with pytest.raises(DataError, match=reason):
        read_squad(write(tmp_path / name, content), key="task.train")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match=r"task\.dev is '.*none\.json'; there is no such file"):
        read_squad(str(tmp_path / "none.json"), key="task.dev")
