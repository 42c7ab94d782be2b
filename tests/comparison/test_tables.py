import csv
import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from plankwise.comparison.cells import GridCell
from plankwise.comparison.grid import TaskResult
from plankwise.comparison.tables import macro_rows, show_tables, tabulate
from plankwise.comparison.writing import write_tables
from plankwise.config import validate_config
from plankwise.report.remarks import ADVICE

LABELS = [0, 1] * 20


def config(method):
    return validate_config({"method": {"name": method}})


@pytest.fixture
def task(task_of, answers):
    """40 dev examples; `kd` is right in all, `cut` in half, `ours` in all; `bad` fails always, seed 1 of `cut` as well."""

    def cell(label, seed, right, seconds):
        given = [label_ if index < right else 1 - label_ for index, label_ in enumerate(LABELS)]
        return GridCell(
            label, seed, right / 40, {"accuracy": right / 40}, 4, 0, seconds, 1_500, outputs={"dev": answers(*given)}
        )

    before = {"path": "p", "score": 0.76, "metrics": {}, "parameters": 335_141_888, "seconds": 61.0, "latency_ms": 6.0}
    cells = [
        cell("cut", 0, 20, 1.0),
        GridCell("cut", 1, failure="RuntimeError: a|b\n[red]<x>"),
        cell("kd", 0, 40, 10.0),
        cell("kd", 1, 36, 20.0),
        cell("ours", 0, 40, 10.0),
        cell("ours", 1, 36, 20.0),
        GridCell("bad", 0, failure="no, sir"),
        GridCell("bad", 1, failure="no, sir"),
    ]
    return TaskResult(
        name="glue/[cola]",
        recipe="cola",
        task=task_of("accuracy", dev=LABELS, name="glue/cola"),
        predecessor=before,
        configs={"cut": config("finetune"), "kd": config("kd"), "ours": config("replacing"), "bad": config("kd")},
        own_budget=frozenset({"ours"}),
        cells=cells,
        latency={"cut": 3.0, "kd": 1500.0, "ours": 2.0},
        latency_batch=32,
    )


def shown(tasks, width):
    out = io.StringIO()
    show_tables([tabulate(task) for task in tasks], Console(file=out, width=width, markup=False))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_rows_worked_by_hand(task):
    table = tabulate(task)
    before, cut, kd, ours, bad = table.rows
    assert table.baseline == "kd"
    assert table.title == "glue/[cola]: score is accuracy on dev, 2 seeds"
    assert (before.summary.median, before.summary.retained, before.speedup) == (0.76, 1.0, 1.0)
    assert (kd.summary.median, kd.summary.spread, kd.summary.best) == pytest.approx((0.95, 0.1, 1.0))
    assert (kd.summary.retained, kd.summary.seconds, kd.speedup) == pytest.approx((1.25, 15.0, 0.004))
    assert [row.verdict for row in table.rows[1:]] == [
        "worse than kd (p = 0.001)",  # 2 rows · 1 / 2001
        "best baseline",
        "no difference shown (p = 1)",
        "failed",
    ]
    assert (cut.comparison.difference, cut.comparison.p) == (-0.5, 2 / 2001)
    assert cut.failure == "1 of 2 seeds; seed 1 failed: RuntimeError: a|b\n[red]<x>"
    assert bad.failure == "0 of 2 seeds; seeds 0, 1 failed: no, sir"
    assert (bad.summary, bad.parameters, bad.speedup) == (None, None, None)
    assert (ours.own_budget, ours.name, ours.failure) == (True, "ours, own budget", "")


SPEEDUPS = {
    "cut": {"32": {"median": 1.85, "low": 1.81, "high": 1.88, "steady": True}},
    "kd": {"32": {"median": 1.5, "low": 1.2, "high": 2.6, "steady": False}},
    "ours": {"32": {"median": 2.0, "low": 2.0, "high": 2.0, "steady": True}},
}
BEYOND = {"ours": {"32": {"median": 2.59, "low": 2.4, "high": 2.8, "steady": True}}}


