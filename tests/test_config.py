import tomllib

import pytest

from plankwise.config import RunConfig, load_config, validate_config
from plankwise.core.schedule import SCHEDULES
from plankwise.errors import ConfigError

TABLE = {"name": "table", "train": "a.csv", "text": ["one", "two"], "label": "y", "labels": ["no", "yes"]}
CONFIGS = {
    "defaults": {},
    "reference": {"method": {"mode": "reference"}},
    "finetune": {"method": {"name": "finetune"}},
    "table": {"task": TABLE, "run": {"name": "tables", "seed": 3}},
    "glue": {"task": {"name": "glue", "subset": "RTE", "folder": "data/RTE"}},
    "spans": {"plan": {"spans": [[0, 1], [2, 3, 4]], "init": "mean"}},
    "slots": {"plan": {"slots": [{"path": "bert.encoder.layer", "span": [0, 1]}, {"path": "bert.pooler"}]}},
    "own training": {"predecessor": {"finetune": True, "training": {"epochs": 0.5, "max_steps": 7}}},
    "quotes": {"predecessor": {"path": 'mod"els/[one] \\ two'}},
    **{f"schedule {kind}": {"method": {"schedule": {"kind": kind}}} for kind in SCHEDULES},
}


@pytest.mark.parametrize("name", CONFIGS)
def test_toml_gives_back_the_same_config(name):
    config = validate_config(CONFIGS[name])
    assert validate_config(tomllib.loads(config.to_toml())) == config


def test_toml_shows_every_section_with_its_defaults():
    data = tomllib.loads(RunConfig().to_toml())
    assert data.keys() == RunConfig.model_fields.keys()
    assert data["training"]["batch_size"] == 32
    assert data["method"]["schedule"] == {"kind": "linear", "start": 0.3, "full_at": 0.5}


def test_reference_mode_changes_defaults_but_not_what_is_given():
    config = validate_config({"method": {"mode": "reference"}, "plan": {"init": "upper"}})
    assert config.training.learning_rate == 2e-5
    assert config.plan.init == "upper"
    assert validate_config({}).training.learning_rate == 1.5e-4


@pytest.mark.parametrize(
    ("override", "read"),
    [
        ("plan.successors=4", lambda c: c.plan.successors == 4),
        ("plan.spans=[[0, 1], [2, 3]]", lambda c: c.plan.spans == [[0, 1], [2, 3]]),
        ("plan.init=upper", lambda c: c.plan.init == "upper"),
        ("plan.init='upper'", lambda c: c.plan.init == "upper"),
        ("predecessor.finetune=true", lambda c: c.predecessor.finetune is True),
        ("predecessor.path=a=b", lambda c: c.predecessor.path == "a=b"),
        ("method.schedule={kind='slope', k=0.1}", lambda c: c.method.schedule.k == 0.1),
        ("method.schedule.start=0.1", lambda c: c.method.schedule.start == 0.1),
        ("training.learning_rate=1e-3", lambda c: c.training.learning_rate == 1e-3),
        ("run.name=2024", lambda c: (c.run.name, c.run.folder) == ("2024", "runs/2024")),
    ],
)
def test_overrides_are_toml_values_or_plain_text(override, read):
    assert read(load_config(None, [override]))


def test_overrides_beat_the_recipe_and_the_recipe_names_the_run(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text("[plan]\nsuccessors = 2\ninit = 'upper'\n", "utf-8")
    config = load_config(path, ["plan.successors=3"])
    assert (config.plan.successors, config.plan.init) == (3, "upper")
    assert config.run.folder == "runs/small"


@pytest.mark.parametrize("override", ["plan.successors", "=4", ""])
def test_a_malformed_override_is_shown_with_an_example(override):
    with pytest.raises(ConfigError, match=r"is not of the form key=value, for example plan.successors=4"):
        load_config(None, [override])


def test_an_override_below_a_value_names_the_key_that_holds_it():
    with pytest.raises(ConfigError, match=r"plan.successors holds a value, not a section"):
        load_config(None, ["plan.successors=3", "plan.successors.x=4"])


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"plan": {"successors": 0}}, "plan.successors is 0; give 1 or more"),
        ({"plan": {"successors": "x"}}, "plan.successors is 'x'; give a whole number"),
        ({"training": {"batch_size": 2.5}}, "training.batch_size is 2.5; give a whole number"),
        ({"training": {"epochs": 0}}, "training.epochs is 0; give a number above 0 and up to 1000000000"),
        ({"training": {"warmup_share": 1}}, "training.warmup_share is 1; give a number of at least 0 and below 1"),
        ({"training": {"learning_rate": float("nan")}}, "training.learning_rate is nan; give a finite number"),
        (
            {"training": {"precision": "float8"}},
            "training.precision is 'float8'; give 'float32', 'bfloat16' or 'float16'",
        ),
        ({"predecessor": {"finetune": "maybe"}}, "predecessor.finetune is 'maybe'; give 'auto' or true or false"),
        ({"run": {"name": "a/b"}}, "run.name is 'a/b'; give the run's name: letters, digits, . _ -"),
        ({"predecessor": {"path": ""}}, "predecessor.path is ''; give some text"),
        ({"plan": {"chains": []}}, "plan.chains is []; give a list of at least 1"),
        ({"evaluation": {"latency_batch_sizes": [1, 0]}}, "evaluation.latency_batch_sizes.1 is 0; give 1 or more"),
        ({"task": {**TABLE, "text": {"a": 1}}}, "task.text is {'a': 1}; give text or a list"),
        ({"task": {**TABLE, "train": ""}}, "task.train is ''; give some text"),
        ({"plan": 3}, "plan is 3; give a section with keys of its own"),
        ({"run": 3}, "run is 3; give a section with keys of its own"),
        ({"method": "kd"}, "method is 'kd'; give a section, for example method.name = 'replacing'"),
        ({"task": 3}, "task is 3; give a section, for example task.name = 'reviews'"),
        ({"task": {"name": "glue"}}, "task.subset is missing; it is needed: which of the nine tasks"),
    ],
)
def test_a_wrong_value_is_shown_with_what_is_allowed(data, sentence):
    with pytest.raises(ConfigError) as caught:
        validate_config(data)
    assert str(caught.value) == sentence


