"""The contract of every method, found by its file: it yields a successor of the plan's depth from a tiny model."""

import copy
from dataclasses import replace

import pytest
import torch
from transformers import BertForSequenceClassification

from plankwise.config import validate_config
from plankwise.core.chain import find_chains
from plankwise.core.plan import Plan, Slot, even_plan
from plankwise.core.schedule import Linear, draw_mask
from plankwise.errors import ConfigError
from plankwise.kinds import list_kinds, load_kind


def compress(job, name, **options):
    module = load_kind("methods", name, key="method.name")
    return module.compress(job, module.Options(**options))


@pytest.mark.parametrize("name", list_kinds("methods"))
def test_a_method_yields_a_successor_of_the_plans_depth_in_all_steps_or_none(name, make_job):
    job = make_job()
    before = {name: value.clone() for name, value in job.predecessor.state_dict().items()}
    outcome = compress(job, name)
    assert isinstance(outcome.successor, BertForSequenceClassification)
    assert outcome.successor.config.num_hidden_layers == len(outcome.successor.bert.encoder.layer) == 2
    assert outcome.steps == (0 if name == "solve" else 6)
    assert list(outcome.stages) == [stage.name for stage in outcome.stages.values()]
    after = outcome.successor.state_dict()
    first = "bert.encoder.layer.0.output.dense.weight"
    assert not torch.equal(after[first], before[first])


@pytest.mark.parametrize("name", list_kinds("methods"))
def test_a_methods_defaults_name_keys_that_exist(name):
    config = validate_config({"method": {"name": name}})
    module = load_kind("methods", name, key="method.name")
    for section, values in module.defaults({}).items():
        assert {key: getattr(getattr(config, section), key) for key in values} == values


@pytest.mark.parametrize("name", [name for name in list_kinds("methods") if name not in ("replacing", "solve")])
def test_a_baseline_trains_all_of_the_successor(name, make_job):
    job = make_job()
    before = {key: value.clone() for key, value in job.predecessor.state_dict().items() if ".layer." not in key}
    after = compress(job, name).successor.state_dict()
    assert not [key for key, value in before.items() if torch.equal(value, after[key])]


def test_replacing_trains_successors_only(make_job):
    job = make_job()
    before = {name: value.clone() for name, value in job.predecessor.state_dict().items() if ".layer." not in name}
    after = compress(job, "replacing", schedule={"kind": "constant", "rate": 1.0}).successor.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_steps_that_replaced_nothing_are_counted(make_job):
    outcome = compress(make_job(), "replacing", schedule={"kind": "constant", "rate": 0.0, "full_at": 0.5})
    assert outcome.skipped_steps == 3


def test_the_masks_that_were_drawn_are_noted_in_bins(make_job, monkeypatch):
    monkeypatch.setattr("plankwise.methods.replacing.BINS", 4)
    outcome = compress(make_job(training={"max_steps": 10}), "replacing")
    masks = outcome.notes["masks"]
    drawn = [draw_mask(3, step, Linear()(step, 10), 2) for step in range(10)]
    assert [(bin["step"], bin["steps"]) for bin in masks["bins"]] == [(0, 3), (3, 3), (6, 3), (9, 1)]
    assert masks["bins"][0]["replaced"] == [sum(mask[slot] for mask in drawn[:3]) for slot in (0, 1)]
    assert masks["bins"][-1]["replaced"] == [1, 1]
    assert len(masks["slots"]) == 2


def test_blending_skips_no_step(make_job):
    assert compress(make_job(), "replacing", mix="blend").skipped_steps == 0


