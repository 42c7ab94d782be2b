"""Grades of effort: what each sets, does and leaves in the record."""

import io
import shutil
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from rich.console import Console
from transformers import AutoConfig, AutoModelForSequenceClassification

import plankwise
from plankwise.config import load_config, validate_config
from plankwise.efforts import read_duration
from plankwise.errors import ConfigError, PlanError
from plankwise.record import read_record
from plankwise.run import inputs
from plankwise.run.compress import compress
from plankwise.run.folders import discard_untrained
from plankwise.run.searching import METHODS, RATES, SEEDS
from workers import compress as compress_recipe
from workers import kill_when, start, wait

QUIET = Console(quiet=True)
LEAST = ["evaluation.latency=false", "plan.solving.tokens=200", "evaluation.ignore_guards=['majority']"]


HOURS = [*LEAST, "run.effort=hours", "training.max_steps=9", "evaluation.estimate=false"]


def run(recipe, *overrides):
    return compress(load_config(recipe, [*LEAST, *overrides]), QUIET)


@pytest.fixture(scope="module")
def searched(tmp_path_factory, tiny, tiny_model_folder):
    """A run that has searched for hours: its recipe, its record, and what it printed."""
    folder = tmp_path_factory.mktemp("searched")
    recipe = tiny.save_recipe(folder / "tiny.toml", tiny.save_table(folder / "reviews.csv"), tiny_model_folder)
    console = Console(record=True, width=200, file=io.StringIO())
    record = compress(load_config(recipe, HOURS), console)
    return SimpleNamespace(recipe=recipe, record=record, lines=console.export_text().splitlines())


def test_in_seconds_nothing_is_trained(recipe):
    record = run(recipe, "run.effort=seconds")
    assert (record["steps"], record["init"], record["config"]["method"]["name"]) == (0, "solved", "solve")
    assert record["effort"]["grade"] == "seconds"
    assert "truncated" not in record
    assert record["solving"]["effect"] <= record["solving"]["effect_before"]


def test_in_seconds_all_layers_stay_the_higher_the_thinner(unplanned, tmp_path):
    record = run(unplanned, f"run.folder={tmp_path / 'seconds'}", "run.effort=seconds")
    assert [slot["span"] for slot in record["plan"]] == [(1,), (2,), (3,)]  # of four: the lowest stays as it is
    assert [slot["options"]["ffn"] for slot in record["plan"]] == [0.5, 0.125, 0.125]
    assert "all layers stay, the higher the thinner" in record["effort"]["why"]
    assert plankwise.load(tmp_path / "seconds" / "successor").config.model_type == "plankwise"


def test_in_minutes_solved_successors_are_trained(recipe):
    record = run(recipe, "run.effort=minutes")
    assert list(record["stages"])[-2:] == ["solving", "replacing"]
    assert record["steps"] == 2  # the recipe's own number goes before the effort's


@pytest.fixture(scope="module")
def unplanned(tmp_path_factory, tiny, tiny_model_folder):
    """A recipe that says nothing of the plan."""
    folder = tmp_path_factory.mktemp("unplanned")
    path = tiny.save_recipe(folder / "tiny.toml", tiny.save_table(folder / "reviews.csv"), tiny_model_folder)
    path.write_text(path.read_text("utf-8").replace("[plan]", "").replace("successors = 2", ""), "utf-8")
    return path


def test_in_minutes_all_layers_stay_thinner_and_are_a_plain_checkpoint(unplanned):
    record = run(unplanned, "run.effort=minutes")
    assert {slot["part"] for slot in record["plan"]} == {"thin"}
    assert "all layers stay, thinner" in record["effort"]["why"]
    before, after = (
        AutoConfig.from_pretrained(unplanned.parent / "run" / name) for name in ("predecessor", "successor")
    )
    assert after.model_type == before.model_type
    assert after.num_hidden_layers == before.num_hidden_layers
    assert after.intermediate_size == before.intermediate_size // 4


def test_hours_compare_thin_layers_too_and_start_from_them_if_they_are_nearest(unplanned, tmp_path):
    record = run(unplanned, f"run.folder={tmp_path / 'hours'}", *HOURS)
    plans = record["effort"]["plans"]
    assert [plan["cut"] for plan in plans if plan.get("part") == "thin"] == ["each", "tapered"]
    nearest = min(plans, key=lambda plan: plan["effect"])
    assert nearest.get("part") == record["effort"]["chosen"].get("part") == "thin"
    assert nearest["cut"] == record["effort"]["chosen"]["cut"]
    assert {slot["part"] for slot in record["plan"]} == {"thin"}


def test_fewer_and_thin_layers_are_not_said_to_be_all_layers(unplanned, tmp_path):
    record = run(
        unplanned,
        f"run.folder={tmp_path}",
        "run.effort=seconds",
        "plan.part=thin",
        "plan.options.ffn=0.5",
        "plan.successors=2",
    )
    assert "all layers stay" not in record["effort"]["why"]


@pytest.mark.parametrize(("effort", "told"), [("minutes", True), (None, False)])
def test_where_layers_cannot_be_thinned_it_is_said_what_makes_fewer_of_them(effort, told, recipe, monkeypatch):
    monkeypatch.setattr(inputs, "try_plan", Mock(side_effect=PlanError("slot 1 cannot be thinned")))
    config = validate_config({"run": {"effort": effort}, "plan": {"part": "thin", "cut": "each"}})
    model = AutoModelForSequenceClassification.from_pretrained(load_config(recipe, []).predecessor.path)
    with pytest.raises(PlanError) as raised:
        inputs.check_plan(config, model)
    assert ("for fewer layers set plan.cut = 'late'" in str(raised.value)) == told


