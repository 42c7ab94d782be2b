import pytest

from plankwise.errors import ConfigError
from plankwise.studies import schedule
from plankwise.studies._trials import configure


def schedules(request):
    (trial,) = schedule.plan(request)
    return {arm.at: configure(trial.recipe, request.folder, 0, arm.overrides).method.schedule for arm in trial.arms}


def test_anti_is_one_minus_the_recipes_own_curriculum_and_ends_at_zero(request_for):
    found = schedules(request_for("schedule", "method.schedule={ start = 0.1, full_at = 0.7 }"))
    for step in range(100):
        assert found["anti"](step, 100) == 1 - found["linear"](step, 100)
    assert found["linear"](0, 100) == 0.1
    assert found["anti"](70, 100) == 0


def test_the_constant_rate_ends_where_the_curriculum_does(request_for):
    found = schedules(request_for("schedule", "method.schedule.full_at=0.7"))
    assert [found["constant"](step, 10) for step in (0, 6, 7)] == [0.5, 0.5, 1]


def test_a_constant_recipe_keeps_its_rate(request_for):
    found = schedules(request_for("schedule", 'method.schedule={ kind = "constant", rate = 0.9 }'))
    assert found["constant"](0, 10) == 0.9


def test_every_schedule_that_there_is_can_be_asked_for(request_for):
    assert list(schedules(request_for("schedule", values=["slope", "steps", "cosine"]))) == ["slope", "steps", "cosine"]


def test_an_unknown_schedule_is_refused(request_for):
    with pytest.raises(ConfigError, match="--values has 'lineer'; there is no such schedule"):
        schedule.plan(request_for("schedule", values=["lineer"]))
