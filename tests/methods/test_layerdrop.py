"""LayerDrop: plain fine-tuning at 0, blocks left out by the seed, and the pruned model in eval mode."""

import copy

import pytest
import torch
from torch import nn

from plankwise.core.chain import find_chains
from plankwise.core.plan import Slot, checked_plan, even_plan
from plankwise.core.schedule import draw_mask
from plankwise.errors import PlanError
from plankwise.methods import _droppable, layerdrop


def test_at_0_it_is_plain_fine_tuning_to_the_bit(make_job):
    job = make_job()
    plain = copy.deepcopy(job.predecessor)
    job.stage("plain").run(plain)
    successor = layerdrop.compress(job, layerdrop.Options(p=0.0)).successor
    for ours, theirs in enumerate((0, 2)):
        kept = plain.bert.encoder.layer[theirs].state_dict()
        assert all(
            torch.equal(value, kept[name]) for name, value in successor.bert.encoder.layer[ours].state_dict().items()
        )
    assert torch.equal(successor.classifier.weight, plain.classifier.weight)


def test_above_0_it_is_not(make_job):
    job = make_job()
    plain = copy.deepcopy(job.predecessor)
    job.stage("plain").run(plain)
    successor = layerdrop.compress(job, layerdrop.Options(p=0.5)).successor
    assert not torch.equal(successor.classifier.weight, plain.classifier.weight)


def test_each_step_leaves_out_the_blocks_that_its_seed_says(make_job, monkeypatch):
    ran = []
    forward = _droppable.Droppable.forward

    def spy(block, *args, **kwargs):
        if block.training:
            ran.append(not block.dropped)
        return forward(block, *args, **kwargs)

    monkeypatch.setattr(_droppable.Droppable, "forward", spy)
    layerdrop.compress(make_job(), layerdrop.Options(p=0.3))
    expected = [not dropped for step in range(6) for dropped in draw_mask(3, step, 0.3, 4)]
    assert ran == expected


def test_in_eval_mode_the_droppable_model_is_the_successor(make_job):
    job = make_job()
    whole = copy.deepcopy(job.predecessor)
    ids = torch.arange(5, 25).view(2, 10)
    successor = layerdrop.compress(
        make_job(copy.deepcopy(whole), training={"learning_rate": 1e-12}), layerdrop.Options()
    )
    _droppable.install(whole, job.plan)
    with torch.no_grad():
        torch.testing.assert_close(whole.eval()(ids).logits, successor.successor.eval()(ids).logits)


class Tupled(nn.Module):
    """Blocks hand on a bias that the first of them to run makes, as T5's do."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Biased() for _ in range(4))

    def forward(self, state):
        bias = None
        for layer in self.layers:
            state, bias = layer(state, bias)
        return state, bias


class Biased(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2, bias=False)
        self.inner.weight = nn.Parameter(2 * torch.eye(2))

    def forward(self, state, bias):
        bias = state.sum() if bias is None else bias
        return self.inner(state) + bias, bias


def test_a_block_that_makes_what_later_ones_need_runs_even_if_drawn_and_nothing_is_left_from_the_pass_before():
    model = Tupled()
    blocks = list(_droppable.install(model, even_plan(find_chains(model), 2)).values())
    model.eval()(torch.ones(2))
    model.train()
    for block, dropped in zip(blocks, (True, True, False, True), strict=True):
        block.dropped = dropped
    for first in (1.0, 10.0):
        state, bias = model(torch.full((2,), first))
        assert bias.item() == 2 * first  # made anew in each pass, by the first block
        assert state[0].item() == 2 * (2 * first + bias.item()) + bias.item()  # the first and the third ran


def test_a_slot_that_is_no_span_is_refused(make_job):
    job = make_job(plan=checked_plan([Slot("bert.encoder.layer.0.output")], []))
    with pytest.raises(PlanError, match="leaves blocks of a chain out"):
        layerdrop.compress(job, layerdrop.Options())


def test_the_record_says_that_it_starts_from_its_own_blocks_whatever_the_plan_says(make_job):
    outcome = layerdrop.compress(make_job(init="upper"), layerdrop.Options())
    assert outcome.notes["init"] == "lower"
