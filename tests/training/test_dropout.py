"""Dropout masks drawn fast: the right odds, torch's random state, one model's modules and no others."""

import threading

import pytest
import torch
from torch import nn

from plankwise.training.dropout import FastDropout, draw_kept, fast_dropout
from plankwise.training.processor import is_intel


@pytest.mark.parametrize("odds", [0.1, 0.5, 0.9])
def test_entries_are_kept_at_their_odds(odds):
    torch.manual_seed(0)
    share = draw_kept(torch.Size((200, 5001)), odds).float().mean().item()
    assert share == pytest.approx(odds, abs=4 * (odds * (1 - odds) / 1_000_200) ** 0.5 + 2**-17)


def test_neighbouring_entries_are_independent():
    torch.manual_seed(0)
    kept = draw_kept(torch.Size((1_000_000,)), 0.5).float()
    for gap in (1, 2, 3, 4):  # four entries are made of one draw
        assert (kept[:-gap] * kept[gap:]).mean().item() == pytest.approx(0.25, abs=0.003)


def draw(module, seed=0):
    torch.manual_seed(seed)
    return module(torch.ones(1000))


def test_dropout_keeps_its_expectation_and_is_drawn_from_torchs_random_state():
    module = FastDropout(0.5)
    assert torch.equal(draw(module), draw(module))
    assert not torch.equal(draw(module), draw(module, seed=1))
    assert set(draw(module).unique().tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(4, 6), (0,), ()])
def test_any_shape_and_kind_of_number_comes_back_as_it_is(dtype, shape):
    found = FastDropout(0.25)(torch.ones(shape, dtype=dtype))
    assert (found.dtype, found.shape) == (dtype, torch.Size(shape))


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_none_and_all_are_torchs_own(p):
    assert torch.equal(FastDropout(p)(torch.ones(9)), nn.Dropout(p)(torch.ones(9)))


def test_nothing_is_dropped_outside_training():
    assert torch.equal(FastDropout(0.5).eval()(torch.ones(9)), torch.ones(9))


def test_gradients_pass_where_an_entry_is_kept():
    given = torch.ones(1000, requires_grad=True)
    found = FastDropout(0.25)(given)
    found.sum().backward()
    assert torch.equal(given.grad, found.detach())


def test_only_the_models_own_modules_are_changed_and_only_while_it_is_open():
    inside, outside = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)), nn.Dropout(0.5)
    own, drawn = draw(outside), []
    with fast_dropout(inside, True):
        assert type(inside[1]) is FastDropout
        assert not torch.equal(draw(inside[1]), own)
        thread = threading.Thread(target=lambda: drawn.append(draw(outside)))
        thread.start()
        thread.join()
    assert torch.equal(drawn[0], own)
    assert type(inside[1]) is nn.Dropout


def test_it_is_closed_by_an_error_too():
    module = nn.Sequential(nn.Dropout(0.5))
    with pytest.raises(ValueError, match="stop"), fast_dropout(module, True):
        raise ValueError("stop")
    assert type(module[0]) is nn.Dropout


@pytest.mark.parametrize(("switch", "changed"), [(True, True), (False, False), ("auto", not is_intel())])
def test_the_switch_decides(switch, changed):
    module = nn.Sequential(nn.Dropout(0.5))
    with fast_dropout(module, switch):
        assert (type(module[0]) is FastDropout) == changed
