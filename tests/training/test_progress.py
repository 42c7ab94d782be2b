"""How far a stage is: a bar on a terminal, elsewhere a line now and then with the time that is left."""

import io
from types import SimpleNamespace

from rich.console import Console

from plankwise.training.callbacks import ProgressShower, Show


def follow(
    max_steps: int, seconds_a_step: float, *, first: int = 0, terminal: bool = False, evaluate_every: int = 0
) -> list[str]:
    """What is printed in a stage whose steps all take as long."""
    now = 100.0
    console = Console(file=io.StringIO(), width=200, force_terminal=terminal, highlight=False)
    shower = ProgressShower("replacing", console, lambda: "", Show(), clock=lambda: now)
    state = SimpleNamespace(global_step=first, max_steps=max_steps)
    shower.on_train_begin(None, state, None)
    for step in range(first + 1, max_steps + 1):
        now += seconds_a_step
        state.global_step = step
        shower.on_step_end(None, state, None)
        if evaluate_every and step % evaluate_every == 0:
            shower.on_evaluate(None, state, None, metrics={"eval_score": 0.5})
    shower.stop()
    return console.file.getvalue().splitlines()


def test_a_stage_of_minutes_is_told_by_tenths_with_the_time_left():
    lines = follow(100, 1.0)
    assert lines[0] == "replacing: 100 steps"
    left = ("1:30", "1:20", "1:10", "1:00", "0:50", "0:40", "0:30", "0:20", "0:10")
    assert lines[1:] == [f"replacing {10 * tenth}/100 steps, {text} left" for tenth, text in enumerate(left, 1)]


def test_a_stage_of_seconds_is_not_told_step_by_step():
    assert follow(100, 0.001) == ["replacing: 100 steps"]


def test_a_slow_stage_is_told_every_half_minute_and_a_stage_of_days_a_hundred_times():
    assert follow(20, 40.0)[1] == "replacing 1/20 steps, 12:40 left"
    assert len(follow(20, 40.0)) == 20
    days = follow(20_000, 10.0)
    assert 90 <= len(days) <= 112
    assert "55:00:00 left" in next(line for line in days if line.startswith("replacing 200/"))


def test_the_time_left_of_a_resumed_stage_counts_only_its_own_steps():
    lines = follow(100, 1.0, first=40)
    assert lines[0] == "replacing: going on at step 40 of 100"
    assert lines[1] == "replacing 50/100 steps, 0:50 left"


def test_an_evaluation_is_a_line_everywhere_and_counts_as_one():
    assert "replacing: step 10/20    dev 0.500" in follow(20, 1.0, evaluate_every=10)
    assert not [line for line in follow(20, 1.0, evaluate_every=1) if "left" in line]
    terminal = follow(20, 1.0, evaluate_every=10, terminal=True)
    assert any("replacing: step 10/20" in line for line in terminal)
    assert not [line for line in terminal if "left" in line]
