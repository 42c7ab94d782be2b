import pytest

from plankwise.errors import ConfigError
from plankwise.sweep.space import Dimension, list_points, read_space, with_keys


def refused(*texts):
    with pytest.raises(ConfigError) as caught:
        read_space(texts, {})
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_range_over_a_decade_is_drawn_by_its_logarithm_and_a_narrow_one_is_not():
    wide, narrow = read_space(["training.learning_rate=1e-5..4e-4", "method.schedule.start=0.1..0.9"], {})
    assert wide == Dimension("training.learning_rate", (), 1e-5, 4e-4, False, True)
    assert narrow == Dimension("method.schedule.start", (), 0.1, 0.9, False, False)


def test_a_range_from_zero_has_no_logarithm():
    assert not read_space(["training.weight_decay=0..0.1"], {})[0].log


def test_whole_numbers_are_for_keys_that_take_no_others():
    whole, broken = read_space(["training.batch_size=8..16", "training.epochs=1..3"], {})
    assert whole.whole
    assert whole.listed == [str(value) for value in range(8, 17)]
    assert not broken.whole
    assert broken.listed is None


def test_values_may_hold_commas_in_brackets_and_quotes():
    (one,) = read_space(["plan.spans=[[0,1],[2,3]],[[0],[1,2,3]]"], {})
    assert one.values == ("[[0,1],[2,3]]", "[[0],[1,2,3]]")


def test_a_grid_has_every_point_once_the_last_key_changing_first():
    space = read_space(["training.lr_schedule=linear,cosine", "training.batch_size=8..9"], {})
    points = [tuple(point.values()) for point in list_points(space)]
    assert points == [("linear", "8"), ("linear", "9"), ("cosine", "8"), ("cosine", "9")]


def test_a_grid_needs_values():
    space = read_space(["training.learning_rate=1e-5..4e-4"], {})
    with pytest.raises(ConfigError, match="is a range, but --sampler is grid, which needs values"):
        list_points(space)


def test_another_method_leaves_the_keys_of_the_recipes_own_behind():
    recipe = {"method": {"name": "replacing", "schedule": {"kind": "constant"}}}
    assert with_keys(recipe, {"method.name": "kd"})["method"] == {"name": "kd"}
    assert with_keys(recipe, {"method.name": "replacing"})["method"] == recipe["method"]


def test_a_mistyped_key_is_refused_with_the_nearest_name():
    assert "learning_rate" in refused("training.learning_rat=1e-5..4e-4")


def test_a_value_that_the_key_does_not_take_is_refused_with_its_key():
    told = refused("training.lr_schedule=linear,cosin")
    assert told.startswith("--space training.lr_schedule=cosin: training.lr_schedule is 'cosin'; give 'linear'")


def test_the_end_of_a_range_that_the_key_does_not_take_is_refused():
    assert refused("training.warmup_share=0.5..1.5").startswith("--space training.warmup_share=1.5: ")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("training.epochs", "write KEY=LOW..HIGH or KEY=VALUE,VALUE"),
        ("epochs=1..2", "write KEY=LOW..HIGH"),
        ("training.epochs=", "write KEY=LOW..HIGH"),
        ("training.epochs=3..1", "give the lower end of the range first"),
        ("training.epochs=1,,2", "write values with commas between them"),
        ("training.epochs=1,1", "give each value once"),
        ("task.name=glue,table", "all trials share run, predecessor, task, evaluation, analysis"),
        ("run.seed=0,1", "all trials share"),
    ],
)
def test_what_is_not_a_space_is_refused_in_a_sentence(text, told):
    assert told in refused(text)


def test_no_space_and_a_key_given_twice_are_refused():
    assert "--space is missing" in refused()
    assert "--space has training.epochs twice" in refused("training.epochs=1,2", "training.epochs=3..4")