def test_the_speedup_of_a_row_is_the_measured_one_with_its_interval_in_every_form_of_the_table(task, tmp_path):
    timed = replace(
        task, speedups=SPEEDUPS, timing={"measured": BEYOND}
    )  # medians of the times would give 2, 0.004 and 3
    lines = shown([timed], 100)
    figures = {line.split()[0]: line for line in lines if line.startswith(("cut ", "kd ", "ours"))}
    assert "1.85× ±3%" in figures["cut"]
    assert "1.50× ±74%" in figures["kd"]
    assert "≤ 2.00×" in figures["ours,"]
    assert max(map(len, lines)) <= 100
    table = tabulate(timed)
    markdown = write_tables([table], tmp_path).read_text("utf-8")
    for text in ("| 1.85× (1.81–1.88) |", "| 1.50× (1.20–2.60), unsteady |", "| ≤ 2.00× |"):
        assert text in markdown
    found = {row["label"]: row for row in json.loads((tmp_path / "table.json").read_text())["tasks"][0]["rows"]}
    assert (found["cut"]["speedup"], found["cut"]["speedup_interval"]) == (1.85, [1.81, 1.88])
    assert [found[label]["speedup_steady"] for label in SPEEDUPS] == [True, False, True]
    assert [found[label]["speedup_measured"] for label in SPEEDUPS] == [None, None, 2.59]
    rows = {row["label"]: row for row in csv.DictReader((tmp_path / "table.csv").open(encoding="utf-8"))}
    assert (rows["cut"]["speedup"], rows["cut"]["speedup_low"], rows["cut"]["speedup_high"]) == ("1.85", "1.81", "1.88")
    assert rows["bad"]["speedup_low"] == ""


def test_a_row_without_a_seed_of_the_baselines_is_not_compared(task):
    cells = [cell for cell in task.cells if (cell.label, cell.seed) not in {("kd", 0), ("cut", 1)}]
    table = tabulate(replace(task, cells=cells))
    assert table.rows[1].verdict == "no seed in common with the baseline"
    assert table.rows[1].comparison is None


def test_rows_of_a_task_that_keeps_no_outputs_are_not_tested(task):
    cells = [replace(cell, outputs={}) for cell in task.cells]
    table = tabulate(replace(task, cells=cells))
    untested = "not tested: the task keeps no outputs by example"
    assert [row.verdict for row in table.rows[1:]] == [untested, "best baseline", untested, "failed"]


@pytest.mark.parametrize("before", [0.0, -0.125])
def test_no_share_is_retained_of_a_score_that_is_not_above_zero(task, before):
    table = tabulate(replace(task, predecessor={**task.predecessor, "score": before}))
    assert [row.summary.retained for row in table.rows if row.summary] == [None] * 4


def test_among_rows_of_replacing_alone_the_highest_median_is_compared_with(task):
    configs = {"ours": config("replacing"), "kd": config("replacing")}
    cells = [cell for cell in task.cells if cell.label in configs]
    table = tabulate(replace(task, configs=configs, cells=cells))
    assert [row.verdict for row in table.rows[1:]] == ["highest median, tied with kd", "highest median, tied with ours"]
    assert [row.rank for row in table.rows] == [None, 1, 1]


def test_a_single_highest_median_among_rows_of_replacing_is_compared_with(task):
    configs = {"ours": config("replacing"), "cut": config("replacing")}
    cells = [cell for cell in task.cells if cell.label in configs]
    table = tabulate(replace(task, configs=configs, cells=cells))
    assert [row.verdict for row in table.rows[1:]] == ["highest median", "worse than ours (p = 0.0005)"]
    assert [row.rank for row in table.rows] == [None, 1, 2]


DEAD = {
    "constant": "'class 0'",
    "constant_score": 0.5,
    "answered": 1,
    "most_answered": "class 0",
    "most_answered_share": 1.0,
    "p": 1.0,
    "shown": False,
}


def dead(task, *labels):
    """The task with all seeds of these rows answering one class."""
    cells = [replace(cell, beyond_constant=DEAD) if cell.label in labels else cell for cell in task.cells]
    return replace(task, cells=cells)


def test_a_row_that_answers_one_class_is_called_that_and_is_no_baseline(task, tmp_path):
    table = tabulate(dead(task, "kd"))
    assert table.baseline == "cut"
    assert [row.verdict for row in table.rows[1:3]] == ["best baseline", "answers only 'class 0'"]
    assert [row.rank for row in table.rows] == [None, 2, None, 1, None]
    assert table.notes == [f"kd: {ADVICE}"]
    narrow, wide = shown([dead(task, "kd")], 80), shown([dead(task, "kd")], 100)
    assert "kd: answers only 'class 0'" in narrow
    for lines in (narrow, wide):
        assert f"kd: {ADVICE}" in lines
        assert next(line for line in lines if line.startswith("kd")).split()[4] == "125.0%*"
    text = write_tables([table], tmp_path).read_text("utf-8")
    assert "| kd | 0.9500 | 0.1000 | 1.0000 | 125.0%* | 15 | 1.5 k | 1500.00 | 0.00× | answers only 'class 0' |" in text
    assert f"- kd: {ADVICE}" in text
    rows = list(csv.DictReader(io.StringIO((tmp_path / "table.csv").read_text("utf-8"))))
    assert (rows[2]["remark"], rows[2]["learnt"], rows[2]["rank"]) == ("answers only 'class 0'", "False", "")
    (stored,) = json.loads((tmp_path / "table.json").read_text("utf-8"))["tasks"]
    assert stored["notes"] == table.notes
    assert stored["cells"][2]["beyond_constant"] == DEAD


