"""Unstructured pruning: the schedule, masks and gradients written out, zeros that stay zeros, and what it degenerates to."""

import copy

import pytest
import torch
from torch import nn

from plankwise.config import validate_config
from plankwise.core.plan import Plan, Slot
from plankwise.errors import ConfigError, PlanError
from plankwise.methods import finetune, kd, magnitude, movement
from plankwise.report.remarks import zeros_remark
from plankwise.training.pruning import PruningCallback, install, write_zeros

METHODS = [magnitude, movement]


def maps_of(model):
    return [one for one in model.bert.encoder.modules() if isinstance(one, nn.Linear)]


def test_the_share_that_is_left_falls_by_the_cube_between_begin_and_full():
    options = magnitude.Options(keep=0.2, begin_at=0.25, full_at=0.75)
    shares = [options.share_left(step, 8) for step in range(9)]
    assert shares[:3] == [1.0, 1.0, 1.0]
    assert shares[3:6] == pytest.approx([0.2 + 0.8 * 0.75**3, 0.2 + 0.8 * 0.5**3, 0.2 + 0.8 * 0.25**3])
    assert shares[6:] == [0.2, 0.2, 0.2]


def toy(learnt, final=0.5):
    torch.manual_seed(0)
    linear = nn.Linear(4, 3)
    weight = linear.weight.detach().clone()
    (mask,) = install([nn.Sequential(linear)], final, learnt=learnt)
    return linear.train(), mask, weight


def test_of_magnitude_the_largest_stay_and_what_is_masked_gets_no_gradient():
    linear, mask, weight = toy(learnt=False)
    mask.left = 0.25
    kept = (weight.abs() >= weight.abs().flatten().sort().values[-3]).float()
    assert torch.equal(linear.weight, weight * kept)
    x = torch.randn(5, 4)
    linear(x).sum().backward()
    expected = x.sum(0).expand(3, 4) * kept
    torch.testing.assert_close(linear.parametrizations.weight.original.grad, expected)


def test_of_movement_scores_learn_the_gradient_of_the_masked_weight_times_the_weight():
    linear, mask, weight = toy(learnt=True)
    x = torch.randn(5, 4)
    mask.left = 0.5
    assert torch.equal(linear.weight, weight)  # no score is lower than another yet
    with torch.no_grad():
        mask.scores.copy_(torch.arange(12.0).view(3, 4))
    mask.known.clear()
    kept = (torch.arange(12).view(3, 4) >= 6).float()
    assert torch.equal(linear.weight, weight * kept)
    linear(x).sum().backward()
    gradient = x.sum(0).expand(3, 4)
    torch.testing.assert_close(mask.scores.grad, gradient * weight)
    torch.testing.assert_close(linear.parametrizations.weight.original.grad, gradient * kept)


def test_in_eval_mode_the_final_share_is_left_whatever_the_step_and_zeros_are_written_as_they_were():
    linear, mask, weight = toy(learnt=False, final=0.5)
    assert torch.equal(linear.weight, weight)  # in training nothing is pruned yet
    found = linear.eval().weight.detach().clone()
    assert int((found == 0).sum()) == 6
    assert write_zeros([mask]) == {"zeros": 6, "weights": 12}
    assert type(linear) is nn.Linear
    assert isinstance(linear.weight, nn.Parameter)
    assert torch.equal(linear.weight, found)


def test_each_step_finds_its_mask_by_the_weights_of_that_step():
    linear, mask, weight = toy(learnt=False)
    callback = PruningCallback([mask], lambda step, steps: 1 - step / steps)
    state = type("State", (), {"global_step": 6, "max_steps": 12})
    callback.on_step_begin(None, state, None)
    before = linear.weight == 0
    assert int(before.sum()) == 6
    with torch.no_grad():
        linear.parametrizations.weight.original.copy_(torch.where(before, 10.0, weight))
    callback.on_step_end(None, state, None)
    assert not torch.equal(linear.weight == 0, before)


@pytest.mark.parametrize("method", METHODS)
def test_the_successor_is_a_plain_model_with_so_many_zeros_in_each_map_of_its_blocks(method, make_job):
    outcome = method.compress(make_job(), method.Options(keep=0.25))
    shares = [(one.weight == 0).float().mean().item() for one in maps_of(outcome.successor)]
    assert shares == pytest.approx([0.75] * 12)
    assert not [name for name, _ in outcome.successor.named_parameters() if "parametrizations" in name]
    assert not (outcome.successor.bert.embeddings.word_embeddings.weight[1:] == 0).any()
    found = outcome.notes["zeros"]
    assert (
        found["zeros"]
        == 0.75 * found["weights"]
        == sum(int((one.weight == 0).sum()) for one in maps_of(outcome.successor))
    )
    assert zeros_remark(outcome.notes).startswith(
        "75.0% of the weights in its blocks are 0, which alone brings neither speed"
    )


def test_learnt_scores_choose_other_weights_than_their_size(make_job):
    model = make_job().predecessor
    masks = [
        [
            one.weight == 0
            for one in maps_of(method.compress(make_job(copy.deepcopy(model)), method.Options()).successor)
        ]
        for method in METHODS
    ]
    assert any(not torch.equal(one, other) for one, other in zip(*masks, strict=True))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_with_all_weights_kept_it_is_fine_tuning_or_distillation_to_the_bit(method, alpha, make_job):
    other = kd.Options(alpha=alpha, T=2.0) if alpha else finetune.Options()
    plain = (kd if alpha else finetune).compress(make_job(init="lower"), other).successor.state_dict()
    outcome = method.compress(make_job(init="lower"), method.Options(keep=1, alpha=alpha))
    ours = outcome.successor.state_dict()
    assert all(torch.equal(value, ours[name]) for name, value in plain.items())
    assert zeros_remark(outcome.notes) == ""


def test_a_schedule_that_is_full_before_it_begins_and_slots_inside_blocks_are_refused(make_job):
    with pytest.raises(
        ConfigError, match=r"begin_at is 0\.8 and full_at 0\.7, but pruning has to begin before it is full"
    ):
        validate_config({"method": {"name": "magnitude", "begin_at": 0.8}})
    job = make_job(plan=Plan((Slot("bert.encoder.layer.0.attention"),)))
    with pytest.raises(PlanError, match="method movement works on whole blocks"):
        movement.compress(job, movement.Options())
