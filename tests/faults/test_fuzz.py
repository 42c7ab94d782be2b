"""Bad input by the thousand: whatever a user gives is taken as it is or refused in a sentence, and never a traceback.

The few cases in `make test` are always the same; `make soak` has thousands, and says how many.
"""

import csv
import io
import json
import runpy
import tomllib
from dataclasses import asdict
from pathlib import Path

import inputs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plankwise.cli.report import command as report
from plankwise.config import load_config, validate_config
from plankwise.core.plan import Plan
from plankwise.data.corpus import find_shards, read_shard
from plankwise.data.pieces import Layout
from plankwise.data.tables import read_table
from plankwise.errors import PlankwiseError
from plankwise.files import read_as
from plankwise.options import validate
from plankwise.plan_options import PlanOptions
from plankwise.training.stage import StageResult

QUICK = 25
MANY = {"records": 3000, "tables": 3000, "rows": 3000, "corpora": 3000}  # others: 5000
RECORD = runpy.run_path(str(Path(__file__).parents[1] / "report" / "conftest.py"))
RESULT = asdict(StageResult("x", 3, 4, 1.0, 0.5, 2, 0.7, [{"step": 1, "loss": 0.5}], {"score": 0.5}))


def check_config(data, folder):
    config = validate_config(data)
    assert validate_config(tomllib.loads(config.to_toml())) == config


def check_override(override, folder):
    load_config(None, [override])


def check_recipe(content, folder):
    (folder / "recipe.toml").write_bytes(content)
    load_config(folder / "recipe.toml", [])


def check_table(case, folder):
    from plankwise.tasks.table import Options, read

    (ending, content), layout = case
    file = folder / f"reviews{ending}"
    file.write_bytes(content)
    read(validate(Options, {"name": "table", "train": str(file), "text": "sentence", "label": "label", **layout}))


def check_rows(rows, folder):
    """What was written is what is read, cell by cell."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([["a", "b"], *rows])
    (folder / "rows.csv").write_text(text.getvalue(), "utf-8", newline="")
    found = read_table(folder / "rows.csv", ["a", "b"], Layout(), key="task.train", tell=lambda *told: None)
    assert list(map(list, zip(*(found[name].to_pylist() for name in "ab"), strict=True))) == rows


def check_corpus(case, folder):
    (ending, content), unit, encoding = case
    file = folder / f"corpus{ending}"
    file.write_bytes(content)
    column = None if ending == ".txt" else "sentence"
    for shard in find_shards(str(file), unit=unit, column=column, encoding=encoding, key="task.path"):
        assert all(isinstance(text, str) and text for text in read_shard(shard, tell=lambda *told: None))


def check_plan(data, folder):
    plan = Plan.from_json(data)
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))).slots == plan.slots


def check_section(data, folder):
    from plankwise.models.plans import make_plan

    make_plan(check_section.model, validate(PlanOptions, data, prefix="plan."))


def check_result(content, folder):
    (folder / "result.json").write_bytes(content)
    assert isinstance(read_as(folder / "result.json", StageResult), StageResult)


def check_record(record, folder):
    (folder / "record.json").write_text(json.dumps(record), "utf-8")
    report([folder], folder / "report.html", None)


cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=12)
filled = st.tuples(cells.filter(str.strip), cells).map(list)
corpora = st.one_of(inputs.tables, st.tuples(st.just(".txt"), inputs.changed(b"a text\nanother one\n" * 4)))
analysed = {**RECORD["make_record"](), "analysis": {"cost": RECORD["make_cost"](), "errors": RECORD["make_errors"](3)}}
FUZZED = {
    "configs": (check_config, inputs.configs()),
    "overrides": (check_override, inputs.overrides),
    "recipes": (check_recipe, inputs.recipes),
    "tables": (check_table, st.tuples(inputs.tables, inputs.layouts)),
    "rows": (check_rows, st.lists(filled, min_size=1, max_size=5)),
    "corpora": (
        check_corpus,
        st.tuples(corpora, st.sampled_from(["line", "file"]), st.sampled_from(["utf-8", "latin-1"])),
    ),
    "plans": (check_plan, inputs.plans),
    "plan sections": (check_section, inputs.sections),
    "results": (check_result, inputs.as_json(RESULT)),
    "records": (check_record, inputs.damaged(analysed)),
}


@pytest.fixture
def fuzz(tmp_path, record_property):
    """Gives so many cases of a name to its check, each of which may raise what the command line prints as a sentence."""
    from stages import make_bert

    check_section.model = make_bert()

    def run(name: str, count: int) -> None:
        check, strategy = FUZZED[name]
        seen = refused = 0

        @settings(
            max_examples=count, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
        )
        @given(strategy)
        def try_out(case: object) -> None:
            nonlocal seen, refused
            seen += 1
            try:
                check(case, tmp_path)
                return
            except PlankwiseError as error:
                said = str(error)
            refused += 1
            assert 0 < len(said) < 5_000
            assert said.encode("utf-8")

        try_out()
        assert seen > 0
        record_property("cases", f"{name}: {seen} ({refused} refused)")

    return run


@pytest.mark.parametrize("name", FUZZED)
def test_bad_input_is_taken_or_refused_in_a_sentence(name, fuzz):
    fuzz(name, QUICK)


@pytest.mark.soak
@pytest.mark.parametrize("name", FUZZED)
def test_bad_input_by_the_thousand_is_taken_or_refused_in_a_sentence(name, fuzz):
    fuzz(name, MANY.get(name, 5000))
