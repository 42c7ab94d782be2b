"""The errors of tasks without labels of whole texts on the page: figures side by side, cases to read, all of it escaped."""

import re

import pytest

from plankwise.report.figures import write_figures
from plankwise.report.page import make_page, read_inputs, write_report

ATTACK = "<script>window.pwned = 1</script><img src=x onerror='window.pwned=2'>\"&"


def make_view(text="a fine film", cases=3, **changes):
    rows = [
        {"name": f"{text} {place}", "of": 1000 + place, "before": [12, 0.25, None], "after": [9, 0.5, 3.0]}
        for place in range(2)
    ]
    columns = [{"name": f"{text}: {form}", "form": form} for form in ("count", "share", "number")]
    return {
        "kind": "ranking",
        "examples": 1234,
        "unit": "queries",
        "note": f"What it means: {text}.",
        "cells": {"both_right": 700, "lost": 34, "gained": 200, "both_wrong": 300},
        "cells_of": "queries",
        "tables": [
            {"title": text, "first": "type", "of": "queries", "columns": columns, "rows_total": 7, "rows": rows},
            {"title": "One row", "first": "what", "of": "", "columns": columns[:1], "rows_total": 1, "rows": [
                {"name": "all", "of": None, "before": [5], "after": [5]}
            ]},
        ],
        "cases_title": "Queries that got worse",
        "cases_total": 60,
        "cases": [
            {"row": row, "title": f"{text} {row}", "fields": [["query", text]], "before": [text, "two"], "after": [text]}
            for row in range(cases)
        ],
        **changes,
    }  # fmt: skip


@pytest.fixture
def page_of(records, save):
    def page_of(errors):
        return make_page(read_inputs([save({**records.plain(), "analysis": {"errors": errors}})]))

    return page_of


def test_figures_of_both_models_stand_side_by_side(page_of):
    page = page_of(make_view())
    cells = re.findall(r'<td data-label="[^"]*" class=number data-value="([^"]*)">([^<]*)</td>', page)
    for expected in (("1000", "1,000"), ("9", "12 → 9"), ("0.5", "25.0% → 50.0%"), ("3.0", "– → 3.00"), ("5", "5")):
        assert expected in cells
    assert "a fine film, before → after; the first 2 of 7 rows" in page
    assert "One row, before → after</caption>" in page
    assert "1,234 queries of dev. What it means: a fine film." in page
    assert "lost: only the predecessor is right" in page
    assert page.count("<figcaption>a fine film</figcaption>") == 1
    assert "<figcaption>One row</figcaption>" not in page


def test_a_view_without_right_and_wrong_has_no_cells(page_of):
    errors = make_view()
    del errors["cells"], errors["cells_of"]
    page = page_of(errors)
    assert "1,234 queries of dev" in page
    assert "both right" not in page


def test_cases_are_listed_with_what_both_models_gave(page_of):
    page = page_of(make_view())
    assert "Cases to read" in page
    assert "Queries that got worse; the first 3 of 60 are listed." in page
    assert page.count("a fine film<br>two") == 3
    assert "row 2" in page
    whole = page_of(make_view(cases_total=3))
    assert "Queries that got worse." in whole


def test_texts_that_are_not_kept_are_said_to_be(page_of):
    page = page_of(make_view(cases=0))
    assert "Queries that got worse: 60. Their texts are not kept (analysis.texts is false)." in page
    assert "Cases to read" not in page_of(make_view(cases=0, cases_total=0))


def test_what_data_says_is_shown_and_never_run(records, save, visit, tmp_path):
    record = {**records.plain(), "analysis": {"errors": make_view(ATTACK)}}
    file = write_report([save(record)], tmp_path / "report.html")
    assert ATTACK not in file.read_text("utf-8")
    page = visit(file)
    assert page.tab.evaluate("window.pwned") is None
    assert page.complaints == []
    assert page.tab.locator("[data-section=cases] li").count() == 3
    assert page.tab.locator("[data-section=cases] dd").first.inner_text() == ATTACK
    page.tab.locator("[data-section=cases] input").fill("0")
    assert page.tab.locator("[data-section=cases] .count").inner_text() == "1 of 3 shown"


def test_the_charts_are_written_as_files(records, tmp_path):
    written = write_figures(
        [("demo", {"task": records.plain()["task"], "analysis": {"errors": make_view()}})], tmp_path
    )
    assert {path.name for path in written} == {"errors.png", "errors.svg"}
