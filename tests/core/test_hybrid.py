"""The core's promises on torch-only models, each compared exactly."""

import copy

import pytest
import torch
from torch import nn

import plankwise
from plankwise.core.hybrid import Hybrid, Rules
from plankwise.core.slot import state_of
from plankwise.core.taps import tapped
from plankwise.errors import PlanError, RunError


def shake(ship: Hybrid) -> None:
    """Makes the successors differ from what they were copied from."""
    with torch.no_grad():
        for parameter in ship.successor_parameters().values():
            parameter.add_(torch.randn_like(parameter))


def run(model, batch):
    """The output with all weights frozen: torch picks a recurrent layer's kernel by whether its weights want gradients."""
    wanted = {parameter: parameter.requires_grad for parameter in model.parameters()}
    for parameter in wanted:
        parameter.requires_grad_(False)
    output = model(batch)
    for parameter, flag in wanted.items():
        parameter.requires_grad_(flag)
    return output


def test_predecessor_mode_is_the_predecessor(model_and_input):
    model, batch = model_and_input
    before = run(model, batch)
    ship = plankwise.hybrid(model, successors=2)
    shake(ship)
    with ship.masked(False):
        assert torch.equal(run(ship, batch), before)


def test_successor_mode_is_the_collapsed_model(model_and_input):
    model, batch = model_and_input
    before = run(model, batch)
    ship = plankwise.hybrid(model, successors=2)
    shake(ship)
    collapsed = ship.eval().collapse()
    assert torch.equal(run(ship, batch), run(collapsed, batch))
    assert not torch.equal(run(ship, batch), before)


def test_every_mask_runs_what_it_says(recurrent):
    model, batch = recurrent
    ship = plankwise.hybrid(model, successors=2)
    shake(ship)
    outputs = []
    for mask in ((False, False), (True, False), (False, True), (True, True)):
        with ship.masked(mask):
            outputs.append(run(ship, batch))
    for index, output in enumerate(outputs):
        assert not any(torch.equal(output, other) for other in outputs[index + 1 :])


def test_the_collapsed_model_is_of_the_predecessors_class_and_shorter(residual):
    model, _ = residual
    original = type(model)
    collapsed = plankwise.hybrid(model, successors=3).collapse()
    assert type(collapsed) is original
    assert len(collapsed.blocks) == 3
    assert list(collapsed.blocks._modules) == ["0", "1", "2"]


def test_nothing_of_the_predecessor_is_in_the_successor(model_and_input):
    model, _ = model_and_input
    ship = plankwise.hybrid(model, successors=2)
    collapsed = ship.collapse()
    held = {tensor.data_ptr() for tensor in [*ship.parameters(), *ship.buffers()]}
    assert not held & {tensor.data_ptr() for tensor in [*collapsed.parameters(), *collapsed.buffers()]}
    assert not any(isinstance(module, Hybrid) or "Place" in type(module).__name__ for module in collapsed.modules())
    assert all(parameter.requires_grad for parameter in collapsed.parameters())


def test_frozen_is_frozen(model_and_input):
    model, batch = model_and_input
    ship = plankwise.hybrid(model, successors=2, schedule=plankwise.Constant(rate=1.0))
    successors = ship.successor_parameters()
    before = {name: value.clone() for name, value in ship.state_dict().items()}
    optimiser = torch.optim.AdamW([p for p in ship.parameters() if p.requires_grad], lr=0.1)
    ship.begin(2)
    ship.train()
    for step in range(2):
        ship.set_step(step)
        ship(batch).sum().backward()
        assert all((parameter.grad is not None) == (name in successors) for name, parameter in ship.named_parameters())
        optimiser.step()
        optimiser.zero_grad()
    for name, parameter in ship.named_parameters():
        assert torch.equal(parameter, before[name]) == (name not in successors)
        assert parameter.requires_grad == (name in successors)


def test_frozen_modules_are_in_eval_mode_while_successors_train(residual):
    ship = plankwise.hybrid(residual[0], successors=3)
    ship.begin(4)
    ship.train()
    place = ship.blocks[0]
    assert place.successor.training
    assert not place.block.training
    assert not place.block.drop.training
    assert not ship.stem.training