def test_a_row_that_has_not_learnt_one_of_several_tasks_is_marked_in_their_mean(task, tmp_path):
    tables = [tabulate(task), tabulate(dead(task, "kd"))]
    assert "| kd | 0.9500 | 125.0%* |" in write_tables(tables, tmp_path).read_text("utf-8")
    assert next(line for line in reversed(shown([task, dead(task, "kd")], 80)) if line.startswith("kd")).endswith(
        "125.0%*"
    )


def test_rows_none_of_which_has_learnt_the_task_are_not_praised(task):
    table = tabulate(dead(task, "cut", "kd", "ours"))
    assert [row.verdict for row in table.rows[1:]] == ["answers only 'class 0'"] * 3 + ["failed"]
    assert table.notes == [f"no row is shown to have learnt the task: {ADVICE}"]


def test_one_seed_of_many_that_has_not_learnt_the_task_is_counted(task):
    cells = [
        replace(cell, beyond_constant=DEAD) if (cell.label, cell.seed) == ("ours", 0) else cell for cell in task.cells
    ]
    more = [replace(cells[5], seed=2), replace(cells[5], seed=3)]
    table = tabulate(replace(task, cells=[*cells, *more]))
    assert table.rows[3].verdict.startswith("no difference shown (p = ")
    assert table.rows[3].verdict.endswith("; 1 of 4 seeds: answers only 'class 0'")
    assert table.rows[3].learnt


def test_a_predecessor_whose_guard_was_ignored_is_called_what_it_is(task):
    guarded = {**task.predecessor, "beyond_constant": DEAD, "ignored_guards": {"majority": "it scores 0.5"}}
    table = tabulate(replace(task, predecessor=guarded))
    assert table.rows[0].verdict == "answers only 'class 0'"
    assert table.notes == ["the guard majority was ignored (evaluation.ignore_guards): it scores 0.5"]


def test_the_median_of_what_a_half_says_that_did_not_choose_is_a_footnote(task, tmp_path):
    cells = [
        cell if cell.failure else replace(cell, held_back={"score": cell.score - 0.125, "chosen_among": 3})
        for cell in task.cells
    ]
    table = tabulate(replace(task, cells=cells))
    assert [row.held_back for row in table.rows] == [None, 0.375, pytest.approx(0.825), pytest.approx(0.825), None]
    note = "medians of the score on a half of dev that did not choose: cut 0.3750, kd 0.8250, ours 0.8250"
    assert table.notes == [f"dev chose each row's checkpoint; {note}"]
    assert note in write_tables([table], tmp_path).read_text("utf-8")


def test_a_comparison_in_which_all_failed_is_shown(task):
    failed = replace(task, cells=[GridCell(label, 0, failure="no") for label in task.configs], latency={})
    table = tabulate(failed)
    assert table.baseline is None
    assert [row.verdict for row in table.rows[1:]] == ["failed"] * 4
    assert len([line for line in shown([failed], 80) if line.endswith("seed 0 failed: no")]) == 4


@pytest.mark.parametrize("width", [80, 100, 200])
def test_a_table_is_at_most_100_columns_wide_and_no_figure_is_cut(task, width):
    lines = shown([task, task], width)
    figures = lines[: lines.index("")]
    table = [line for line in figures if ": " not in line or line.startswith("glue")]
    assert max(map(len, table)) <= min(width, 100)
    assert not [line for line in lines if "…" in line]
    row = next(line for line in lines if line.startswith("kd"))
    assert row.split()[:10] == ["kd", "0.9500", "0.1000", "1.0000", "125.0%", "15", "1.5", "k", "1500.00", "0.00×"]


def test_verdicts_stand_beside_the_figures_or_below_them_on_a_narrow_terminal(task):
    narrow, wide = shown([task], 80), shown([task], 100)
    assert "cut: worse than kd (p = 0.001)" in narrow
    assert "cut: worse than kd (p = 0.001)" not in wide
    assert wide[1].split() == [
        "median", "spread", "best", "retained", "seconds", "params", "ms", "@32", "speed-up", "verdict"
    ]  # fmt: skip
    assert any(line.startswith("kd") and line.endswith("best baseline") for line in wide)