def test_a_kind_must_be_named_by_text():
    with pytest.raises(ConfigError, match=r"^method.name is 3; there is no such method\. Known: "):
        validate_config({"method": {"name": 3}})


def test_a_tracker_that_transformers_does_not_know_is_refused():
    with pytest.raises(ConfigError, match=r"training.report_to.0 is 'tensorbord'; give 'tensorboard', "):
        validate_config({"training": {"report_to": ["tensorbord"]}})


@pytest.mark.parametrize(
    ("data", "key", "guess"),
    [
        ({"plan": {"sucessors": 3}}, "plan.sucessors", "successors"),
        ({"trainig": {"epochs": 3}}, "trainig", "training"),
        ({"method": {"schedule": {"strat": 0.1}}}, "method.schedule.strat", "start"),
        ({"method": {"unfreze": "head"}}, "method.unfreze", "unfreeze"),
        ({"predecessor": {"training": {"epoch": 3}}}, "predecessor.training.epoch", "epochs"),
        ({"task": {**TABLE, "trian": "b.csv"}}, "task.trian", "train"),
        ({"plan": {"slots": [{"path": "a", "spam": [0]}]}}, "plan.slots.0.spam", "span"),
    ],
)
def test_an_unknown_key_is_shown_with_the_nearest_known_one(data, key, guess):
    with pytest.raises(ConfigError) as caught:
        validate_config(data)
    assert str(caught.value).startswith(f"{key}: there is no such key")
    assert f"Did you mean {guess!r}?" in str(caught.value)


def test_all_errors_are_gathered_even_beside_an_unknown_method():
    data = {"method": {"name": "kdd"}, "plan": {"sucessors": 3}, "training": {"epochs": 0}, "task": {"name": "tabel"}}
    with pytest.raises(ConfigError) as caught:
        validate_config(data)
    lines = str(caught.value).splitlines()
    assert len(lines) == 4
    for key in ("method.name", "plan.sucessors", "training.epochs", "task.name"):
        assert any(line.startswith(key) for line in lines)


def test_the_truncated_model_may_go_by_its_earlier_name():
    config = validate_config({"evaluation": {"floor": False}})
    assert config.evaluation.truncated is False
    assert "floor" not in config.to_toml()


def test_an_option_that_a_part_does_not_have_is_refused_wherever_the_part_is_named():
    with pytest.raises(ConfigError, match=r"plan\.options\.depth: there is no such key"):
        validate_config({"plan": {"options": {"depth": 2}}})
    with pytest.raises(ConfigError, match=r"plan\.options\.depth: there is no such key"):
        validate_config({"plan": {"slots": [{"path": "a", "span": [0], "options": {"depth": 2}}]}})


def test_two_ways_to_say_the_plan_are_refused():
    with pytest.raises(ConfigError, match=r"plan: successors and spans are both given; .* keep one"):
        validate_config({"plan": {"successors": 2, "spans": [[0, 1]]}})


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"a b c", "is not TOML: .*line 1, column 3.*; write sections"),
        (b"a = '\xff'", "is not utf-8 at byte 5, and TOML must be; save it as utf-8"),
    ],
)
def test_a_recipe_that_is_not_toml_is_refused(tmp_path, content, sentence):
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=sentence):
        load_config(path, [])
