import json
import math

import numpy as np

from plankwise.evaluation.error_view import (
    MOST_CASES,
    MOST_CHARACTERS,
    MOST_ROWS,
    Case,
    ErrorView,
    Row,
    Table,
    worst_first,
)


def make_view(cases=1, rows=1, text="a text", value=0.5):
    return ErrorView(
        kind="ranking",
        examples=9,
        unit="queries",
        note="what it means",
        tables=[Table("By length", "words", [("found", "share")], [Row(str(n), [value], [0.25]) for n in range(rows)])],
        cases=[Case(row, text, [("query", text)], [text], [text, text]) for row in range(cases)],
        cases_title="Queries that got worse",
        cases_total=cases + 1,
    )


def test_the_largest_falls_come_first_and_of_equals_the_earlier():
    assert worst_first(np.array([0.0, 2.0, -1.0, 3.0, 2.0])) == [3, 1, 4]


def test_the_record_has_limits_and_says_how_many_there_are():
    found = make_view(cases=MOST_CASES + 5, rows=MOST_ROWS + 5).to_json()
    assert (len(found["cases"]), found["cases_total"]) == (MOST_CASES, MOST_CASES + 6)
    assert (len(found["tables"][0]["rows"]), found["tables"][0]["rows_total"]) == (MOST_ROWS, MOST_ROWS + 5)


def test_long_texts_are_cut_and_marked():
    (case,) = make_view(text="x" * (MOST_CHARACTERS + 1)).to_json()["cases"]
    cut = "x" * MOST_CHARACTERS + "…"
    assert case == {"row": 0, "title": cut, "fields": [["query", cut]], "before": [cut], "after": [cut, cut]}


def test_a_figure_that_is_not_finite_is_left_out_of_the_record():
    found = make_view(value=math.inf).to_json()
    json.dumps(found, allow_nan=False)
    assert found["tables"][0]["rows"] == [{"name": "0", "of": None, "before": [None], "after": [0.25]}]


def test_a_view_without_right_and_wrong_has_no_cells():
    assert "cells" not in make_view().to_json()
