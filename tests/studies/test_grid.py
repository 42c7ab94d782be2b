import json
import re

import pytest

from plankwise.errors import ConfigError
from plankwise.report.page import write_report
from plankwise.studies import Measured, Point, grid, run_study
from plankwise.studies._plot import write_plots
from plankwise.studies._trials import configure


def configs(request):
    (trial,) = grid.plan(request)
    return {arm: configure(trial.recipe, request.folder, 0, arm.overrides) for arm in trial.arms}


def test_every_arm_is_one_place_of_the_grid_and_no_two_share_a_folder(request_for):
    found = configs(request_for("grid", "training.learning_rate=4e-5"))
    places = [
        (config.training.learning_rate, config.method.schedule.start, config.method.schedule.full_at)
        for config in found.values()
    ]
    shares = (0.05, 0.85, 1.0)
    assert places == [(rate, start, share) for rate in (2e-5, 4e-5) for start in (0.1, 0.9) for share in shares]
    assert len({arm.label for arm in found}) == 12


def test_an_axis_that_is_not_named_stays_as_the_recipe_has_it(request_for):
    own = ("training.learning_rate=4e-5", 'method.schedule={ kind = "cosine", start = 0.2, full_at = 0.6 }')
    found = configs(request_for("grid", *own, "plan.init=upper", values=["full_at=0.3", "full_at=0.9"]))
    for config, share in zip(found.values(), (0.3, 0.9), strict=True):
        schedule = config.method.schedule
        assert (type(schedule).__name__, schedule.start, schedule.full_at) == ("Cosine", 0.2, share)
        assert (config.training.learning_rate, config.plan.init) == (4e-5, "upper")


def test_a_recipe_without_a_rising_schedule_gets_the_linear_one(request_for):
    request = request_for("grid", 'method.schedule={ kind = "constant", rate = 0.5 }', values=["start=0.7"])
    ((arm, config),) = configs(request).items()
    assert (config.method.schedule(0, 10), config.method.schedule(5, 10)) == (0.7, 1.0)
    assert (arm.row, arm.at) == ("0.7", "0.5")


def test_rules_to_start_by_are_rows_too(request_for):
    found = configs(request_for("grid", values=["init=lower", "init=upper", "start=0.1", "start=0.9"]))
    assert [arm.row for arm in found] == ["0.1, lower", "0.9, lower", "0.1, upper", "0.9, upper"]
    assert [config.plan.init for config in found.values()] == ["lower", "lower", "upper", "upper"]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (
            "0.5",
            "--values has '0.5'; write an axis, = and a value, like start=0.1; axes are learning_rate, init, start",
        ),
        ("strat=0.5", "--values has 'strat=0.5'; there is no such axis. Did you mean 'start'?"),
        ("start=2", "--values has start=2; give a number from 0 to 1"),
        ("full_at=0", "--values has full_at=0; give a number above 0 and up to 1"),
        ("learning_rate=fast", "--values has learning_rate=fast; give a number above 0 and up to 1"),
        ("init=lowest", "--values has 'lowest'; there is no such init"),
    ],
)
def test_what_is_no_place_on_an_axis_is_refused(value, why, request_for):
    with pytest.raises(ConfigError, match=re.escape(why)):
        grid.plan(request_for("grid", values=[value]))


def test_the_picture_has_a_map_for_each_learning_rate(request_for, folder):
    (trial,) = grid.plan(request_for("grid", "training.learning_rate=4e-5"))
    points = [Point(arm, 0, 0.5 + index / 100) for index, arm in enumerate(trial.arms)]
    points[-1] = Point(trial.arms[-1], 0, None, "no")  # leaves its field empty
    write_plots([Measured("tiny", "accuracy", trial.arms, points, 0.9)], grid.AXIS, "grid", folder)
    shown = re.findall(r"<text[^>]*>([^<]*)</text>", (folder / "plot.svg").read_text("utf-8"))
    for rate in ("2e-05", "4e-05"):
        assert f"study grid: tiny, learning rate {rate}" in shown
    assert shown.count(grid.AXIS.name) == shown.count(grid.AXIS.rows) == 2


def test_the_page_shows_the_medians_as_heat_maps(request_for):
    request = request_for("grid", "training.max_steps=1", values=["start=0.1", "full_at=0.5", "full_at=1"])
    run_study(request)
    (task,) = json.loads((request.folder / "table.json").read_text("utf-8"))["tasks"]
    page = write_report([request.folder], request.folder / "page.html").read_text("utf-8")
    fields = re.findall(r'<rect class="mark heat"[^>]*>', page)
    assert len(fields) == len(task["arms"]) == 2
    assert all(f"0.1 × {arm['at']}: {arm['median']:.4f}" in page for arm in task["arms"])
