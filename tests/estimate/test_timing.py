import pytest

from plankwise.estimate import timing as timing_module
from plankwise.estimate.timing import Budget, Timing


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is told to go on."""

    class Clock:
        now = 0.0

        def perf_counter(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(timing_module, "time", clock)
    return clock


@pytest.fixture
def timed(clock):
    """Times items until that is enough, each a unit of work that takes 1/64 s, but for the first."""

    def run(*, budget=None, total=64_000, first=2 / 64):
        timing = Timing(budget or Budget(share=1 / 32, began=clock.now), total)
        while not timing.items or not timing.enough:
            clock.now += 1 / 64 if timing.items else first
            timing.add(1)
        return timing

    return run


def test_the_phase_takes_its_work_at_the_pace_of_the_items_without_the_first(timed):
    timing = timed()
    assert (timing.pace, timing.seconds) == (1 / 64, 1000)


def test_timing_takes_its_share_of_what_the_phase_takes_and_counts_at_least_one_item(timed):
    timing = timed(total=640)  # 10 s, of which 1/32 is 20/64
    assert sum(seconds for seconds, _ in timing.items) == 20 / 64
    assert len(timed(total=2).items) == 2


def test_timing_ends_when_the_phase_has_had_its_seconds(timed):
    assert sum(seconds for seconds, _ in timed(budget=Budget(share=1.0, began=0.0)).items) == 1.5


def test_timing_ends_when_the_seconds_of_all_phases_are_spent(timed, clock):
    budget = Budget(share=1.0, began=0.0)
    clock.now = 9.5
    assert sum(seconds for seconds, _ in timed(budget=budget).items) == 0.5


def test_a_single_item_that_takes_longer_than_a_phase_may_is_all_there_is(timed):
    timing = timed(first=5.0)
    assert (len(timing.items), timing.pace) == (1, 5.0)


def test_a_phase_without_work_takes_no_time(clock):
    timing = Timing(Budget(began=0.0), 0.0)
    clock.now += 1
    timing.add(0.0)
    assert timing.seconds == 0
