"""Coins of dropout: the right odds, torch's random state, and torch's own kernel back afterwards."""

import pytest
import torch
from torch.nn import functional

from plankwise.training.dropout import draw_coins, fast_dropout


def torch_draws():
    torch.manual_seed(0)
    return functional.dropout(torch.ones(1000), 0.5)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_coins_have_their_odds(p):
    torch.manual_seed(0)
    share = draw_coins(torch.empty(200, 5001), p).mean().item()
    assert share == pytest.approx(p, abs=4 * (p * (1 - p) / 1_000_200) ** 0.5 + 2**-17)


def test_neighbouring_coins_are_independent():
    torch.manual_seed(0)
    coins = draw_coins(torch.empty(1_000_000), 0.5)
    for gap in (1, 2, 3, 4):  # four coins are made of one draw
        both = (coins[:-gap] * coins[gap:]).mean().item()
        assert both == pytest.approx(0.25, abs=0.003)


@pytest.mark.parametrize(("p", "value"), [(0.0, 0.0), (1.0, 1.0), (1e-9, 0.0), (1 - 1e-9, 1.0)])
def test_odds_of_nothing_and_of_certainty(p, value):
    assert bool((draw_coins(torch.empty(10), p) == value).all())


def test_odds_beyond_one_are_refused():
    with pytest.raises(RuntimeError, match=r"between 0 and 1, but 1\.5"):
        draw_coins(torch.empty(3), 1.5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.bool, torch.int64])
def test_coins_fill_any_kind_of_tensor_of_any_layout(dtype):
    whole = torch.full((4, 6), 2, dtype=torch.float32).to(dtype)
    draw_coins(whole.t()[::2], 0.5)
    assert set(whole[:, ::2].float().unique().tolist()) <= {0.0, 1.0}
    draw_coins(torch.empty(0, dtype=dtype), 0.5)


def test_dropout_keeps_its_expectation_and_is_drawn_from_torchs_random_state():
    with fast_dropout():
        first, again = torch_draws(), torch_draws()
        torch.manual_seed(1)
        other = functional.dropout(torch.ones(1000), 0.5)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert set(first.unique().tolist()) == {0.0, 2.0}


def test_a_generator_of_ones_own_is_used():
    with fast_dropout():
        draws = [torch.empty(100).bernoulli_(0.5, generator=torch.Generator().manual_seed(3)) for _ in range(2)]
    assert torch.equal(*draws)


def test_torchs_own_kernel_is_back_afterwards_and_wherever_it_is_asked_for():
    own = torch_draws()
    with fast_dropout():
        assert not torch.equal(torch_draws(), own)
        with fast_dropout():
            pass
        assert not torch.equal(torch_draws(), own)
        with fast_dropout(on=False):
            assert torch.equal(torch_draws(), own)
        assert not torch.equal(torch_draws(), own)
    assert torch.equal(torch_draws(), own)


def test_it_is_closed_by_an_error_too():
    own = torch_draws()
    with pytest.raises(ValueError, match="stop"), fast_dropout():
        raise ValueError("stop")
    assert torch.equal(torch_draws(), own)


def test_gradients_pass_where_a_coin_is_one():
    x = torch.ones(1000, requires_grad=True)
    with fast_dropout():
        y = functional.dropout(x, 0.25)
        y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def test_nothing_is_warned_of(recwarn):
    with fast_dropout():
        torch_draws()
    assert not recwarn.list
