"""`kill -9` at the worst moments: the same command goes on, to the very outcome of a run that was left alone."""

import random

import pytest

from outcomes import outcome
from workers import compress, compress_and_die, start, wait

KILLED = -9
MOMENTS = [
    ("optimiser.safetensors", False, 1),  # half of a checkpoint's file is written
    ("checkpoint-4", False, 1),  # a checkpoint is written, but not in its place
    ("result.json", True, 1),  # between two phases
    ("successor", False, 1),  # the last save
    ("record.json", False, 1),
    ("record.json", True, 1),  # finished, but for tidying up
]


def test_a_run_killed_in_every_write_ends_as_one_left_alone(quick_recipe, tmp_path):
    whole = start(compress, quick_recipe, [f"run.folder={tmp_path / 'whole'}"])
    for moment in MOMENTS:
        assert wait(start(compress_and_die, quick_recipe, [], *moment)) == KILLED, moment
    assert wait(start(compress, quick_recipe, [])) == 0
    assert wait(whole) == 0
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")
    assert not list((tmp_path / "run").rglob("*.part"))


OTHERS = ["cofi", "distilbert", "drop", "heads", "magnitude", "minilm", "mobilebert", "movement", "pd", "qbert", "rpp"]
OTHERS += ["tinybert"]
SETTINGS = {
    "replacing": [],
    "fitted": ["plan.init=fitted"],
    "solved": ["plan.init=solved", "plan.solving.tokens=200"],
    "kd": ["method.name=kd", "plan.init=lower"],
    "pkd": ["method.name=pkd", "plan.init=lower"],
    "layerdrop": ["method.name=layerdrop"],
    "finetune": ["method.name=finetune"],
    "exits": ["method.name=exits"],
    "solve": ["method.name=solve", "plan.solving.tokens=200"],
    "truncated": ["evaluation.truncated=true"],
    **{name: [f"method.name={name}", "plan.init=lower", "training.max_steps=12"] for name in OTHERS},
}


@pytest.mark.soak
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_run_killed_ten_times_at_random_ends_as_one_left_alone(setting, make_recipe, tmp_path, record_property):
    recipe, coins = make_recipe(*SETTINGS[setting]), random.Random(setting)
    assert wait(start(compress, recipe, [f"run.folder={tmp_path / 'whole'}"])) == 0
    ends = [wait(start(compress_and_die, recipe, [], "", coins.random() < 0.5, coins.randint(1, 4))) for _ in range(10)]
    assert set(ends) <= {KILLED, 0}
    assert wait(start(compress, recipe, [])) == 0
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")
    record_property("cases", f"{setting}: {ends.count(KILLED)} kills")
    assert ends.count(KILLED) > 0
