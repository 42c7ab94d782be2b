"""What every file in studies/ offers, and that every one of them runs."""

import json
import signal
from dataclasses import replace

import pytest

from plankwise.errors import ConfigError, DataError
from plankwise.kinds import list_kinds, load_kind, summary
from plankwise.studies import Axis, Published, find_study, run_study
from plankwise.training.interruption import InterruptedRunError

STUDIES = list_kinds("studies")


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_offers_the_contract(name):
    study = load_kind("studies", name, key="study")
    assert summary("studies", name).endswith(".")
    assert len(summary("studies", name)) <= 120
    assert isinstance(study.AXIS, Axis)
    assert study.MIN_RECIPES >= 1
    assert callable(study.plan)
    assert callable(study.measure)


@pytest.mark.parametrize("name", STUDIES)
def test_published_figures_name_their_source_and_fill_their_columns(name):
    published = load_kind("studies", name, key="study").PUBLISHED
    assert isinstance(published, Published)
    assert published.source.startswith(("Xu et al. 2020, ", "thesis, "))
    assert published.setting
    assert published.rows or published.remark
    for figures in published.rows.values():
        assert len(figures) == len(published.columns)


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_runs_and_writes_its_tables_and_plots(name, request_for, printed):
    study = load_kind("studies", name, key="study")
    names = ("tiny", "other")[: study.MIN_RECIPES]
    values = list(study.VALUES[-2:]) if hasattr(study, "VALUES") else None  # two are enough to see it run
    request = request_for(name, "training.max_steps=1", values=values, names=names)
    results = run_study(request)
    assert not any(measured.failures for measured in results)
    data = json.loads((request.folder / "table.json").read_text("utf-8"))
    assert [task["task"] for task in data["tasks"]] == [names[-1]]
    assert data["published"]["source"] == study.PUBLISHED.source
    assert all(cell["score"] is not None for arm in data["tasks"][0]["arms"] for cell in arm["cells"])
    assert (request.folder / "plot.svg").read_text("utf-8").rstrip().endswith("</svg>")
    assert (request.folder / "plot.png").read_bytes().startswith(b"\x89PNG")
    marked = f"published, not measured here: {study.PUBLISHED.source}"
    assert f"## {marked}" in (request.folder / "table.md").read_text("utf-8")
    assert marked in printed(request)
    assert max(len(line.rstrip()) for line in printed(request).splitlines()) <= 100


def test_a_finished_study_is_not_trained_again(request_for, printed):
    first, second = (request_for("impact") for _ in range(2))
    before, after = run_study(first), run_study(second)
    assert before == after
    assert "replacing: 2 steps" in printed(first)
    assert "replacing: 2 steps" not in printed(second)


def test_a_study_that_is_stopped_goes_on_and_ends_as_one_left_alone(request_for, stopping, tmp_path):
    whole = request_for("impact", "plan.init=random")
    stopped = replace(whole, folder=tmp_path / "stopped", console=stopping("replacing: step 2/2", signal.SIGINT))
    with pytest.raises(InterruptedRunError, match=r"^stopped at step 2 of 2; the same command goes") as error:
        run_study(stopped)
    assert error.value.exit_code == 128 + signal.SIGINT
    assert not list(stopped.folder.glob("table.*"))
    assert run_study(replace(stopped, console=whole.console)) == run_study(whole)


def test_an_unknown_study_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigError, match=r"study is 'schedul'; there is no such study\. Did you mean 'schedule'\?"):
        find_study("schedul")


def test_two_recipes_of_one_name_are_refused(request_for):
    with pytest.raises(ConfigError, match=r"two recipes have the run\.name 'tiny'"):
        run_study(request_for("init", names=("tiny", "tiny")))


def test_too_few_recipes_are_refused(request_for):
    with pytest.raises(ConfigError, match="study transfer needs at least 2 recipes, but 1 is given"):
        run_study(request_for("transfer"))


def test_the_last_recipes_data_are_read_before_the_first_is_trained(request_for):
    request = request_for("init", names=("tiny", "other"))
    request.recipes[1]["task"]["label"] = "nowhere"
    with pytest.raises(DataError, match="nowhere"):
        run_study(request)
    assert not request.folder.exists()


@pytest.mark.parametrize("name", ["depth", "impact", "init", "rate", "schedule"])
def test_a_study_of_replacing_refuses_another_method(name, request_for):
    with pytest.raises(ConfigError, match=r"is about replacing, but method\.name is 'finetune' in the recipe tiny"):
        run_study(request_for(name, "method.name=finetune"))
