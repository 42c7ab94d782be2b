import pytest

from plankwise.errors import ConfigError
from plankwise.studies import init
from plankwise.studies._trials import configure


def test_every_rule_is_a_plan_of_its_own(request_for):
    request = request_for("init", values=list(init.KNOWN))
    (trial,) = init.plan(request)
    found = [configure(trial.recipe, request.folder, 0, arm.overrides).plan.init for arm in trial.arms]
    assert found == list(init.KNOWN)


def test_an_unknown_rule_is_refused(request_for):
    with pytest.raises(ConfigError, match="--values has 'midle'; there is no such init"):
        init.plan(request_for("init", values=["midle"]))


def test_the_published_difference_on_mimic_is_the_one_the_text_gives():
    rows, columns = init.PUBLISHED.rows, init.PUBLISHED.columns
    column = columns.index("AUC lower")
    assert round(rows["LM + MIMIC-III"][column] - rows["MIMIC-III"][column], 4) == 0.0342
