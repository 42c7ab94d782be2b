import pytest

from plankwise.report.comparison import comparison_verdict, show_results
from plankwise.report.remarks import (
    constant_claim,
    constant_remark,
    has_learnt,
    has_learnt_in_most,
    held_back_median,
    held_back_note,
    held_back_remark,
    remarks,
    seeds_remark,
    show_retained,
    training_time,
)
from plankwise.report.runs import runs_verdict, show_runs, summarise_runs
from plankwise.report.sections import models, run_sections

FOUND = {"constant": "'no'", "constant_score": 0.645, "answered": 2, "most_answered": "no", "p": 0.2, "shown": False}
WEAK = {"beyond_constant": FOUND}
DEAD = {"beyond_constant": {**FOUND, "answered": 1}}
GOOD = {"beyond_constant": {**FOUND, "shown": True}}
OLD: dict = {}


@pytest.mark.parametrize("model", [GOOD, OLD, {"beyond_constant": None}])
def test_nothing_is_said_of_a_model_that_learnt_or_was_never_tested(model):
    assert has_learnt(model)
    assert constant_remark(model) == constant_claim(model) == ""
    assert show_retained(model, 0.8) == "80.0%"


def test_one_class_and_no_proof_have_one_wording_each():
    assert constant_remark(DEAD) == constant_claim(DEAD) == "answers only 'no'"
    assert constant_remark(WEAK) == "not shown to be better than always answering 'no' (0.6450)"
    assert constant_claim(WEAK) == "is not shown to be better than always answering 'no' (0.6450)"
    assert show_retained(DEAD, 0.796) == "79.6%*"
    assert show_retained(DEAD, None) == "–"


def test_every_model_of_a_record_is_told_what_would_help_it():
    told = remarks({"predecessor": WEAK, "successor": DEAD, "truncated": DEAD, "model": GOOD})
    assert len(told) == 3
    assert "predecessor.training.epochs" in told[0]
    assert told[1].startswith("the truncated model answers only 'no': train longer (training.epochs)")
    assert told[2].startswith("the successor answers only 'no': train longer (training.epochs)")


def test_seeds_are_counted_and_told_together():
    assert seeds_remark([GOOD, OLD]) == ""
    assert seeds_remark([DEAD, DEAD]) == "answers only 'no'"
    assert seeds_remark([DEAD, GOOD, GOOD]) == "1 of 3 seeds: answers only 'no'"
    assert seeds_remark([DEAD, WEAK]).startswith("answers only 'no' / not shown to be better")


def test_a_row_has_learnt_if_most_of_its_seeds_have():
    assert has_learnt_in_most([GOOD, GOOD, DEAD])
    assert not has_learnt_in_most([GOOD, DEAD])
    assert has_learnt_in_most([])


def test_a_half_that_did_not_choose_is_told_only_where_something_was_chosen():
    assert held_back_remark({"held_back": None}) == held_back_remark({}) == ""
    models = [{"held_back": {"score": score, "chosen_among": 2}} for score in (0.5, 0.75, 0.25)]
    assert held_back_median(models) == 0.5
    assert held_back_median([*models, {}]) is None
    assert held_back_note([("a", 0.5), ("b", None)]).endswith("did not choose: a 0.5000")
    assert held_back_note([("b", None)]) == ""


def test_a_record_that_does_not_tell_seconds_apart_has_their_sum():
    assert training_time({"seconds": 87.0}) == "87 s in all"
    by = {"predecessor": 40.0, "successor": 31.0, "truncated": 16.0}
    assert training_time({"seconds": 87.0, "seconds_by": by}) == "successor 31 s, predecessor 40 s, truncated 16 s"


def test_the_page_of_a_run_marks_the_share_and_says_why_below_the_models(records):
    record = records.plain() | {"ignored_guards": {"majority": "it scores <b>0.5</b>"}}
    record["successor"] |= DEAD
    shown = models(record)
    assert ">98.5%*<" in shown
    assert "The successor answers only &#x27;no&#x27;: train longer (training.epochs)" in shown
    assert "The guard majority was ignored (evaluation.ignore_guards): it scores &lt;b&gt;0.5&lt;/b&gt;." in shown
    assert "98.5%*" not in models(records.plain())


def test_the_page_says_of_each_stage_that_dev_chose_and_what_a_half_says_that_did_not(records):
    record = records.plain()
    record["stages"]["replacing"]["held_back"] = {"score": 0.7712, "chosen_among": 4}
    told = "dev chose among 4 evaluations; the score on a half of dev that did not choose is 0.7712"
    assert run_sections(record, "run").count(told) == 1


def test_a_run_that_kept_nothing_learnt_is_not_the_one_that_keeps_the_most(records):
    dead, good = records.plain() | {"retained": 0.99}, records.plain()
    dead["successor"] = {**dead["successor"], **DEAD}
    runs = [("dead", dead), ("good", good)]
    assert runs_verdict(summarise_runs(runs)).startswith("Of 2 runs, good keeps the most: 98.5%")
    shown = show_runs(runs)
    assert ">99.0%*<" in shown
    assert "dead answers only &#x27;no&#x27;." in shown
    assert "is not shown to have kept anything that was learnt." in runs_verdict(summarise_runs(runs[:1]))


def test_the_seconds_of_several_runs_are_of_their_successors(records):
    record = records.plain() | {"seconds_by": {"predecessor": 40.0, "successor": 31.0}}
    assert [row["seconds"] for row in summarise_runs([("a", record), ("b", records.plain())])] == [31.0, 457.5]


def test_a_comparisons_page_praises_no_row_that_has_not_learnt_the_task():
    rows = [
        {"label": "dead", "median": 0.9, "retained": 0.99, "verdict": "answers only 'no'", "learnt": False},
        {"label": "kd", "median": 0.8, "retained": 0.9, "verdict": "best baseline", "learnt": True},
    ]
    task = {"name": "reviews", "score": ["accuracy"], "rows": rows, "cells": [], "notes": ["dead: train longer"]}
    assert comparison_verdict(task).startswith("On reviews, kd has the highest median")
    assert "dead: train longer" in show_results({"tasks": [task]})
    assert comparison_verdict({**task, "rows": rows[:1]}) == "On reviews no row is shown to have learnt the task."


def test_a_studys_page_praises_no_arm_that_has_not_learnt_the_task():
    arms = [{"name": "dead", "median": 0.9, "cells": [], "learnt": False}, {"name": "good", "median": 0.8, "cells": []}]
    task = {"task": "rte", "metric": "accuracy", "baseline": {}, "arms": arms, "notes": ["dead: answers only one"]}
    shown = show_results({"study": "init", "seeds": [0], "tasks": [task]})
    assert "On rte, good has the highest median accuracy" in shown
    assert "dead: answers only one" in shown
    alone = show_results({"study": "init", "seeds": [0], "tasks": [{**task, "arms": arms[:1]}]})
    assert "On rte no arm is shown to have learnt the task." in alone
