"""Questions on texts, whose answers are spans of them: SQuAD's json files, and jsonl with a question a line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from plankwise.errors import DataError

FORM = "SQuAD's form: data, paragraphs, context, qas, and of each question its id, question and answers"


class Question(NamedTuple):
    """A question on a text; without answers it has none, or they were not asked for."""

    id: str
    article: str
    context: str
    question: str
    answers: tuple[str, ...]
    starts: tuple[int, ...]  # of the answers, in characters of the context

    @property
    def is_placed(self) -> bool:
        """Whether the first answer, if there is one, stands where the file says."""
        return not self.answers or self.context[self.starts[0] :].startswith(self.answers[0])


def read_squad(path: str, *, key: str, answers: bool = True) -> list[Question]:
    """The questions of a file, in their order; `key` is the config key that gave the path.

    A `.jsonl` file has a question a line, with context, question and answers (a list, or text and answer_start as two lists); any
    other is SQuAD's json. Without `answers`, none are read.

    Raises:
        DataError: the file cannot be read, has no questions, or one is not what it should be; says which.
    """
    place = Path(path).expanduser()
    if not place.is_file():
        raise DataError(f"{key} is '{path}'; there is no such file: give a json file in {FORM}, or a jsonl file")
    try:
        text = place.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{place.name} of {key} cannot be read ({error}); give a utf-8 file") from None
    rows = _read_lines(text, place.name, key) if place.suffix.lower() == ".jsonl" else _read_json(text, place.name, key)
    found: list[Question] = []
    for where, article, context, row in rows:
        try:
            given = _read_answers(row) if answers else []
            one = Question(
                str(row.get("id", len(found) + 1)),
                article,
                _text(context),
                _text(row["question"]).strip(),
                tuple(_text(answer) for answer, _ in given),
                tuple(int(start) for _, start in given),
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            raise DataError(
                f"{where} of {key} is not a question with a context and answers, each a text and an answer_start; fix it"
            ) from None
        if any(start < 0 for start in one.starts):
            raise DataError(f"{where} of {key} has an answer_start of {min(one.starts)}; count characters from 0")
        found.append(one)
    if not found:
        raise DataError(f"{key} is '{path}', which has no questions; give a file with at least one")
    return found


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError
    return value


def _read_answers(row: dict) -> list[tuple[str, int]]:
    if row.get("is_impossible"):
        return []
    given = row["answers"]
    if isinstance(given, dict):
        return list(zip(given["text"], given["answer_start"], strict=True))
    return [(one["text"], one["answer_start"]) for one in given]


def _read_json(text: str, name: str, key: str) -> Iterator[tuple[str, str, Any, Any]]:
    """Questions with where each stands, its article and its context."""
    try:
        for number, article in enumerate(json.loads(text)["data"], 1):
            title = str(article.get("title", number))
            for place, paragraph in enumerate(article["paragraphs"], 1):
                for row in paragraph["qas"]:
                    yield f"{name} article {title!r} paragraph {place}", title, paragraph["context"], row
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataError(f"{name} of {key} is not in {FORM}; fix it, or give a jsonl file") from None


def _read_lines(text: str, name: str, key: str) -> Iterator[tuple[str, str, Any, Any]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                row = json.loads(line)
                yield f"{name} line {number}", str(row.get("title", "")), row["context"], row
            except (ValueError, KeyError, TypeError, AttributeError):
                raise DataError(
                    f"{name} line {number} of {key} is not a JSON object with a context; a line is context, question, answers"
                ) from None
