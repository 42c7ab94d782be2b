import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from plankwise.data.batch import POOL, LengthSampler

LENGTHS = st.lists(st.integers(1, 60), min_size=1, max_size=300)


@given(LENGTHS, st.integers(1, 40), st.integers(0, 9), st.integers(0, 3))
def test_every_index_comes_once_in_an_order_of_seed_and_epoch_alone(lengths, batch_size, seed, epoch):
    one, other = LengthSampler(lengths, batch_size, seed), LengthSampler(lengths, batch_size, seed)
    one.set_epoch(epoch)
    list(other)  # an epoch that was iterated before leaves no trace
    other.set_epoch(epoch)
    assert sorted(one) == list(range(len(lengths)))
    assert list(one) == list(other)
    assert len(one) == len(lengths)


def slow_order(lengths, batch_size, seed, epoch):
    """The order by its definition, a list of batches at a time: a resumed run depends on it."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    order = torch.randperm(len(lengths), generator=generator).tolist()
    full = len(order) - len(order) % batch_size
    batches = []
    for start in range(0, full, POOL * batch_size):
        pool = sorted(order[start : min(start + POOL * batch_size, full)], key=lambda row: lengths[row])
        batches += [pool[place : place + batch_size] for place in range(0, len(pool), batch_size)]
    drawn = torch.randperm(len(batches), generator=generator).tolist()
    return [row for index in drawn for row in batches[index]] + order[full:]


@settings(deadline=None)
@given(LENGTHS, st.integers(1, 5), st.integers(0, 9), st.integers(0, 3))
def test_the_order_is_that_of_its_definition(lengths, batch_size, seed, epoch):
    sampler = LengthSampler(np.array(lengths, dtype=np.int32), batch_size, seed)
    sampler.set_epoch(epoch)
    assert list(sampler) == slow_order(lengths, batch_size, seed, epoch)


def test_epochs_and_seeds_differ():
    lengths = [index % 17 for index in range(200)]
    sampler = LengthSampler(lengths, 8, 0)
    first = list(sampler)
    sampler.set_epoch(1)
    assert list(sampler) != first
    assert list(LengthSampler(lengths, 8, 1)) != first


def test_batches_hold_texts_of_like_length_and_come_in_no_order_of_length():
    lengths = [1 + index * 7919 % 100 for index in range(1600)]
    order = list(LengthSampler(lengths, 16, 0))
    batches = [[lengths[i] for i in order[start : start + 16]] for start in range(0, 1600, 16)]
    padded = sum(max(batch) * len(batch) for batch in batches)
    assert padded < 1.1 * sum(lengths)
    longest = [max(batch) for batch in batches]
    assert longest not in (sorted(longest), sorted(longest, reverse=True))


@given(st.lists(st.integers(1, 60), min_size=1, max_size=50), st.integers(1, 8), st.integers(0, 9))
def test_neighbours_that_belong_together_stay_together_in_the_order_of_the_longer_one(lengths, pairs, seed):
    rows = [length for one in lengths for length in (one, max(1, one - 3))]
    together = list(LengthSampler(rows, 2 * pairs, seed, together=2))
    assert together == [row for one in LengthSampler(lengths, pairs, seed) for row in (2 * one, 2 * one + 1)]
