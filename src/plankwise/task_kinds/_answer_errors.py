"""Where two models that answer questions err: kinds of wrong answers, and the questions whose answer got worse.

Answers are compared as they are scored, word by word in their normal form (`evaluation.spans`); of several right answers, the one
that fits best counts.
"""

from collections.abc import Sequence

import numpy as np

from plankwise.data.squad import Question
from plankwise.evaluation.error_view import MOST_CASES, Case, ErrorView, Table, make_row, worst_first
from plankwise.evaluation.errors import count_cells
from plankwise.evaluation.spans import normalise, score_answers, word_f1

RIGHT, TOO_LONG, TOO_SHORT, OVERLAPS, ELSEWHERE = "right", "too long", "too short", "overlapping", "no overlap"
NOTHING_GIVEN, NOTHING_THERE = "nothing, but there is an answer", "an answer, but there is none"
KINDS = (RIGHT, TOO_LONG, TOO_SHORT, OVERLAPS, ELSEWHERE, NOTHING_GIVEN, NOTHING_THERE)
AROUND = 200  # characters of the text on each side of the right answer
NONE = "(none)"


def compare_answers(questions: Sequence[Question], before: Sequence[str], after: Sequence[str]) -> ErrorView:
    """The view of two models' answers to the same questions."""
    right = [one.answers for one in questions]
    scores = [score_answers(answers, right) for answers in (before, after)]
    kinds = [[judge(*pair) for pair in zip(answers, right, strict=True)] for answers in (before, after)]
    counts = {kind: [some.count(kind) for some in kinds] for kind in KINDS}
    there = [kind for kind in KINDS if any(counts[kind])]
    rows = worst_first(scores[0][:, 1] - scores[1][:, 1])
    return ErrorView(
        kind="answers",
        examples=len(questions),
        unit="questions",
        note=(
            "Right: an exact match. Too long: all of the right answer and more. Too short: a piece of it. Overlapping: some of "
            "its words. Without case, punctuation and articles, and by the right answer that fits best."
        ),
        tables=[
            Table(
                "Kinds of answers",
                "answer",
                [("questions", "count")],
                [make_row(kind, ([n] for n in counts[kind])) for kind in there],
            )
        ],
        cells=count_cells(*(found[:, 0] == 1 for found in scores)),
        cells_of="questions",
        cases=[
            Case(
                row,
                f"F1 {scores[0][row, 1]:.2f} → {scores[1][row, 1]:.2f}: {kinds[1][row]}",
                _fields(questions[row]),
                [before[row] or NONE],
                [after[row] or NONE],
            )
            for row in rows[:MOST_CASES]
        ],
        cases_title="Questions whose answer got worse",
        cases_total=len(rows),
    )


def judge(answer: str, right: Sequence[str]) -> str:
    """Which of KINDS an answer is, if these are the right ones; none of them means that there is no answer."""
    words = normalise(answer).split()
    if not right:
        return NOTHING_THERE if words else RIGHT
    forms = [normalise(one).split() for one in right]
    if words in forms:
        return RIGHT
    if not words:
        return NOTHING_GIVEN
    best = forms[int(np.argmax([word_f1(answer, one) for one in right]))]
    if best and _contains(words, best):
        return TOO_LONG
    if _contains(best, words):
        return TOO_SHORT
    return OVERLAPS if set(words) & set(best) else ELSEWHERE


def _contains(words: list[str], piece: list[str]) -> bool:
    return any(words[start : start + len(piece)] == piece for start in range(len(words) - len(piece) + 1))


def _fields(question: Question) -> list[tuple[str, str]]:
    """The question, the text around the first right answer, or its beginning, and all right answers."""
    start = question.starts[0] if question.answers else 0
    end = start + (len(question.answers[0]) if question.answers else 0)
    low, high = max(0, start - AROUND), end + AROUND
    text = f"{'…' * (low > 0)}{question.context[low:high]}{'…' * (high < len(question.context))}"
    answers = " | ".join(dict.fromkeys(question.answers)) or NONE
    return [("question", question.question), ("text", text), ("right answers", answers)]
