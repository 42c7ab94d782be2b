import json

import pytest

from plankwise.kinds import list_kinds, summary

BAD_VALUES = {
    "depth": "--values has the depth 'x'",
    "grid": "--values has 'x'; write an axis, = and a value, like start=0.1",
    "impact": "--values has the slot 'x'",
    "init": "--values has 'x'; there is no such init",
    "rate": "--values has the replacing rate 'x'",
    "schedule": "--values has 'x'; there is no such schedule",
    "transfer": "--values has 'x'; there is no such model",
}


@pytest.fixture
def study(command, tmp_path):
    """Runs a study in the folder `study`."""
    return lambda *arguments: command("study", *arguments, "--folder", tmp_path / "study")


@pytest.fixture
def quick(tiny_expert_folder):
    """Keys for runs of one step, from a predecessor that knows its task."""
    return [f"predecessor.path={tiny_expert_folder}", "training.max_steps=1"]


def test_help_lists_every_study_with_its_summary(command):
    result = command("study", "--help")
    words = " ".join(result.out.split())
    for name in list_kinds("studies"):
        start = summary("studies", name).split(" (")[0]
        assert f"{name} {start}"[:40] in words


def test_a_study_runs_with_overrides_values_and_seeds(study, recipe, quick, tmp_path):
    result = study("schedule", recipe, *quick, "--seeds", "2", "--values", "anti, linear")
    assert result.code == 0, result.out + result.err
    data = json.loads((tmp_path / "study" / "table.json").read_text("utf-8"))
    assert data["seeds"] == [0, 1]
    assert [arm["at"] for arm in data["tasks"][0]["arms"]] == ["anti", "linear"]
    assert "replacing: 1 steps" in result.out
    assert f"study: {tmp_path / 'study'}" in result.out.replace("\n", "")


def test_a_failed_cell_is_shown_and_makes_the_exit_code_1(study, recipe, quick):
    wild = ["training.learning_rate=1e38", "training.max_steps=3"]
    result = study("impact", recipe, *quick, *wild, "--seeds", "1", "--values", "all")
    assert result.code == 1
    assert "failed: all, seed 0: the model's outputs are not finite numbers" in " ".join(result.out.split())


def test_an_unknown_study_is_refused(study, recipe):
    result = study("schedules", recipe)
    assert result.code == 2
    assert "study is 'schedules'; there is no such study. Did you mean 'schedule'?" in result.err


@pytest.mark.parametrize("name", list_kinds("studies"))
def test_bad_values_are_refused_before_anything_is_trained(name, study, recipe, tmp_path):
    second = tmp_path / "second.toml"
    second.write_text(recipe.read_text("utf-8"), "utf-8")
    result = study(name, recipe, second, "--values", "x")
    assert result.code == 2
    assert BAD_VALUES[name] in result.err
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize("values", ["", "a,,b", ","])
def test_empty_values_are_refused(values, study, recipe):
    result = study("init", recipe, "--values", values)
    assert result.code == 2
    assert f"--values is {values!r}; give values with commas between them" in result.err


def test_no_seeds_are_refused(study, recipe):
    result = study("init", recipe, "--seeds", "0")
    assert result.code == 2
    assert "--seeds is 0; give 1 or more" in result.err


def test_overrides_without_a_recipe_are_refused(study):
    result = study("init", "training.epochs=1")
    assert result.code == 2
    assert "no recipe is given, only training.epochs=1" in result.err


def test_the_folder_is_named_after_the_study_and_the_recipe(command, recipe, quick, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = command("study", "init", recipe, "--seeds", "1", "--values", "lower", *quick)
    assert result.code == 0, result.out + result.err
    assert (tmp_path / "runs" / "study-init-tiny" / "table.md").is_file()
