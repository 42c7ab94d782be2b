"""Pages of comparisons, studies and domains: what they claim, and that rows which tie are marked alike."""

import json
import re

import pytest

from plankwise.errors import RunError
from plankwise.report.comparison import comparison_verdict, result_verdicts
from plankwise.report.page import make_page, read_inputs


@pytest.fixture
def page_of(tmp_path):
    def page_of(data):
        (tmp_path / "table.json").write_text(json.dumps(data), "utf-8")
        return make_page(read_inputs([tmp_path]))

    return page_of


def in_bold(page):
    """The names of the rows that have a value in bold."""
    return [re.search("<th [^>]*>(.*?)</th>", row)[1] for row in re.findall("<tr>.*?</tr>", page) if "<strong>" in row]


def compared(*rows, baseline="kd", **more):
    cells = [{"label": "kd", "seed": seed, "score": 0.79 + seed / 100} for seed in range(3)]
    return {"name": "reviews", "score": ["accuracy"], "baseline": baseline, "rows": list(rows), "cells": cells, **more}


def make_row(label, median, **more):
    return {"label": label, "median": median, "retained": median / 0.82, "verdict": "", **more}


def study(**arms):
    shown = [
        {
            "name": name,
            "median": sorted(scores)[len(scores) // 2],
            "difference": None,
            "cells": [{"seed": seed, "score": score} for seed, score in enumerate(scores)],
        }
        for name, scores in arms.items()
    ]
    baseline = {"name": "predecessor", "score": 0.82}
    task = {"task": "rte", "metric": "accuracy", "baseline": baseline, "arms": shown, "notes": []}
    return {"study": "schedule", "seeds": [0], "tasks": [task]}


def test_a_comparison_is_shown_with_its_verdicts(page_of):
    better = {"difference": 0.01, "p": 0.01, "verdict": "better than kd (p = 0.01)"}
    task = compared(
        make_row("predecessor", 0.82, retained=1.0),
        make_row("kd", 0.8, verdict="best baseline"),
        make_row("<b>mine</b>", 0.81, **better),
        {"label": "broken", "median": None, "verdict": "failed", "failure": "seed 0 failed: out of memory"},
    )
    page = page_of({"tasks": [task], "macro": None, "seeds": [0, 1, 2]})
    assert comparison_verdict(task) == (
        "On reviews, <b>mine</b> has the highest median: 0.8100, 98.8% of the predecessor's (better than kd (p = 0.01))."
    )
    assert in_bold(page) == ["&lt;b&gt;mine&lt;/b&gt;"]
    assert "<b>mine" not in page
    assert "seed 0 failed: out of memory" in page
    assert "kd, not among them: 0.8 (0.79 to 0.81)" in page


def test_rows_between_which_no_difference_is_shown_are_marked_alike(page_of):
    task = compared(
        make_row("predecessor", 0.82),
        make_row("kd", 0.8, verdict="best baseline"),
        make_row("mine", 0.81, difference=0.01, p=0.36, verdict="no difference shown (p = 0.36)"),
        make_row("cut", 0.7, difference=-0.1, p=0.001, verdict="worse than kd (p = 0.001)"),
    )
    assert in_bold(page_of({"tasks": [task]})) == ["kd", "mine"]
    assert comparison_verdict(task) == (
        "On reviews, mine (0.8100) and kd (0.8000) lead, with 97.6% to 98.8% of what the predecessor reaches; "
        "no difference between them is shown."
    )


def test_rows_that_beat_the_baseline_are_not_ranked_among_themselves(page_of):
    task = compared(
        make_row("kd", 0.8),
        make_row("mine", 0.82, difference=0.02, p=0.01),
        make_row("other", 0.81, difference=0.01, p=0.04),
    )
    assert in_bold(page_of({"tasks": [task]})) == ["mine", "other"]
    assert comparison_verdict(task).endswith(
        "each is shown to be better than kd, but they were not tested against each other."
    )


def test_equal_medians_are_marked_alike_where_nothing_was_tested(page_of):
    task = compared(make_row("kd", 0.8), make_row("mine", 0.8), make_row("cut", 0.7))
    assert in_bold(page_of({"tasks": [task]})) == ["kd", "mine"]


def test_a_study_is_shown_beside_what_was_published(page_of):
    data = study(linear=[0.8])
    published = {"source": "a paper", "setting": "BERT", "columns": ["RTE"], "rows": {"linear": [68.2]}, "places": 1}
    page = page_of(data | {"published": published})
    assert "On rte, linear has the highest median accuracy: 0.8000; the predecessor has 0.8200." in page
    assert "Published, not measured here" in page
    assert "over 1 seed;" in page


def test_arms_whose_seeds_overlap_are_marked_alike(page_of):
    data = study(linear=[0.79, 0.80, 0.81], constant=[0.77, 0.78, 0.80], rising=[0.5, 0.51, 0.52])
    assert in_bold(page_of(data)) == ["linear", "constant"]
    assert result_verdicts(data) == [
        "On rte, linear (0.8000) and constant (0.7800) lead in accuracy; no difference between them is shown: "
        "the ranges of their seeds overlap; the predecessor has 0.8200."
    ]


def test_one_seed_makes_no_arm_the_best(page_of):
    data = study(linear=[0.8], constant=[0.7])
    assert in_bold(page_of(data)) == ["linear", "constant"]
    assert result_verdicts(data) == [
        "On rte, no difference between the 2 arms is shown (accuracy 0.7000 to 0.8000): "
        "one seed is too few to tell them apart; the predecessor has 0.8200."
    ]


def test_the_settings_of_a_domain_have_a_verdict_a_chart_and_their_failures(page_of):
    def setting(name, *scores, **failures):
        return {"name": name, "scores": list(scores), "failures": failures, "speedup_of_tuning": 1.7, "retained": 0.98}

    rows = [setting("plain", 0.7, 0.72), setting("domain", 0.8, 0.84), setting("domain-compressed", 0.79, 0.81)]
    rows.append(setting("plain-compressed", **{"0": "loss is not a number"}))
    data = {"task": "reviews", "score": ["accuracy"], "seeds": [0, 1], "rows": rows}
    page = page_of(data)
    assert result_verdicts(data) == [
        "On reviews, domain (0.8200) and domain-compressed (0.8000) lead in accuracy; "
        "no difference between them is shown: the ranges of their seeds overlap."
    ]
    assert in_bold(page) == ["domain", "domain-compressed"]
    assert "plain-compressed: seed 0 failed: loss is not a number" in page
    assert 'data-label="speed-up of tuning"' in page
    assert "domain, among the best: 0.82 (0.8 to 0.84)" in page


def test_rows_that_have_not_learnt_the_task_lead_nowhere(page_of):
    task = compared(make_row("kd", 0.8), make_row("mine", 0.81, learnt=False, difference=0.01, p=0.4), notes=["a note"])
    page = page_of({"tasks": [task]})
    assert in_bold(page) == ["kd"]
    assert ">98.8%*<" in page
    assert "a note" in page
    arms = study(linear=[0.8, 0.81], constant=[0.79, 0.8])
    arms["tasks"][0]["arms"][0]["learnt"] = False
    assert in_bold(page_of(arms)) == ["constant"]
    arms["tasks"][0]["arms"][1]["learnt"] = False
    assert result_verdicts(arms) == ["On rte no arm is shown to have learnt the task; the predecessor has 0.8200."]


def test_the_verdicts_of_several_tasks_stand_under_their_headings(page_of):
    task = compared(make_row("kd", 0.8))
    for tasks in ([task], [task, {**task, "name": "other"}]):
        page = page_of({"tasks": tasks})
        assert page.count("</h2><p class=verdict>") == (0 if len(tasks) == 1 else 2)


def test_a_table_of_another_kind_is_refused(tmp_path):
    (tmp_path / "table.json").write_text('{"x": 1}')
    with pytest.raises(RunError, match="is not a table of a comparison or a study"):
        read_inputs([tmp_path])
