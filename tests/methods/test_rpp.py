"""Reweighted proximal pruning: the proximal step and its weights written out, zeros at the end, and what it degenerates to."""

import pytest
import torch
from torch import nn

from plankwise.methods import finetune, kd, rpp
from plankwise.report.remarks import zeros_remark
from plankwise.training.pruning import Proximal, ProximalCallback, install, write_zeros


def toy(final=0.5):
    """Two layers, their weights before, and their masks."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    before = [one.weight.detach().clone() for one in model]
    return model.train(), before, install([model], final, learnt=False, kind=Proximal)


def step_at(callback, step, steps, rate):
    state = type("State", (), {"global_step": step, "max_steps": steps})
    optimiser = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=rate)
    callback.on_optimizer_step(None, state, None, optimizer=optimiser)
    callback.on_step_end(None, state, None)


def test_a_proximal_step_takes_the_rate_times_the_reweighted_strength_from_each_weight_and_stops_at_zero():
    model, before, masks = toy()
    callback = ProximalCallback(masks, rpp.Options(strength=0.5, eps=0.1, begin_at=0, full_at=1))
    step_at(callback, 0, 10, rate=0.1)
    for linear, weight in zip(model, before, strict=True):
        threshold = 0.1 * 0.5 / (weight.abs() + 0.1)
        expected = torch.where(
            weight > threshold, weight - threshold, torch.where(weight < -threshold, weight + threshold, 0.0)
        )
        torch.testing.assert_close(linear.weight.detach(), expected)
    assert any((linear.weight == 0).any() for linear in model)


def test_weights_are_weighted_by_their_size_at_the_start_of_each_part_and_not_between():
    _, before, masks = toy()
    options = rpp.Options(strength=0.01, eps=0.1, begin_at=0.2, full_at=0.8, weightings=3)
    assert [step for step in range(2, 8) if options.weighs_anew(step, 10)] == [2, 4, 6]
    callback = ProximalCallback(masks, options)
    step_at(callback, 1, 10, rate=0.1)  # before it begins
    assert torch.equal(masks[0].original, before[0])
    step_at(callback, 2, 10, rate=0.1)
    step_at(callback, 3, 10, rate=0.1)
    assert torch.equal(masks[0].reference, before[0].abs())
    between = masks[0].original.detach().abs().clone()
    step_at(callback, 4, 10, rate=0.1)
    assert torch.equal(masks[0].reference, between)
    step_at(callback, 8, 10, rate=0.1)  # weights are pulled to the end, but not weighted anew after full_at
    assert torch.equal(masks[0].reference, between)
    assert (masks[0].original.abs() < between).any()


def test_zeros_that_proximal_steps_made_stay_zeros_where_they_are_more_than_the_share_that_goes():
    model, _, masks = toy(final=0.9)
    for mask in masks:
        mask.pull(0.05, 0.1)
    zeros = sum(int((mask.original == 0).sum()) for mask in masks)
    assert zeros > 2
    assert write_zeros(masks) == {"zeros": zeros, "weights": 18}
    assert type(model[0]) is nn.Linear
    assert not [name for name, _ in model.named_buffers()]


@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_with_no_strength_and_all_weights_kept_it_is_fine_tuning_or_distillation_to_the_bit(alpha, make_job):
    other = kd.Options(alpha=alpha, T=2.0) if alpha else finetune.Options()
    plain = (kd if alpha else finetune).compress(make_job(init="lower"), other).successor.state_dict()
    outcome = rpp.compress(make_job(init="lower"), rpp.Options(keep=1, strength=0, alpha=alpha))
    ours = outcome.successor.state_dict()
    assert all(torch.equal(value, ours[name]) for name, value in plain.items())
    assert zeros_remark(outcome.notes) == ""


def test_the_successor_is_a_plain_model_of_which_the_share_is_zero_and_the_table_says_so(make_job):
    outcome = rpp.compress(make_job(init="lower"), rpp.Options(keep=0.25, strength=1e-5))
    maps = [one for one in outcome.successor.bert.encoder.modules() if isinstance(one, nn.Linear)]
    assert [(one.weight == 0).float().mean().item() for one in maps] == pytest.approx([0.75] * 12)
    assert not [name for name in outcome.successor.state_dict() if "reference" in name]
    assert zeros_remark(outcome.notes).startswith(
        "75.0% of the weights in its blocks are 0, which alone brings neither"
    )


def test_pulled_weights_become_zeros_where_all_could_be_kept(make_job):
    found = rpp.compress(make_job(init="lower"), rpp.Options(keep=1, strength=1e-2)).notes["zeros"]
    assert 0 < found["zeros"] < found["weights"]
