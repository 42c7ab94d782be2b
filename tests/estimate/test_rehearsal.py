"""Runs that are rehearsed: every method, what they leave as it was, and what they say."""

import random

import numpy as np
import pytest
import torch
from rich.console import Console

from plankwise.config import load_config
from plankwise.context import open_context
from plankwise.estimate.phases import Estimate
from plankwise.kinds import list_kinds
from plankwise.run.estimating import preview, rehearse
from plankwise.run.inputs import read_inputs

QUIET = Console(quiet=True)


@pytest.fixture
def look(recipe):
    """Previews the tiny recipe with overrides."""

    def run(*overrides, estimate=True):
        return preview(load_config(recipe, [*overrides]), QUIET, estimate=estimate)

    return run


@pytest.mark.parametrize("method", list_kinds("methods"))
def test_every_method_is_estimated_by_its_own_stages_and_nothing_is_written(method, look, tmp_path):
    found = look(f"method.name={method}", "training.max_steps=6", "training.batch_size=8")
    phases = found["estimate"]["phases"]
    names = list(phases)
    assert (names[0], names[-2:]) == ("predecessor", ["evaluations", "latency"])
    others = {"predecessor"} if method == "finetune" else {"predecessor", "truncated"}
    own = [phase for name, phase in phases.items() if phase["steps"] is not None and name not in others]
    trained = sum(phase["steps"] for phase in own)
    assert trained == (0 if method == "solve" else 6)
    assert ("truncated" in phases) == (trained > 0)  # it is trained as long as the successor
    assert not trained or phases["truncated"]["steps"] == trained
    assert all(phase["estimated"] > 0 for phase in own)
    assert found["parameters"]["successor"] < found["parameters"]["predecessor"]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("method", ["kd", "pkd"])
def test_targets_are_a_phase_without_steps_before_the_stage_that_reads_them(method, look):
    phases = look(f"method.name={method}", "plan.init=lower")["estimate"]["phases"]
    assert list(phases)[1:3] == ["targets", method]
    assert phases["targets"]["steps"] is None


def test_a_fitted_start_is_a_phase_of_its_own_that_shares_the_steps(look):
    phases = look("plan.init=fitted", "training.max_steps=6", "plan.fitting.share=0.34")["estimate"]["phases"]
    assert (phases["fitting"]["steps"], phases["replacing"]["steps"], phases["truncated"]["steps"]) == (2, 4, 6)


@pytest.mark.parametrize(
    ("overrides", "start"),
    [
        (["plan.successors=1", "training.max_steps=4"], "solved"),
        (["plan.successors=1", "training.max_steps=4", "method.name=kd"], "solved"),
        (["plan.successors=1", "training.max_steps=4", "method.name=finetune"], "lower"),
        (["plan.successors=1", "training.max_steps=4", "plan.init=upper"], "upper"),
    ],
)
def test_the_start_that_auto_means_is_told_without_an_estimate_too(overrides, start, look):
    found = look(*overrides, estimate=False)
    assert found["init"]["start"] == start
    assert "estimate" not in found


def test_a_stage_with_no_estimate_to_fill_in_runs_no_step(bert, rehearsal):
    def fail(model, inputs, rows):
        pytest.fail("a step was run")

    assert rehearsal.make(estimate=None).run(bert, loss=fail).steps == 12


def test_steps_that_replace_nothing_take_no_time(look):
    settings = ("training.max_steps=8", "evaluation.truncated=false", "evaluation.latency=false")
    found = look(*settings, "method.schedule={kind='constant', rate=0.0, full_at=1.0}")
    assert found["estimate"]["phases"]["replacing"] == {"estimated": 0.0, "steps": 8}


def test_a_model_is_evaluated_as_often_as_its_stage_says(bert, rehearsal):
    rehearsal.make(evaluate_every=5).run(bert)
    encoder = 4 * (4 * 16 * 16 + 2 * 16 * 32) + 16 * 16 + 2 * 16
    assert rehearsal.estimate.evaluated == 3 * encoder  # after 5, 10 and 12 steps


def test_a_prediction_is_counted_at_the_median_length(look):
    once = look()["estimate"]["multiply_adds"]["prediction"]
    assert once["tokens"] == 6  # four words between [CLS] and [SEP]
    assert 1.5 < once["predecessor"] / once["successor"] < 2.1


def test_memory_is_the_sum_of_its_parts_and_adam_holds_twice_what_is_trained(look):
    found = look("method.name=finetune", "predecessor.training.batch_size=32", "training.batch_size=2")
    memory = found["estimate"]["memory"]
    parts, weights = memory["parts_mb"], 4 * found["parameters"]["predecessor"] / 1e6
    assert memory["phase"] == "predecessor"
    assert parts["optimiser"] == pytest.approx(2 * parts["gradients"])
    assert parts["gradients"] == pytest.approx(weights)
    assert weights <= parts["weights"] < 1.1 * weights
    assert parts["activations"] > 0
    assert memory["estimated_mb"] == pytest.approx(sum(parts.values()))


def test_targets_have_a_row_for_every_text_and_are_as_wide_as_the_longest(bert, rehearsal):
    def read(model, inputs):
        output = model(**inputs, output_hidden_states=True)
        return {"logits": output.logits, "states": output.hidden_states[-1]}

    for estimate in (rehearsal.estimate, None):
        targets = rehearsal.make(estimate=estimate).targets(bert, read)
        assert targets.arrays["logits"].shape == (24, 2)
        assert targets.arrays["states"].shape == (24, max(rehearsal.lengths), 16)
        assert torch.isfinite(targets.take("states", torch.tensor([0, 23]))).all()
    assert rehearsal.estimate.phases["targets"].steps is None


def test_a_stage_that_is_rehearsed_learns_nothing_and_keeps_nothing(bert, rehearsal, tmp_path):
    before = {name: value.clone() for name, value in bert.state_dict().items()}
    result = rehearsal.make(save_every=1, report_to=["tensorboard"]).run(bert)
    assert result.steps == result.max_steps == 12
    assert all(torch.equal(value, before[name]) for name, value in bert.state_dict().items())
    assert not (tmp_path / "checkpoints").exists()
    assert not list(rehearsal.folder.rglob("*.*"))


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["method.name=pkd"],
        ["plan.init=fitted", "training.max_steps=4"],
        ["method.name=tinybert", "plan.init=lower", "training.max_steps=4", "method.projection=true"],
        ["method.name=heads", "plan.init=lower", "training.max_steps=4", "method.rounds=2"],
    ],
)
def test_a_rehearsal_leaves_the_predecessor_and_random_states_as_they_were(overrides, recipe, tmp_path):
    config = load_config(recipe, overrides)
    inputs = read_inputs(config, open_context(QUIET, tmp_path / "run", config.run.seed))
    model = inputs.predecessor.model
    before = {name: value.clone() for name, value in (*model.named_parameters(), *model.named_buffers())}
    trained = [parameter.requires_grad for parameter in model.parameters()]
    states = torch.random.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    rehearse(inputs, Estimate())
    assert torch.equal(states[0], torch.random.get_rng_state())
    assert np.array_equal(states[1], np.random.get_state()[1])
    assert states[2] == random.getstate()
    after = dict((*model.named_parameters(), *model.named_buffers()))
    assert after.keys() == before.keys()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert [parameter.requires_grad for parameter in model.parameters()] == trained
    assert all(parameter.grad is None for parameter in model.parameters())