def test_a_plan_that_says_what_replaces_blocks_is_not_made_thin():
    config = validate_config({"run": {"effort": "minutes"}, "plan": {"successors": 2}})
    assert (config.plan.part, config.plan.cut, config.training.learning_rate) == ("layers", "late", 1.5e-4)
    config = validate_config({"run": {"effort": "minutes"}, "plan": {"vocabulary": ["task"]}})
    assert (config.plan.part, config.plan.cut, config.training.learning_rate) == ("thin", "each", 5e-5)
    config = validate_config({"run": {"effort": "seconds"}, "plan": {"successors": 2}})
    assert (config.plan.part, config.plan.cut, config.plan.init) == ("layers", "late", "solved")
    config = validate_config({"run": {"effort": "seconds"}, "task": {"name": "embedding", "path": "texts.txt"}})
    assert (config.plan.part, config.plan.cut, config.plan.options) == ("thin", "each", {"ffn": 0.25})


def test_the_time_says_how_many_steps_there_are(recipe):
    many = ["training.max_steps=100000", "training.evaluate_every=100000"]
    record = run(recipe, "run.effort=minutes", "run.within=5s", *many)
    steps = record["effort"]["steps"]
    assert record["steps"] == steps["taken"] == steps["fitting"] < steps["wanted"] == 100000


def test_a_time_that_is_too_short_for_a_step_is_refused(recipe):
    with pytest.raises(ConfigError, match=r"run\.within is 0\.01s, but what cannot be shortened takes about"):
        run(recipe, "run.effort=minutes", "run.within=0.01s")
    assert not (recipe.parent / "run").exists()


def test_what_is_trained_already_stays_when_the_time_is_too_short(tmp_path):
    for trained in ("predecessor", "checkpoints/predecessor"):
        (tmp_path / trained).mkdir(parents=True)
        discard_untrained(tmp_path)
        assert (tmp_path / trained).is_dir()
        shutil.rmtree(tmp_path / trained)
    discard_untrained(tmp_path)
    assert not tmp_path.exists()


def test_hours_search_plan_method_and_rate_and_say_why(searched):
    effort = searched.record["effort"]
    settings = {(trial["method"], trial["rate"]) for trial in effort["trials"]}
    assert settings == {(method, rate) for method in METHODS for rate in RATES}
    assert [trial["steps"] for trial in effort["trials"]].count(1) == len(settings)
    assert len([trial for trial in effort["trials"] if trial["steps"] == 9]) == SEEDS
    best = max((trial for trial in effort["trials"] if trial["steps"] == 9), key=lambda trial: trial["score"])
    assert effort["chosen"]["seed"] == best["seed"]
    assert effort["plans"][0]["spans"] is None
    assert effort["chosen"]["spans"] == min(effort["plans"], key=lambda plan: plan["effect"])["spans"]


def test_what_hours_choose_by_is_not_called_dev(searched):
    scored = [line for line in searched.lines if "replacing: step" in line]
    assert scored
    assert all("  kept-out examples " in line and "  dev " not in line for line in scored)


def test_what_hours_choose_by_is_neither_trained_on_nor_reported(searched, tmp_path):
    before = run(searched.recipe, f"run.folder={tmp_path / 'minutes'}", "run.effort=minutes")["task"]
    task = searched.record["task"]
    assert before["choosing"] is None
    assert task["choosing"] > 0
    assert task["train"] + task["choosing"] == before["train"]
    assert task["dev"] == before["dev"]


def test_a_search_that_was_killed_goes_on_to_the_same_end(searched, tmp_path):
    whole, killed = searched.record, tmp_path / "killed"
    command = str(searched.recipe), [*HOURS, f"run.folder={killed}"], str(tmp_path / "output.txt")
    process = start(compress_recipe, *command)
    kill_when(process, lambda: len(list((killed / "checkpoints" / "search").glob("*kd*"))) > 1)
    assert not (killed / "record.json").exists()
    assert wait(start(compress_recipe, *command)) == 0, (tmp_path / "output.txt").read_text("utf-8")
    again = read_record(killed)
    assert again["effort"] == whole["effort"]
    assert again["successor"]["score"] == whole["successor"]["score"]


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("20min", 1200), ("1.5h", 5400), ("2 m", 120)])
def test_a_time_has_a_unit(text, seconds):
    assert read_duration(text) == seconds


@pytest.mark.parametrize("text", ["20", "min", "0s", "five minutes", "-1h"])
def test_what_is_not_a_time_is_refused(text):
    with pytest.raises(ConfigError, match=r"run\.within is .*for example 90s, 20min or 2h"):
        validate_config({"run": {"within": text}})


@pytest.mark.parametrize(("within", "effort"), [("60s", "seconds"), ("5min", "minutes"), ("1h", "hours")])
def test_the_time_says_the_effort_if_nothing_else_does(within, effort):
    assert validate_config({"run": {"within": within}}).run.effort == effort


def test_keys_of_the_recipe_go_before_those_of_the_effort():
    config = validate_config({"run": {"effort": "minutes"}, "training": {"epochs": 2}, "plan": {"init": "lower"}})
    assert (config.training.epochs, config.training.max_steps, config.plan.init) == (2, None, "lower")


def test_a_method_that_trains_contradicts_seconds():
    with pytest.raises(
        ConfigError, match=r"run\.effort is 'seconds', in which nothing is trained, but method\.name is 'kd'"
    ):
        validate_config({"run": {"effort": "seconds"}, "method": {"name": "kd"}})