@pytest.mark.parametrize("options", [{}, {"mode": "reference"}, {"alpha": 0.5}, {"mix": "blend"}])
def test_a_plateau_raises_the_rate_by_the_stages_own_score_and_a_finished_run_says_the_same(options, make_job):
    schedule = {"kind": "plateau", "start": 0.0, "rise": 1.0, "latest": 1.0}

    def run(score):
        job = make_job(training={"evaluate_every": 1})
        stalling = replace(job, stage=lambda name: replace(job.stage(name), score=score))
        return compress(stalling, "replacing", schedule=schedule, **options)

    first = run(lambda model: {"score": 0.5})
    again = run(lambda model: pytest.fail("scored again"))
    for outcome in (first, again):
        assert outcome.notes["rises"] == [2]  # the second evaluation was no better than the first
        assert outcome.skipped_steps == 2
    assert all(torch.equal(v, again.successor.state_dict()[k]) for k, v in first.successor.state_dict().items())


def test_a_schedule_that_is_driven_by_the_step_has_no_rises_to_note(make_job):
    assert "rises" not in compress(make_job(), "replacing").notes


def test_mode_reference_sets_the_published_codes_choices_and_each_can_be_set_alone():
    config = validate_config({"method": {"mode": "reference"}})
    method = config.method
    assert (method.clip_scope, method.idle_momentum, method.frozen_dropout, method.unfreeze) == (
        "all",
        True,
        True,
        "nothing",
    )
    assert (config.plan.init, config.training.lr_schedule, config.training.warmup_share) == ("first", "linear", 0.0)
    own = validate_config({"method": {"mode": "reference", "idle_momentum": False}, "plan": {"init": "upper"}})
    assert (own.method.idle_momentum, own.method.clip_scope, own.plan.init) == (False, "all", "upper")


@pytest.mark.parametrize(
    ("name", "successors", "steps", "start"),
    [("replacing", 1, 4, "solved"), ("replacing", 2, 1, "solved"), ("kd", 2, 4, "solved"), ("finetune", 1, 4, "lower")],
)
def test_successors_are_solved_first_where_the_method_gains_by_it(name, successors, steps, start, make_job):
    model = make_job().predecessor
    job = make_job(model, even_plan(find_chains(model), successors), training={"max_steps": steps})
    outcome = compress(job, name)
    assert outcome.notes["init"] == start
    assert ("solving" in outcome.stages) == (start == "solved")
    assert outcome.steps == steps


def test_a_start_that_is_asked_for_is_kept_however_wide_the_spans(make_job):
    model = make_job().predecessor
    outcome = compress(make_job(model, even_plan(find_chains(model), 1), init="upper"), "replacing")
    assert outcome.notes["init"] == "upper"


@pytest.mark.parametrize("name", ["replacing", "finetune", "kd"])
def test_slots_inside_blocks_are_all_trained(name, make_job):
    """The last of them, too, whose block runs for the first token alone where it can."""
    model = make_job().predecessor
    slots = tuple(Slot(f"bert.encoder.layer.{index}.attention") for index in range(4))
    before = copy.deepcopy(model.state_dict())
    options = {"schedule": {"kind": "constant", "rate": 1.0}} if name == "replacing" else {}
    after = compress(make_job(model, Plan(slots)), name, **options).successor.state_dict()
    for slot in slots:
        key = f"{slot.path}.self.value.weight"
        assert not torch.equal(after[key], before[key]), key


def test_a_budget_is_divided_among_stages_by_their_shares(make_job):
    start = make_job(training={"max_steps": 10}).start()
    assert [stage.num_steps for stage in start.stages({"one": 0.3, "two": 0.7})] == [3, 7]
    assert [stage.num_steps for stage in start.stages({"one": 0.01, "two": 1, "three": 0.01})] == [1, 8, 1]
    fitted = make_job(training={"max_steps": 10}, init="fitted").start()
    assert sum(stage.num_steps for stage in fitted.stages({"one": 1, "two": 1})) == 10 - fitted.fit.stage.max_steps
    with pytest.raises(ConfigError, match=r"has 2 stages \(one, two\), but 1 step is left"):
        make_job(training={"max_steps": 1}).start().stages({"one": 1, "two": 1})
