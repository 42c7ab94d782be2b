import re
import subprocess
import sys
from pathlib import Path

import pytest

import plankwise.report
from plankwise.errors import RunError
from plankwise.report._errors import group_labels
from plankwise.report._training import merge_bins
from plankwise.report.page import MAX_BYTES, make_page, read_inputs, write_report
from plankwise.report.sections import flatten


@pytest.fixture
def page_of(save):
    def page_of(*records):
        return make_page(read_inputs([save(record, f"r{index}") for index, record in enumerate(records)]))

    return page_of


def test_a_record_without_an_analysis_makes_a_page_without_those_parts(page_of, records):
    page = page_of(records.plain())
    assert 'data-section="training"' in page
    assert 'data-section="errors"' not in page
    assert 'data-section="inside"' not in page
    assert 'data-section="flips"' not in page


@pytest.mark.parametrize("section", ["cost", "errors", "inside"])
def test_any_section_of_the_analysis_may_be_missing(page_of, records, section):
    record = records.analysed()
    del record["analysis"][section]
    assert f"<h2>{'Inside' if section != 'inside' else 'Errors'}</h2>" in page_of(record)


@pytest.mark.parametrize(
    "key", ["truncated", "masks", "plan", "machine", "made_head", "skipped_steps", "config", "seed"]
)
def test_a_record_may_lack_what_not_every_run_has(page_of, records, key):
    record = records.analysed()
    del record[key]
    assert 'class="verdict"' in page_of(record)


def test_an_unknown_kind_of_task_has_its_metric_and_facts_on_the_page(page_of, records):
    page = page_of(records.tagged(records.analysed()))
    assert '<button type="button">F1 of entities</button>' in page
    assert '<th scope="row" data-value="tag_accuracy">tag_accuracy</th>' in page
    assert ">entity_f1<" not in page, "the column of the score shows it already"
    assert ">88.8<" in page
    assert "Score on dev: F1 of entities" in page
    assert '<th scope="row">tags</th><td>B-PER, I-PER, O</td>' in page


def test_a_language_model_shows_its_perplexity_and_objective(page_of, records):
    record = records.plain()
    record["task"] = records.text_task()
    record["successor"]["metrics"] = {"perplexity": 11.7031}
    page = page_of(record, record)
    assert page.count(">11.70<") == 4, "for each run in the table of all runs and in its own"
    assert '<th scope="row">objective</th><td>mlm</td>' in page
    assert "Score on dev: 1 / perplexity" in page, "no perplexity was logged in training"


def test_an_estimate_is_shown_beside_what_was_measured_and_a_record_without_one_has_no_such_table(page_of, records):
    record = records.plain()
    assert 'data-table="estimate"' not in page_of(record)
    phases = {"replacing": {"estimated": 120.0, "measured": 133.4}, "truncated": {"estimated": 99.96, "measured": None}}
    record["estimate"] = {"phases": phases, "seconds": {"estimated": 219.96, "measured": 133.4}}
    page = page_of(record)
    assert 'data-table="estimate"' in page
    for cell in ("truncated", "120.0", "133.4", "100.0", "in all", "220.0"):
        assert f">{cell}<" in page


def test_a_finetuned_model_has_a_page(page_of, records):
    record = {**records.plain(), "model": records.plain()["predecessor"], "seconds_to_best": 3.0}
    for key in ("successor", "predecessor", "truncated", "plan", "masks", "retained", "speedup", "compression_ratio"):
        del record[key]
    page = page_of(record)
    assert "The model has an accuracy of 0.7980 on dev." in page
    assert "plankwise finetune runs/demo/config.toml" in page


def test_the_command_to_repeat_a_run_is_quoted(page_of, records):
    record = records.plain()
    record["config"]["run"]["folder"] = "my runs/a;b"
    assert "plankwise compress &#x27;my runs/a;b/config.toml&#x27; &#x27;run.folder=my runs/a;b-again&#x27;" in page_of(
        record
    )


def test_the_page_loads_nothing_from_elsewhere(page_of, records):
    page = page_of(records.analysed())
    assert "default-src 'none'" in page
    assert "unsafe" not in page
    assert "http://" not in page
    assert "https://" not in page


def test_many_runs_stay_below_the_limit_by_showing_less(page_of, records):
    long = [records.flip(index, f"{index} " + "word " * 119) for index in range(500)]
    record = records.analysed()
    record["analysis"]["errors"] |= {"flips": long, "flips_total": 500}
    page = page_of(*[record] * 14)
    assert len(page.encode()) < MAX_BYTES
    assert "at most 100 flips a run are listed; report on fewer runs to see all" in page


