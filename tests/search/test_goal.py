"""What a plan is to reach, read from the command line; and what the command refuses."""

import pytest

from plankwise.errors import ConfigError
from plankwise.search.goal import Goal, read_goal


@pytest.mark.parametrize(
    ("given", "goal"),
    [
        (("2.5x", None, None), Goal("target", 2.5)),
        (("3", None, None), Goal("target", 3.0)),
        ((None, "20M", None), Goal("params", 20e6)),
        ((None, "1.5k", None), Goal("params", 1500)),
        ((None, None, "1%"), Goal("within", 0.01)),
        ((None, None, "0.02"), Goal("within", 0.02)),
        ((None, None, None), None),
    ],
)
def test_a_goal_is_a_speed_a_size_or_a_share(given, goal):
    assert read_goal(*given) == goal


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("0.5x", None, None), "--target is '0.5x', which is not faster than the predecessor; give more than 1x"),
        (("1x", None, None), "give more than 1x"),
        (("fast", None, None), "--target is 'fast'; give how many times as fast"),
        ((None, "few", None), "--params is 'few'; give how many parameters"),
        ((None, None, "120%"), "--within is '120%'; give the share of the score"),
        (("2x", "20M", None), "--target and --params are given; a plan is searched for one goal"),
    ],
)
def test_anything_else_is_refused(given, message):
    with pytest.raises(ConfigError) as refused:
        read_goal(*given)
    assert message in str(refused.value)
