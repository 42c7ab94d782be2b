import numpy as np
import pytest

from plankwise.comparison.statistics import (
    ROUNDS,
    Comparison,
    choose_baselines,
    compare_with_baseline,
    duration,
    expected_seconds,
    holm,
    macro,
    paired_test,
    rank,
    summarise,
)
from plankwise.evaluation.metrics import glue_macro
from plankwise.task_kinds import Task


def test_a_summary_is_median_spread_best_retained_share_and_mean_time():
    summary = summarise([0.5, 0.875, 0.75], [1.0, 2.0, 6.0], lambda score: score / 2)
    assert (summary.median, summary.spread, summary.best) == (0.75, 0.375, 0.875)
    assert (summary.retained, summary.seconds) == (0.375, 3.0)
    assert summarise([0.5], [1.0], lambda score: None).retained is None


def test_the_baseline_is_the_best_median_among_other_methods_than_replacing():
    methods = {"ours": "replacing", "kd": "kd", "cut": "finetune"}
    assert choose_baselines({"ours": 0.9, "kd": 0.7, "cut": 0.8}, methods) == ["cut"]
    assert choose_baselines({"ours": 0.9, "kd": 0.7}, methods) == ["kd"]


def test_without_another_method_the_baseline_is_the_highest_median():
    assert choose_baselines({"a": 0.5, "b": 0.6}, {"a": "replacing", "b": "replacing"}) == ["b"]
    assert choose_baselines({}, {}) == []


def test_a_row_that_has_not_learnt_the_task_is_no_baseline_unless_all_are_such():
    methods = {"ours": "replacing", "kd": "kd", "cut": "finetune"}
    medians = {"ours": 0.6, "kd": 0.7, "cut": 0.8}
    assert choose_baselines(medians, methods, ["ours", "kd"]) == ["kd"]
    assert choose_baselines(medians, methods, ["ours"]) == ["ours"]
    assert choose_baselines(medians, methods, []) == ["cut"]


def test_baselines_that_tie_are_all_of_them_baselines():
    methods = {"ours": "replacing", "kd": "kd", "cut": "finetune"}
    assert choose_baselines({"ours": 0.8, "kd": 0.1 + 0.2, "cut": 0.3}, methods) == ["kd", "cut"]


def test_equal_medians_share_a_rank():
    assert rank({"a": 0.3, "b": 0.5, "c": 0.1 + 0.2, "d": 0.2}) == {"a": 2, "b": 1, "c": 2, "d": 4}
    assert rank({}) == {}


def test_identical_outputs_give_p_one(task_of, answers):
    task = task_of("accuracy", dev=[0, 1, 1, 0])
    outputs = {"dev": answers(0, 1, 0, 0)}
    assert paired_test(task, [outputs], [outputs]) == (0.0, 1.0)


def test_a_clear_difference_gives_the_smallest_p(task_of, answers):
    labels = [0, 1] * 20
    right, wrong = {"dev": answers(*labels)}, {"dev": answers(*(1 - label for label in labels))}
    task = task_of("accuracy", dev=labels)
    assert paired_test(task, [right], [wrong]) == (1.0, 1 / (ROUNDS + 1))
    assert paired_test(task, [wrong], [right]) == (-1.0, 1 / (ROUNDS + 1))


def test_an_example_is_exchanged_in_all_seeds_or_in_none(task_of, answers):
    task = task_of("accuracy", dev=[0])
    right, wrong = {"dev": answers(0)}, {"dev": answers(1)}
    assert paired_test(task, [right, right], [wrong, wrong]) == (1.0, 1.0)


def test_two_examples_that_differ_alike_are_exchanged_together_half_of_the_time(task_of, answers):
    task = task_of("accuracy", dev=[0, 1])
    difference, p = paired_test(task, [{"dev": answers(0, 1)}], [{"dev": answers(1, 0)}])
    assert difference == 1.0
    assert p == pytest.approx(0.5, abs=0.05)


def test_the_score_is_the_mean_over_dev_sets_whatever_their_sizes(task_of, answers):
    task = task_of("accuracy", one=[0], two=[0, 0, 0, 0])
    first = {"one": answers(0), "two": answers(0, 0, 1, 1)}
    second = {"one": answers(1), "two": answers(1, 1, 1, 1)}
    assert paired_test(task, [first], [second])[0] == 0.75


def test_the_difference_is_that_of_the_tasks_own_scores_in_the_tasks_order_of_classes(task_of):
    rng = np.random.default_rng(0)
    first, second = ({"dev": rng.normal(size=(30, 3))} for _ in range(2))
    task = task_of("accuracy", "matthews", order=(2, 0, 1), dev=rng.integers(0, 3, 30).tolist())
    wanted = task.score_outputs(first)["score"] - task.score_outputs(second)["score"]
    assert paired_test(task, [first], [second], rounds=10)[0] == pytest.approx(wanted, abs=1e-12)