def test_latency_has_no_column_where_it_was_not_measured(task, tmp_path):
    plain = replace(task, latency={}, latency_batch=None, predecessor={**task.predecessor, "latency_ms": None})
    assert shown([plain], 80)[1].split() == ["median", "spread", "best", "retained", "seconds", "params"]
    lines = write_tables([tabulate(plain)], tmp_path).read_text("utf-8").splitlines()
    assert "| kd | 0.9500 | 0.1000 | 1.0000 | 125.0% | 15 | 1.5 k | best baseline |" in lines


def test_failures_are_told_under_the_table_as_they_stand(task):
    lines = shown([task], 100)
    assert "cut: 1 of 2 seeds; seed 1 failed: RuntimeError: a|b" in lines
    assert "bad: 0 of 2 seeds; seeds 0, 1 failed: no, sir" in lines
    assert any(line.split() == ["bad", "failed", "failed"] for line in lines)
    assert lines[0].startswith("glue/[cola]: ")


def test_the_macro_table_has_the_mean_of_the_medians_and_no_row_that_failed_somewhere(task):
    worse = {**task.predecessor, "score": 0.44}
    rows = macro_rows([tabulate(task), tabulate(replace(task, predecessor=worse))])
    assert [label for label, *_ in rows] == ["predecessor", "cut", "kd", "ours", "bad"]
    assert rows[0][1:] == pytest.approx((0.6, 1.0))
    assert rows[2][1:] == pytest.approx((0.95, 0.95 / 0.6))
    assert rows[4][1:] == (None, None)
    lines = shown([task, task], 80)
    assert "mean of the medians over 2 tasks" in lines
    assert not [line for line in shown([task], 80) if line.startswith("mean of")]


def test_the_macro_table_says_that_wnli_is_left_out(task, task_of):
    wnli = replace(task, task=task_of("accuracy", dev=LABELS, name="glue/wnli"))
    assert "mean of the medians over 2 tasks without WNLI" in shown([task, wnli], 80)


def test_the_files_hold_the_same_rows_with_all_text_as_it_stands(task, tmp_path):
    awkward = replace(task, name='a|b\nc,"d"')
    assert write_tables([tabulate(awkward)], tmp_path) == tmp_path / "table.md"
    assert {path.name for path in tmp_path.iterdir()} == {"table.md", "table.csv", "table.json"}

    lines = (tmp_path / "table.md").read_text("utf-8").splitlines()
    assert lines[0] == '## a\\|b c,"d": score is accuracy on dev, 2 seeds'
    assert [line for line in lines if line.startswith("| kd |")] == [
        "| kd | 0.9500 | 0.1000 | 1.0000 | 125.0% | 15 | 1.5 k | 1500.00 | 0.00× | best baseline |"
    ]
    assert "- cut: 1 of 2 seeds; seed 1 failed: RuntimeError: a\\|b [red]&lt;x>" in lines
    assert len({line.replace("\\|", "").count("|") for line in lines if line.startswith("|")}) == 1

    rows = list(csv.DictReader(io.StringIO((tmp_path / "table.csv").read_text("utf-8"))))
    assert [row["label"] for row in rows] == ["predecessor", "cut", "kd", "ours", "bad"]
    assert {row["task"] for row in rows} == {'a|b\nc,"d"'}
    assert (float(rows[1]["median"]), float(rows[1]["p"])) == (0.5, 2 / 2001)
    assert rows[1]["failure"] == "1 of 2 seeds; seed 1 failed: RuntimeError: a|b\n[red]<x>"
    assert (rows[4]["median"], rows[4]["verdict"], rows[3]["own_budget"]) == ("", "failed", "True")

    data = json.loads((tmp_path / "table.json").read_text("utf-8"))
    assert (data["seeds"], data["macro"]) == ([0, 1], None)
    assert data["machine"]["cores"] >= 1
    (stored,) = data["tasks"]
    assert (stored["name"], stored["baseline"], stored["score"]) == ('a|b\nc,"d"', "kd", ["accuracy"])
    assert [cell["failure"] for cell in stored["cells"]][:3] == [None, "RuntimeError: a|b\n[red]<x>", None]
    assert stored["cells"][0].keys() >= {"seed", "score", "metrics", "steps", "skipped_steps", "seconds"}
    assert stored["configs"]["ours"]["method"]["name"] == "replacing"


def test_several_tasks_end_with_their_mean_in_every_file(task, tmp_path):
    write_tables([tabulate(task), tabulate(task)], tmp_path)
    assert "| kd | 0.9500 | 125.0% |" in (tmp_path / "table.md").read_text("utf-8")
    last = list(csv.DictReader(io.StringIO((tmp_path / "table.csv").read_text("utf-8"))))[-5:]
    assert [(row["task"], row["label"]) for row in last[:2]] == [("macro", "predecessor"), ("macro", "cut")]
    assert json.loads((tmp_path / "table.json").read_text("utf-8"))["macro"][1]["macro"] == 0.5
