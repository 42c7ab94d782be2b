"""The weights that tokens pass through, against the matrix products that a counter sees in real steps."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from plankwise.core.chain import find_chains
from plankwise.core.hybrid import Rules
from plankwise.core.plan import even_plan
from plankwise.core.schedule import Constant
from plankwise.estimate.work import Weights, padded_tokens, spread
from plankwise.methods._droppable import install
from plankwise.training.ship import hybrid

TOKENS = 15


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, state):
        return self.linear(state).tanh()


class Chain(nn.Module):
    """Embeddings, six blocks and a head, each of which every token passes through."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.blocks = nn.ModuleList(Block() for _ in range(6))
        self.head = nn.Linear(8, 5)

    def forward(self, ids):
        state = self.embed(ids)
        for block in self.blocks:
            state = block(state)
        return {"loss": self.head(state).square().mean()}


def count_products(model):
    """Multiplications of a real step, forward and backward."""
    with FlopCounterMode(display=False) as counter:
        model(torch.zeros(3, TOKENS // 3, dtype=torch.long))["loss"].backward()
    return counter.get_total_flops() // 2


@pytest.mark.parametrize("unfreeze", ["nothing", "all"])
@pytest.mark.parametrize("rules", [Rules(), Rules(frozen_gradients=True)])
def test_a_step_of_a_hybrid_has_the_products_of_its_mask(unfreeze, rules):
    ship = hybrid(Chain(), 3, Constant(rate=0.5, full_at=0.5), unfreeze=unfreeze, rules=rules)
    ship.train()
    ship.begin(40)
    weights, seen = Weights(ship), set()
    for step in range(40):
        ship.set_step(step)
        seen.add(ship.mask)
        if any(ship.mask):
            assert TOKENS * weights.training(step) == count_products(ship), ship.mask
        else:
            assert weights.training(step) == 0
    assert len(seen) == 8


@pytest.mark.parametrize("trained", ["embed", "blocks.0", "blocks.3", "head"])
def test_what_lies_before_the_first_thing_that_is_trained_has_no_backward_pass(trained):
    model = Chain().requires_grad_(False)
    model.get_submodule(trained).requires_grad_(True)
    assert TOKENS * Weights(model).training(0) == count_products(model)


def test_a_pass_that_trains_nothing_has_one_product_a_weight_and_of_a_hybrid_it_is_the_successors():
    model = Chain()
    assert Weights(model).forward() == 6 * 64 + 40
    ship = hybrid(model, 2, Constant(rate=0.5))
    assert Weights(ship.eval()).forward() == 2 * 64 + 40


def test_spans_and_successors_that_are_blended_both_count():
    ship = hybrid(Chain(), 2, Constant(rate=0.5), rules=Rules(blend=True))
    ship.train()
    ship.begin(4)
    assert Weights(ship).forward() == (6 + 2) * 64 + 40


def test_blocks_that_are_left_out_do_not_count():
    model = Chain()
    blocks = list(install(model, even_plan(find_chains(model), 3)).values())
    weights = Weights(model.train())
    blocks[1].dropped = blocks[4].dropped = True
    assert weights.forward() == 4 * 64 + 40
    model.eval()  # the lowest block of each span
    assert weights.forward() == 3 * 64 + 40


@given(st.lists(st.integers(1, 30), min_size=1, max_size=60), st.integers(1, 20))
def test_a_pass_reads_every_text_once_in_batches_of_like_length(lengths, size):
    ordered = sorted(lengths, reverse=True)
    batches = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    assert padded_tokens(np.array(lengths), size).tolist() == [len(batch) * batch[0] for batch in batches]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=200).filter(any))
def test_what_is_timed_is_the_largest_and_then_everything_that_is_any_work(work):
    first, *others = spread(np.array(work))
    assert work[first] == max(work)
    assert sorted(others) == np.flatnonzero(work).tolist()


@pytest.mark.parametrize("count", [2, 7, 64, 1000])
def test_the_first_few_that_are_timed_lie_evenly_over_all(count):
    _, *order = spread(np.ones(count))
    for size in range(1, count + 1):
        gaps = np.diff([-1, *sorted(order[:size]), count])
        assert gaps.max() <= 3 * count / size + 1


def test_where_nothing_is_any_work_one_item_is_timed():
    assert spread(np.zeros(4)) == [0]
