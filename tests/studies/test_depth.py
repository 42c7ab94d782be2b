import pytest

from plankwise.errors import ConfigError, PlanError
from plankwise.studies import depth
from plankwise.studies._trials import configure


def depths(request):
    (trial,) = depth.plan(request)
    return {series: [arm.at for arm in trial.arms if arm.series == series] for series in ("replaced", "truncated")}


@pytest.mark.parametrize(("layers", "expected"), [(12, ["6", "4", "3"]), (6, ["3", "2"]), (4, ["2", "1"])])
def test_halves_thirds_and_quarters_that_come_out_even_are_tried(layers, expected, tiny, tmp_path, request_for):
    folder = tiny.save_bert(tmp_path / "deep", num_hidden_layers=layers)
    assert depths(request_for("depth", f"predecessor.path={folder}")) == {"replaced": expected, "truncated": expected}


def test_a_depth_without_even_parts_is_refused(tiny, tmp_path, request_for):
    folder = tiny.save_bert(tmp_path / "five", num_hidden_layers=5)
    with pytest.raises(PlanError, match="a predecessor of 5 layers has no even half, third or quarter"):
        depth.plan(request_for("depth", f"predecessor.path={folder}"))


def test_truncation_is_trained_as_the_truncated_model_of_compress_is(request_for):
    request = request_for("depth", "training.learning_rate=1e-3", "plan.init=upper")
    (trial,) = depth.plan(request)
    for arm in trial.arms:
        config = configure(trial.recipe, request.folder, 0, arm.overrides)
        assert config.plan.successors == int(arm.at)
        assert config.plan.init == "upper"
        truncated = arm.series == depth.TRUNCATED
        assert config.method.name == ("finetune" if truncated else "replacing")
        assert config.training.learning_rate == (1e-4 if truncated else 1e-3)
        assert config.training.max_steps == 2


@pytest.mark.parametrize("value", ["0", "2.5", "two", "-1"])
def test_what_is_no_depth_is_refused(value, request_for):
    with pytest.raises(ConfigError, match=f"--values has the depth '{value}'; give whole numbers from 1 on"):
        depth.plan(request_for("depth", values=[value]))


def test_a_depth_that_does_not_divide_is_refused(request_for):
    with pytest.raises(PlanError, match="do not divide into 3 equal spans; choose 1, 2 or 4"):
        depth.plan(request_for("depth", values=["3"]))


def test_a_recipe_that_lists_spans_is_refused(request_for):
    request = request_for("depth")
    request.recipes[0]["plan"] = {"spans": [[0, 1]]}
    with pytest.raises(ConfigError, match=r"sets plan\.successors, but the recipe tiny has plan\.spans"):
        depth.plan(request)
