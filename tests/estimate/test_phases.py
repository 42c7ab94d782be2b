import json

import pytest

from plankwise.estimate.phases import Estimate, Phase, duration


def test_an_estimate_adds_up_and_its_memory_is_of_the_phase_that_takes_most():
    estimate = Estimate(prediction={"tokens": 6, "predecessor": 20, "successor": 10})
    estimate.phases = {"replacing": Phase(30.0, 100), "evaluations": Phase(4.0)}
    estimate.memory = {
        "replacing": {"weights": 10**6, "activations": 10**6},
        "truncated": {"weights": 10**6, "activations": 3 * 10**6},
    }
    found = estimate.to_json()
    assert json.loads(json.dumps(found)) == found
    assert found["phases"] == {
        "replacing": {"estimated": 30.0, "steps": 100},
        "evaluations": {"estimated": 4.0, "steps": None},
    }
    assert found["seconds"] == {"estimated": 34.0}
    assert found["multiply_adds"] == {"prediction": {"tokens": 6, "predecessor": 20, "successor": 10}}
    parts = {"weights": 1.0, "activations": 3.0}
    assert found["memory"] == {"phase": "truncated", "estimated_mb": 4.0, "parts_mb": parts}


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.34, "0.3 s"), (42.2, "42 s"), (190, "3 min"), (5399, "90 min"), (9000, "2.5 h")]
)
def test_a_duration_is_told_in_the_unit_that_suits_it(seconds, text):
    assert duration(seconds) == text
