"""Steps of a stage that is rehearsed: which of them are run, on what, and what they say of memory."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn
from transformers import TrainerCallback

import plankwise
from plankwise.estimate import steps as steps_module
from plankwise.estimate.rehearsal import RehearsedStage
from plankwise.estimate.steps import FewSteps, batches_by_step, count_tokens, storages
from plankwise.estimate.work import Weights
from plankwise.training.batches import StepBatches

LENGTHS = np.random.default_rng(0).integers(3, 40, 53)


class Watching(TrainerCallback):
    """Notes the step and the mask of each step that ends."""

    def __init__(self, ship):
        self.ship = ship
        self.seen = []

    def on_optimizer_step(self, args, state, control, **kwargs):
        self.seen.append((state.global_step, self.ship.mask))


@pytest.mark.parametrize("accumulation", [1, 3])
def test_a_step_has_the_rows_that_training_gives_it(accumulation):
    batches = StepBatches(LENGTHS, batch_size=8, accumulation=accumulation, seed=3)
    found = list(itertools.islice(batches_by_step(batches), 14))
    parts = []
    for epoch in (0, 1):
        batches.set_epoch(epoch)
        parts += list(batches)
    assert found == [tuple(parts[start : start + accumulation]) for start in range(0, len(parts), accumulation)]


def test_the_tokens_of_a_step_are_those_of_its_micro_batches_padded_each_by_itself():
    assert count_tokens([[0, 1], [2], []], torch.tensor([3, 5, 4])) == 2 * 5 + 4


def test_each_step_that_is_run_has_its_own_mask_and_steps_that_a_hybrid_skips_are_not_run(bert, rehearsal):
    ship = plankwise.hybrid(bert, 2, plankwise.Linear(start=0.3, full_at=0.5))
    watching = Watching(ship)
    rehearsal.make(max_steps=40).run(ship, [ship.callback(), watching])
    assert watching.seen
    for step, mask in watching.seen:
        ship.set_step(step)
        assert mask == ship.mask
        assert any(mask)


def test_the_work_of_a_step_is_that_of_training_for_a_model_that_comes_in_eval_mode_too(bert, rehearsal):
    tried = []

    class Trying(RehearsedStage):
        def execute(self, trainer, keeper, shower):
            trainer.remove_callback(keeper)
            tried.append(FewSteps(trainer, self.num_steps, self.estimate.budget))
            with tried[-1].hooks:
                trainer.train()

    ship = plankwise.hybrid(bert, 2, plankwise.Constant(rate=0.5))
    Trying(**vars(rehearsal.make(max_steps=20))).run(ship.eval(), [ship.callback()])
    ship.train()
    weights = Weights(ship)
    for step, found in enumerate(tried[0].weights):
        ship.set_step(step)
        assert found == weights.training(step)
    assert len(set(tried[0].weights)) == 4


def test_of_a_long_stage_so_many_steps_as_lie_evenly_stand_for_all(bert, rehearsal, monkeypatch):
    monkeypatch.setattr(steps_module, "MOST_STEPS", 5)
    watching = Watching(plankwise.hybrid(bert, 2, plankwise.Constant(rate=1)))
    rehearsal.make(max_steps=101).run(watching.ship, [watching.ship.callback(), watching])
    assert {step for step, _ in watching.seen} <= {0, 25, 50, 75, 100}
    assert rehearsal.estimate.phases["stage"].steps == 101


def test_activations_are_of_the_largest_batch_and_do_not_grow_with_the_micro_batches(bert, rehearsal):
    for name, options in {
        "one": {},
        "large": {"batch_size": 12},
        "parts": {"batch_size": 12, "accumulation": 3},
    }.items():
        rehearsal.make(name, **options).run(bert)
    one, large, parts = (rehearsal.estimate.memory[name]["activations"] for name in ("one", "large", "parts"))
    assert 2 * one < large < 4 * one
    assert parts < 1.5 * one


def test_what_is_trained_has_a_gradient_and_two_states_of_adam_and_modules_beside_the_model_count(bert, rehearsal):
    for parameter in bert.parameters():
        parameter.requires_grad_(False)
    bert.classifier.requires_grad_(True)
    projection = nn.Linear(2, 50)

    def loss(model, inputs, rows):
        return projection(model(**inputs)["logits"]).square().mean()

    rehearsal.make().run(bert, loss=loss, modules={"projection": projection})
    trained = 4 * (16 * 2 + 2 + 2 * 50 + 50)
    memory = rehearsal.estimate.memory["stage"]
    assert (memory["gradients"], memory["optimiser"]) == (trained, 2 * trained)
    buffers = sum(buffer.nbytes for buffer in bert.buffers())
    weights = sum(4 * parameter.numel() for parameter in (*bert.parameters(), *projection.parameters()))
    assert memory["weights"] == weights + buffers


def test_weights_that_are_shared_are_held_once():
    first, second = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    second.weight = first.weight
    assert sum(storages(first, second, first).values()) == 64
    assert sum(storages(first, nn.Linear(4, 4, bias=False)).values()) == 128


def test_no_hook_is_left_where_a_step_fails(bert, rehearsal):
    def fail(model, inputs, rows):
        raise ValueError("an unknown kernel")

    with pytest.raises(ValueError, match="unknown kernel"):
        rehearsal.make().run(bert, loss=fail)
    weight = torch.ones(3, requires_grad=True)
    seen = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: seen.append(1) or tensor, lambda tensor: tensor):
        loss = weight.exp().sum()
    loss.backward()
    assert seen == [1]
    assert rehearsal.estimate.memory == {}
