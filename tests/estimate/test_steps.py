import numpy as np
import pytest

from plankwise.data.batch import LengthSampler
from plankwise.estimate import steps as steps_module
from plankwise.estimate.counting import Count
from plankwise.estimate.steps import Pass, Steps

LENGTHS = np.random.default_rng(0).integers(3, 40, 53)


def make_steps(**changes):
    return Steps(LENGTHS, **{"num_steps": 20, "batch_size": 8, "micro_batch": 8, "seed": 3, **changes})


def epoch_of(number):
    sampler = LengthSampler(LENGTHS.tolist(), 8, 3)
    sampler.set_epoch(number)
    return list(sampler)


def test_every_step_has_the_batch_that_the_sampler_will_give_it():
    steps = make_steps()
    found = [[rows.tolist() for rows, _ in steps.batches(step)] for step in range(14)]
    for epoch in (0, 1):
        order = epoch_of(epoch)
        assert found[7 * epoch : 7 * epoch + 7] == [[order[start : start + 8]] for start in range(0, 53, 8)]


def test_micro_batches_make_one_step_and_are_padded_each_by_itself():
    steps, order = make_steps(micro_batch=3), epoch_of(0)
    rows, longest = zip(*steps.batches(0), strict=True)
    assert [part.tolist() for part in rows] == [order[0:3], order[3:6], order[6:9]]
    assert list(longest) == [LENGTHS[part].max() for part in rows]
    assert steps.cost(0, Count(line=2.0), beside=1) == sum(2.0 * 3 * (length + 1) for length in longest)


def test_of_many_steps_so_many_that_lie_evenly_stand_for_all(monkeypatch):
    monkeypatch.setattr(steps_module, "MOST_STEPS", 5)
    assert make_steps(num_steps=101).numbers.tolist() == [0, 25, 50, 75, 100]
    assert make_steps(num_steps=3).numbers.tolist() == [0, 1, 2]


def test_a_pass_reads_every_text_once_the_longest_first():
    once = Pass(LENGTHS, 10)
    assert sorted(np.concatenate(once.batches).tolist()) == list(range(53))
    assert once.longest.tolist() == [LENGTHS[rows].max() for rows in once.batches]
    assert once.total(Count(constant=1.0), beside=0) == 53


def test_of_very_many_texts_every_so_manieth_stands_for_its_neighbours(monkeypatch):
    monkeypatch.setattr(steps_module, "MOST_ROWS", 20)
    once = Pass(LENGTHS, 10)
    assert sorted(np.concatenate(once.batches).tolist()) == list(range(0, 53, 3))
    assert once.total(Count(constant=1.0), beside=0) == pytest.approx(53)
