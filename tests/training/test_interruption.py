"""When a signal stops a run at once, and when after a step."""

import signal

import pytest

from plankwise.training.interruption import InterruptedRunError, interruptible, requested, stopping_after_a_step

pytestmark = pytest.mark.signals


def test_outside_of_training_a_signal_stops_at_once_even_where_failures_are_caught():
    went_on = False

    def swallow() -> None:
        nonlocal went_on
        with interruptible():
            try:
                signal.raise_signal(signal.SIGTERM)
            except Exception:
                went_on = True
            went_on = True

    with pytest.raises(InterruptedRunError, match=r"^stopped by SIGTERM; the same command goes on") as stopped:
        swallow()
    assert not went_on
    assert stopped.value.exit_code == 128 + signal.SIGTERM


def test_in_training_the_first_signal_is_noted_and_the_second_stops_at_once():
    def stop_twice() -> None:
        with interruptible(), stopping_after_a_step():
            signal.raise_signal(signal.SIGINT)
            assert requested() == signal.SIGINT
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(
        InterruptedRunError, match=r"^stopped; the same command goes on from the last checkpoint$"
    ) as stopped:
        stop_twice()
    assert stopped.value.exit_code == 128 + signal.SIGINT
    assert requested() is None