def test_train_puts_right_what_was_changed_by_hand(residual):
    ship = plankwise.hybrid(residual[0], successors=3)
    ship.begin(4)
    ship.train()
    modes = [module.training for module in ship.modules()]
    for changed in list(ship.modules()):
        changed.training = not changed.training
        ship.train()
        assert [module.training for module in ship.modules()] == modes


def test_frozen_dropout_keeps_frozen_modules_in_training_mode(residual):
    ship = plankwise.hybrid(residual[0], successors=3, rules=Rules(frozen_dropout=True))
    ship.begin(4)
    ship.train()
    assert ship.blocks[0].block.drop.training


def test_a_step_in_which_no_slot_is_replaced_trains_nothing_and_can_be_followed_by_backward(model_and_input):
    model, batch = model_and_input
    ship = plankwise.hybrid(model, successors=2, schedule=plankwise.Constant(rate=0.0, full_at=1.0))
    ship.begin(3)
    ship.train()
    ship.set_step(0)
    ship(batch).sum().backward()
    assert all(parameter.grad is None for parameter in ship.parameters())
    assert ship.count_skipped(3) == 3


class WithLoss(nn.Module):
    """Computes its own loss, as Hugging Face models do, and counts its forward passes."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.inner = model
        self.passes = 0

    def forward(self, batch):
        self.passes += 1
        output = self.inner(batch)
        return {"loss": output.square().mean(), "logits": output}


def test_a_skipped_step_runs_no_forward_pass_and_reports_the_latest_loss(residual):
    model = WithLoss(residual[0])
    ship = plankwise.hybrid(model, successors=2, schedule=plankwise.Constant(rate=0.0, full_at=1.0))
    ship.begin(4)
    ship.train()
    first = ship(residual[1])["loss"]
    assert ship.passes == 1
    for step in range(1, 4):
        ship.set_step(step)
        again = ship(residual[1])["loss"]
        again.backward()
        assert torch.equal(again, first)
    assert ship.passes == 1


def test_without_skipping_each_step_runs_its_forward_pass(residual):
    never = plankwise.Constant(rate=0.0, full_at=1.0)
    ship = plankwise.hybrid(WithLoss(residual[0]), successors=2, schedule=never, rules=Rules(skip=False))
    ship.begin(3)
    ship.train()
    for step in range(3):
        ship.set_step(step)
        ship(residual[1])["logits"].sum().backward()
    assert ship.passes == 3


def test_a_slot_is_any_path(recurrent):
    model, batch = recurrent
    before = run(model, batch)
    small = nn.Embedding(11, 8)
    ship = plankwise.hybrid(model, slots={"embed": small, "layers.2": nn.GRU(8, 8, batch_first=True)})
    with ship.masked(False):
        assert torch.equal(run(ship, batch), before)
    collapsed = ship.eval().collapse()
    assert torch.equal(run(ship, batch), run(collapsed, batch))
    assert torch.equal(collapsed.embed.weight, small.weight)
    assert len(collapsed.layers) == 4


def test_blocks_in_no_span_are_left_alone(residual):
    model, batch = residual
    kept = copy.deepcopy(model.blocks[3])
    ship = plankwise.hybrid(model, spans=[[0, 1, 2], [4, 5]])
    collapsed = ship.eval().collapse()
    assert len(collapsed.blocks) == 3
    assert torch.equal(collapsed.blocks[1].conv.weight, kept.conv.weight)
    assert torch.equal(run(ship, batch), run(collapsed, batch))


def test_taps_hold_the_states_after_the_modules_that_are_named_while_open(residual):
    model, batch = residual
    state = model.stem(batch)
    expected = {}
    for index, block in enumerate(model.blocks):
        state = block(state)
        if index % 2:
            expected[f"blocks.{index}"] = state
    ship = plankwise.hybrid(model, successors=3)
    with ship.masked(False), tapped(ship, expected) as states:
        ship(batch)
        assert states.keys() == expected.keys()
        assert all(torch.equal(states[path], state) for path, state in expected.items())
    ship(batch)
    assert not states


def test_pairs_hold_what_span_and_successor_make_of_the_same_state_and_the_output_is_the_predecessors(model_and_input):
    model, batch = model_and_input
    before = run(model, batch)
    ship = plankwise.hybrid(model, successors=2)
    shake(ship)
    with ship.paired() as slots:
        assert torch.equal(run(ship, batch), before)
        pairs = [slot.pair for slot in slots]
    ship.requires_grad_(False)
    for slot, pair in zip(ship.plan.slots, pairs, strict=True):
        place = ship.get_submodule(slot.places[0])
        assert torch.equal(state_of(place.successor(pair.before)), pair.successor)
    assert torch.equal(pairs[1].before, pairs[0].span)
    assert all(slot.pair is None and slot.weight is None for slot in slots)


def make_blend(model, **schedule):
    ship = plankwise.hybrid(
        model, spans=[[2, 3]], schedule=plankwise.Linear(**schedule), rules=Rules(blend=True, skip=False)
    )
    shake(ship)
    ship.begin(4)
    return ship.train()


def test_blending_adds_the_states_by_the_rate_and_draws_no_mask(residual):
    model, batch = residual
    ship = make_blend(model, start=0.25, full_at=1.0)
    with ship.paired() as slots:
        torch.manual_seed(0)
        ship(batch)
        pair = slots[0].pair
    with tapped(ship, ["blocks.3"]) as states:
        torch.manual_seed(0)  # the same dropout
        ship(batch)
        assert torch.equal(states["blocks.3"], torch.lerp(pair.span, pair.successor, 0.25))
    assert ship.mask == (True,)


def test_blending_at_rate_1_and_in_eval_mode_runs_the_successor_alone(residual):
    model, batch = residual
    ship = make_blend(model, start=0.5, full_at=0.5).eval()
    successor = run(ship.collapse(), batch)
    assert torch.equal(run(ship, batch), successor)
    ship.get_submodule("blocks.2").block = None  # running it now fails
    ship.set_step(2)
    ship.train()
    ship(batch)


def test_blending_trains_the_successors_alone(residual):
    model, batch = residual
    ship = make_blend(model, start=0.5, full_at=1.0)
    ship(batch).sum().backward()
    assert {name for name, p in ship.named_parameters() if p.grad is not None} == set(ship.successor_parameters())


def test_unfreezing_all_trains_the_rest_only_once_the_rate_is_one(residual):
    model, batch = residual
    schedule = plankwise.Steps(at=(0.0, 0.5), rates=(0.9, 1.0))
    ship = plankwise.hybrid(model, successors=2, schedule=schedule, unfreeze="all")
    assert ship.head.weight.requires_grad  # so that an optimiser made now takes it in
    ship.begin(4)
    ship.train()
    ship.set_step(1)
    assert not ship.head.weight.requires_grad
    ship.set_step(2)
    assert ship.head.weight.requires_grad
    assert ship.stem.weight.requires_grad
    assert not ship.blocks[0].block.conv.weight.requires_grad
    ship(batch).sum().backward()
    assert ship.head.weight.grad is not None


def test_training_without_a_step_says_what_to_do(residual):
    ship = plankwise.hybrid(residual[0], successors=2).train()
    with pytest.raises(RunError, match=r"callbacks=\[ship.callback\(\)\]"):
        ship(residual[1])
    with pytest.raises(RunError, match="call begin"):
        ship.set_step(0)


def test_a_hybrid_cannot_be_made_twice(residual):
    ship = plankwise.hybrid(residual[0], successors=2)
    with pytest.raises(PlanError, match="hybrid already"):
        plankwise.hybrid(ship, successors=2)


def test_a_mask_of_another_length_is_refused(residual):
    ship = plankwise.hybrid(residual[0], successors=2)
    with pytest.raises(PlanError, match="3 entries, but the plan has 2 slots"), ship.masked([True] * 3):
        pass


def test_the_forward_signature_stays_the_models_own(recurrent):
    import inspect

    model, _ = recurrent
    before = inspect.signature(model.forward)
    assert inspect.signature(plankwise.hybrid(model).forward) == before