def test_numbers_may_come_in_a_column(task_of):
    task = task_of("pearson", dev=[0.0, 1.0, 2.0])
    up, down = {"dev": np.array([[0.0], [1.0], [2.0]])}, {"dev": np.array([[2.0], [1.0], [0.0]])}
    assert paired_test(task, [up], [down], rounds=1)[0] == pytest.approx(2.0, abs=1e-12)


def test_holms_correction_worked_by_hand():
    # in order 0.01 · 3, 0.03 · 2, 0.04 · 1, and none below the one before
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_a_verdict_names_the_baseline_only_if_a_difference_is_shown():
    assert Comparison("kd", 0.1, 0.012).verdict == "better than kd (p = 0.012)"
    assert Comparison("kd", -0.1, 0.0005).verdict == "worse than kd (p = 0.0005)"
    assert Comparison("kd", 0.1, 0.31).verdict == "no difference shown (p = 0.31)"
    assert Comparison("kd", 0.1, 0.05).verdict == "no difference shown (p = 0.05)"


def test_rows_are_compared_over_the_seeds_that_both_have_and_corrected_together(task_of, answers):
    labels = [0, 1] * 20
    right, wrong = {"dev": answers(*labels)}, {"dev": answers(*(1 - label for label in labels))}
    outputs = {"base": {0: wrong, 1: wrong}, "good": {1: right, 2: wrong}, "same": {0: wrong}, "apart": {7: right}}
    found = compare_with_baseline(task_of("accuracy", dev=labels), outputs, "base")
    assert found == {"good": Comparison("base", 1.0, 2 / (ROUNDS + 1)), "same": Comparison("base", 0.0, 1.0)}


def test_rows_without_outputs_are_not_compared(task_of):
    outputs = {"base": {0: {}}, "other": {0: {}}}
    assert compare_with_baseline(task_of("accuracy", dev=[0, 1]), outputs, "base") == {}


class Words(Task):
    """A kind of task that says no more than how kept outputs are scored."""

    load = score = texts = to_json = check_predecessor = None

    def score_outputs(self, outputs):
        return {"score": float(np.mean([values.mean() for values in outputs.values()]))}


def test_any_kind_of_task_that_scores_kept_outputs_can_be_tested():
    rng = np.random.default_rng(4)
    first, second = ([{"one": rng.normal(size=(6, 2, 3)), "two": rng.normal(size=4)}] * 2 for _ in range(2))
    wanted = Words().score_outputs(first[0])["score"] - Words().score_outputs(second[0])["score"]
    difference, p = paired_test(Words(), first, second, rounds=20)
    assert difference == pytest.approx(wanted, abs=1e-12)
    assert paired_test(Words(), first, first, rounds=20) == (0.0, 1.0)
    assert 1 / 21 <= p <= 1


def test_the_mean_over_glue_leaves_wnli_out():
    scores = {"cola": 0.5, "rte": 0.75, "wnli": 0.0}
    assert macro([(f"glue/{name}", value) for name, value in scores.items()]) == glue_macro(scores) == 0.625
    assert macro([("glue/cola", 0.5), ("glue/wnli", None)]) == 0.5
    assert macro([("glue/wnli", 0.5), ("reviews/sentences", 0.75)]) == 0.625


def test_a_label_that_failed_on_a_task_has_no_mean():
    assert macro([("glue/cola", 0.5), ("glue/rte", None)]) is None
    assert macro([("glue/wnli", 0.5)]) is None


def test_the_time_left_goes_by_the_row_then_the_task_then_all():
    done = [(0, "kd", 10.0), (0, "kd", 20.0), (0, "pkd", 60.0)]
    assert expected_seconds([(0, "kd")], done) == 15.0
    assert expected_seconds([(0, "new"), (0, "kd")], done) == 45.0
    assert expected_seconds([(1, "kd")], [*done, (2, "x", 30.0)]) == 30.0
    assert expected_seconds([(0, "kd")], []) is None


def test_a_duration_is_in_round_words():
    assert duration(59) == "less than a minute"
    assert duration(720) == "about 12 min"
    assert duration(9000) == "about 2.5 h"


def test_a_pair_on_a_dev_set_of_colas_size_is_repeatable(task_of):
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 2, 1043)
    first, second = ([{"dev": rng.normal(size=(1043, 2))} for _ in range(3)] for _ in range(2))
    task = task_of("matthews", dev=labels.tolist())
    assert paired_test(task, first, second) == paired_test(task, first, second)
