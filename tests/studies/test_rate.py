import pytest
from hypothesis import given
from hypothesis import strategies as st

from plankwise.errors import ConfigError
from plankwise.studies import rate
from plankwise.studies._trials import configure


def configs(request):
    (trial,) = rate.plan(request)
    return {arm: configure(trial.recipe, request.folder, 0, arm.overrides) for arm in trial.arms}


def test_the_equivalent_series_trains_at_base_by_rate_and_the_other_at_base(request_for):
    for arm, config in configs(request_for("rate", "training.learning_rate=3e-5")).items():
        expected = 3e-5 / float(arm.at) if arm.series == rate.EQUIVALENT else 3e-5
        assert config.training.learning_rate == expected


@given(st.floats(1e-6, 1e-2), st.floats(0.01, 1))
def test_a_successor_learns_at_the_base_on_average(base, share):
    assert rate.equivalent_rate(base, share) * share == pytest.approx(base, rel=1e-12)


def test_the_rate_is_constant_up_to_the_recipes_share_and_then_one(request_for):
    for arm, config in configs(request_for("rate", "method.schedule.full_at=0.8")).items():
        rates = [config.method.schedule(step, 10) for step in range(10)]
        assert rates == [float(arm.at)] * 8 + [1.0, 1.0]


def test_both_series_try_the_same_rates(request_for):
    arms = list(configs(request_for("rate", values=["0.2", "1"])))
    assert [arm.at for arm in arms if arm.series == rate.FIXED] == ["0.2", "1"]
    assert [arm.at for arm in arms if arm.series == rate.EQUIVALENT] == ["0.2", "1"]


@pytest.mark.parametrize("value", ["0", "-0.1", "1.5", "nan", "half"])
def test_what_is_no_rate_is_refused(value, request_for):
    with pytest.raises(
        ConfigError, match=f"--values has the replacing rate '{value}'; give numbers above 0 and up to 1"
    ):
        rate.plan(request_for("rate", values=["0.5", value]))
