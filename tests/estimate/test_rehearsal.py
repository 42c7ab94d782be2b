"""Runs that are rehearsed: every method, what they leave as it was, and what they say."""

import random

import numpy as np
import pytest
import torch
from rich.console import Console

from plankwise.config import load_config
from plankwise.estimate.notebook import Notebook
from plankwise.ground import make_draft
from plankwise.kinds import list_kinds
from plankwise.run import preview, rehearse

QUIET = Console(quiet=True)
STAGES = {"finetune": "truncated"}


@pytest.fixture
def look(recipe):
    """Previews the tiny recipe with overrides."""

    def run(*overrides, estimate=True):
        return preview(load_config(recipe, [*overrides]), QUIET, estimate=estimate)

    return run


@pytest.mark.parametrize("method", list_kinds("methods"))
def test_every_method_is_estimated_by_its_own_stage_and_nothing_is_written(method, look, tmp_path):
    found = look(f"method.name={method}", "training.max_steps=6", "training.batch_size=8")
    phases = found["estimate"]["phases"]
    own = phases[STAGES.get(method, method)]
    assert own["steps"] == 6
    assert own["estimated"] > 0 < own["multiply_adds"]
    assert ("floor" in phases) == (method != "finetune")
    assert ("targets" in phases) == (method in ("kd", "pkd"))
    assert phases.keys() >= {"predecessor", "evaluations", "latency"}
    assert found["parameters"]["successor"] < found["parameters"]["predecessor"]
    assert not (tmp_path / "run").exists()


def test_a_fitted_start_is_a_phase_of_its_own_that_shares_the_steps(look):
    phases = look("plan.init=fitted", "training.max_steps=6", "plan.fitting.share=0.34")["estimate"]["phases"]
    assert (phases["fitting"]["steps"], phases["replacing"]["steps"], phases["floor"]["steps"]) == (2, 4, 6)


@pytest.mark.parametrize(
    ("overrides", "start"),
    [
        (["plan.successors=1", "training.max_steps=4"], "fitted"),
        (["plan.successors=1", "training.max_steps=1"], "lower"),
        (["plan.successors=1", "training.max_steps=4", "method.name=kd"], "lower"),
        (["plan.successors=1", "training.max_steps=4", "plan.init=upper"], "upper"),
    ],
)
def test_the_start_that_auto_means_is_told_without_a_step_being_run(overrides, start, look, monkeypatch):
    monkeypatch.setattr("plankwise.estimate.rehearsal._Training", None)
    found = look(*overrides, estimate=False)
    assert found["init"]["start"] == start
    assert "estimate" not in found


def test_steps_that_replace_nothing_cost_nothing(look):
    settings = ("training.max_steps=8", "training.batch_size=8", "evaluation.floor=false", "evaluation.latency=false")
    all_steps, half, none = (
        look(*settings, f"method.schedule={{kind='constant', rate={rate}, full_at={full}}}")["estimate"]["phases"][
            "replacing"
        ]["multiply_adds"]
        for rate, full in ((1.0, 0.0), (0.0, 0.5), (0.0, 1.0))
    )
    assert 0 < half < 0.7 * all_steps
    assert none == 0


def test_memory_is_the_sum_of_its_parts_and_adam_holds_twice_what_is_trained(look):
    found = look("method.name=finetune", "predecessor.training.batch_size=32", "training.batch_size=2")
    parts = found["estimate"]["memory"]["parts_mb"]
    weights = 4 * found["parameters"]["predecessor"] / 1e6
    assert parts["optimiser"] == pytest.approx(2 * parts["gradients"])
    assert parts["gradients"] == pytest.approx(weights)
    assert weights <= parts["weights"] < 1.1 * weights
    assert parts["activations"] > 0
    assert found["estimate"]["memory"]["estimated_mb"] == pytest.approx(sum(parts.values()))


def test_longer_texts_and_larger_batches_keep_more_for_the_backward_pass(look):
    def activations(size):
        found = look("method.name=finetune", f"predecessor.training.batch_size={size}", "training.batch_size=2")
        return found["estimate"]["memory"]["parts_mb"]["activations"]

    assert activations(16) > 1.5 * activations(8)


def test_a_prediction_is_counted_at_the_median_length(look):
    once = look()["estimate"]["multiply_adds"]["prediction"]
    assert once["tokens"] == 6  # four words between [CLS] and [SEP]
    assert 1.5 < once["predecessor"] / once["successor"] < 2.1


@pytest.mark.parametrize("overrides", [[], ["method.name=pkd"], ["plan.init=fitted", "training.max_steps=4"]])
def test_a_rehearsal_leaves_weights_and_random_states_as_they_were(overrides, recipe):
    draft = make_draft(load_config(recipe, overrides), QUIET)
    before = {name: value.clone() for name, value in draft.predecessor.state_dict().items()}
    trained = [parameter.requires_grad for parameter in draft.predecessor.parameters()]
    states = torch.random.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    rehearse(draft, Notebook())
    assert torch.equal(states[0], torch.random.get_rng_state())
    assert np.array_equal(states[1], np.random.get_state()[1])
    assert states[2] == random.getstate()
    after = draft.predecessor.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert [parameter.requires_grad for parameter in draft.predecessor.parameters()] == trained
    assert all(parameter.grad is None for parameter in draft.predecessor.parameters())
