"""Several runs on one page: grouped by task and metric, ranked within a group alone, ties named together."""

import re

import pytest

from plankwise.report.page import make_page, read_inputs
from plankwise.report.runs import group_runs, run_charts, runs_verdict, summarise_runs


@pytest.fixture
def named(records):
    """A plain record under a name, with another score and other keys of its config and task if given."""

    def named(run, score=0.786, dev=1000, seed=0, **task):
        record = records.plain()
        record["config"]["run"] |= {"name": run, "seed": seed}
        record["seed"] = seed
        record["successor"] |= {"score": score, "retained": score / 0.798}
        record["retained"] = score / 0.798
        record["task"] |= {"dev": {"dev": dev}, "dropped": {"train": {}, "dev": {}}, **task}
        return run, record

    return named


@pytest.fixture
def page_of(save):
    return lambda *runs: make_page(read_inputs([save(record, name) for name, record in runs]))


def bold_cells(page):
    rows = re.findall('<tr><th scope="row"[^>]*>(.*?)</th>(.*?)</tr>', page)
    return {name: re.findall("<strong>(.*?)</strong>", cells) for name, cells in rows if "<strong>" in cells}


def test_several_runs_are_judged_by_what_they_kept_and_by_their_speed(records):
    fast, good = records.plain(), records.plain()
    fast |= {"speedup": 3.0, "retained": 0.9}
    verdict = runs_verdict(summarise_runs([("fast", fast), ("good", good)]))
    assert verdict == (
        "Of 2 runs, good keeps the most: 98.5% of accuracy on reviews/sentences; fast is the fastest, by 3.00×."
    )


def test_runs_that_tie_are_named_and_marked_alike(named, page_of):
    runs = [named("a"), named("b"), named("c", 0.5)]
    assert runs_verdict(summarise_runs(runs)) == (
        "Of 3 runs, a and b keep the most: 98.5% of accuracy on reviews/sentences, a tie; a, b and c are the fastest, by 1.79×."
    )
    assert bold_cells(page_of(*runs)) == {
        "a": ["0.7860", "98.5%", "1.79×"],
        "b": ["0.7860", "98.5%", "1.79×"],
        "c": ["1.79×"],
    }


def test_runs_within_the_sampling_error_of_the_best_tie_with_it(named):
    runs = [named("a", 0.786), named("b", 0.770), named("c", 0.6)]
    assert runs_verdict(summarise_runs(runs)).startswith(
        "Of 3 runs, a and b keep the most: 98.5% to 96.5% of accuracy on reviews/sentences, "
        "a gap within the sampling error of 1,000 dev examples;"
    )


def test_runs_of_different_tasks_have_tables_charts_and_rankings_of_their_own(named, page_of):
    runs = [named("a"), named("b", 0.5), named("c", 0.7, name="rte"), named("d", 0.9, name="rte")]
    groups = group_runs(runs)
    assert [[name for name, _ in group.runs] for group in groups] == [["a", "b"], ["c", "d"]]
    page = page_of(*runs)
    assert page.count('data-table="runs"') == 2
    assert "4 runs in 2 groups: scores on different tasks, or by different metrics, do not compare" in page
    assert "Of 2 runs, a keeps the most" in page
    assert "Of 2 runs, d keeps the most" in page
    assert "Of 4 runs" not in page
    panels = run_charts(runs)["speed-up-and-retained"]
    assert [[dot.name for dot in panel.dots] for panel in panels] == [["a", "b"], ["c", "d"]]


def test_runs_by_different_metrics_or_labels_are_not_ranked_together(named, records):
    other = named("b")
    other[1]["task"]["shown"] |= {"metric": "f1", "key": "f1"}
    assert len(group_runs([named("a"), other])) == 2
    groups = group_runs([named("a"), named("b", labels=["x", "y", "z"])])
    assert [group.title for group in groups] == [
        "reviews/sentences, accuracy, labels negative, positive",
        "reviews/sentences, accuracy, labels x, y, z",
    ]


def test_a_curve_has_no_axis_across_tasks(named):
    def at(rate, *given, **task):
        name, record = named(*given, **task)
        record["config"]["method"]["schedule"] = {"kind": "constant", "rate": rate}
        return name, record

    runs = [at(0.3, "a"), at(0.5, "b"), at(0.3, "c", name="rte"), at(0.5, "d", name="rte")]
    panels = run_charts(runs)["score-by-rate"]
    assert [[one.name for one in panel.series] for panel in panels] == [["reviews/sentences"], ["rte"]]


def test_runs_whose_dev_sets_differ_in_size_are_not_ranked(named, page_of):
    runs = [named("a", dev=1000), named("b", dev=200)]
    (group,) = group_runs(runs)
    assert group.verdict == (
        "2 runs on reviews/sentences, accuracy, which are not ranked: "
        "their dev sets have different numbers of examples (1,000 in a and 200 in b)."
    )
    assert bold_cells(page_of(*runs)) == {}


def test_runs_whose_dev_sets_were_drawn_with_different_seeds_are_not_ranked(named):
    runs = [named("a", seed=0, dropped={"train": {}}), named("b", seed=1, dropped={"train": {}})]
    assert "drawn with different seeds (0 in a and 1 in b); set run.data_seed" in group_runs(runs)[0].warning
    for _, record in runs:
        record["config"]["run"]["data_seed"] = 7
    assert group_runs(runs)[0].warning == ""


def test_a_dev_set_that_was_given_is_the_same_for_every_seed_unless_it_was_limited(named):
    runs = [named("a", seed=0), named("b", seed=1)]
    assert group_runs(runs)[0].warning == ""
    for _, record in runs:
        record["config"]["task"] = {"dev_limit": 100}
    assert "different seeds" in group_runs(runs)[0].warning


def test_language_models_are_ranked_by_their_lowest_perplexity(records):
    runs = []
    for name, value in (("a", 12.0), ("b", 11.7)):
        record = records.plain() | {"task": records.text_task()}
        record["successor"]["metrics"] = {"perplexity": value}
        runs.append((name, record))
    assert runs_verdict(summarise_runs(runs)).startswith("Of 2 runs, b has the lowest perplexity on letters: 11.70;")