def test_a_page_with_500_flips_lists_all_and_is_small(page_of, records):
    page = page_of(records.analysed(500))
    assert page.count("<li data-kind") == 500
    assert len(page.encode()) < MAX_BYTES


def test_a_folder_of_runs_is_all_of_them_and_equal_names_are_told_apart(save, records, tmp_path):
    save(records.plain(), "sweep/a")
    save(records.plain(), "sweep/b")
    names = [given.name for given in read_inputs([tmp_path / "sweep"])]
    assert names == [str(tmp_path / "sweep" / "a"), str(tmp_path / "sweep" / "b")]


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(RunError, match=r"has no record\.json"):
        read_inputs([tmp_path])


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"successor": {}, "predecessor": 1, "task": {}}', "null"])
def test_a_damaged_record_is_refused_in_one_sentence(tmp_path, text):
    (tmp_path / "record.json").write_text(text)
    with pytest.raises(RunError, match=r"record\.json (is damaged|cannot be read)"):
        write_report([tmp_path], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("analysis", "errors", "flips"), [{"kind": "lost"}]),
        (("plan",), [{"span": [0]}]),
        (("successor",), {"score": 1}),
    ],
)
def test_a_record_damaged_inside_is_refused_with_its_file(save, records, path, value):
    record = inner = records.analysed()
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(RunError, match=r"record\.json is damaged: it cannot be shown"):
        make_page(read_inputs([save(record)]))


def test_undefined_and_infinite_numbers_are_shown_as_missing(page_of, records):
    record = records.plain()
    record["successor"] |= {"score": float("nan"), "retained": float("nan")}
    record["retained"] = float("nan")
    record["stages"]["replacing"]["history"][0]["loss"] = float("inf")
    page = page_of(record)
    body = page[page.index("<main>") : page.index("</main>")]
    assert "nan" not in body
    assert "inf" not in body.lower().replace("infer", "")


def test_rare_labels_are_added_up_and_no_example_is_lost():
    labels = [f"l{index}" for index in range(30)]
    matrix = [[(row + 1) * (row == column) + 1 for column in range(30)] for row in range(30)]
    names, grouped = group_labels(labels, matrix)
    assert names == [*labels[19:], "19 others"]
    assert sum(map(sum, grouped)) == sum(map(sum, matrix))
    assert group_labels(labels[:3], [row[:3] for row in matrix[:3]])[0] == labels[:3]


def test_merged_bins_keep_all_steps_and_draws():
    bins = [{"step": 3 * index, "steps": 3, "replaced": [index % 4, 3]} for index in range(101)]
    merged = merge_bins(bins, 20)
    assert len(merged) <= 20
    assert sum(one["steps"] for one in merged) == 303
    assert sum(one["replaced"][0] for one in merged) == sum(index % 4 for index in range(101))
    assert merged[1]["step"] == merged[0]["steps"]


def test_a_config_is_flattened_to_key_paths():
    assert flatten({"a": {"b": 1, "c": None}, "d": [1, 2], "e": {}}) == [
        ("a.b", "1"),
        ("a.c", ""),
        ("d", "[1, 2]"),
        ("e", "{}"),
    ]


def test_a_report_needs_neither_torch_nor_matplotlib():
    code = (
        "import sys, plankwise.report.page, plankwise.report.card, plankwise.report.figures; "
        "sys.exit(any(name in sys.modules for name in ('torch', 'transformers', 'numpy', 'matplotlib')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_report_reads_records_and_knows_nothing_of_models_and_tasks():
    folder = Path(plankwise.report.__file__).parent
    rooms = {name for file in folder.glob("*.py") for name in re.findall(r"plankwise\.(\w+)", file.read_text("utf-8"))}
    assert rooms - {"report"} <= {"errors", "files", "record", "options", "kinds"}


def test_errors_that_were_labelled_by_hand_have_a_table_of_their_own(page_of, records):
    record = records.analysed()
    rows = [{**record["analysis"]["errors"]["classes"]["rows"][0], "name": "<irony>"}]
    record["analysis"]["errors"]["hand_labels"] = {"margin": 0.03, "rows": rows, "labelled": 20, "empty": 1}
    page = page_of(record)
    assert "Labelled by hand, before and after" in page
    assert "&lt;irony&gt;" in page
