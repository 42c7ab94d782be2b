"""The contract of every kind of task, found by its file, plug-ins included, on the tiny examples of `example_KIND.py`."""

import json

import numpy as np
import pytest
import torch

from plankwise.context import Context
from plankwise.evaluation.held_back import HALVES
from plankwise.evaluation.latency import measure_latency
from plankwise.kinds import list_kinds, load_kind
from plankwise.models.hybrids import outermost_models
from plankwise.models.plans import make_plan, try_plan
from plankwise.record import Shown
from plankwise.report.remarks import constant_remark
from plankwise.runtimes.torch import TorchPredictor
from plankwise.task_kinds import kind_of
from plankwise.training.batches import BatchLoader, StepBatches
from plankwise.training.stage import Stage
from plankwise.training.targets import compute_targets

KINDS = list_kinds("task_kinds")
EVERY_KIND = pytest.mark.parametrize("name", KINDS)


def batch_of(one):
    """A training batch as a stage makes it, and its rows."""
    task = one.task
    stage = Stage("x", task.train, None, task.tokenizer, one.config.training, None, None, collate=task.collate)
    batches = StepBatches(task.train.lengths, batch_size=4, accumulation=1, seed=0, rank=0, world_size=1)
    batch = next(iter(BatchLoader(task.train.dataset, batches, stage.collator(lambda: 0))))
    inputs = dict(batch)
    return inputs, inputs.pop("row")


def encoder_of(model):
    """The Hugging Face model: the model itself, or what stands inside it."""
    return next(found for _, found in outermost_models(model))


def loss_of(one, model):
    inputs, rows = batch_of(one)
    imitation = one.task.imitation
    if imitation is not None:
        context = Context(one.console, one.folder, seed=0)
        predecessor, train = one.loaded.model, one.task.train
        targets = compute_targets(predecessor, train, one.task.tokenizer, imitation.read, one.folder, context)
        return imitation.loss(targets)(model, inputs, rows)
    return model(**inputs)["loss"] if one.task.loss is None else one.task.loss(model, inputs, rows)


@EVERY_KIND
def test_a_source_of_examples_names_the_kind(name, opened):
    one = opened(name)
    assert kind_of(one.config.task) is one.kind
    assert name in {load_kind("tasks", task, key="task.name").KIND for task in list_kinds("tasks")}
    assert one.task.kind == name


@EVERY_KIND
def test_there_are_examples_to_train_on_and_held_out_ones(name, opened):
    task = opened(name).task
    for encoded in (task.train, *task.dev.values()):
        assert len(encoded.lengths) == len(encoded.dataset) > 0
    assert task.held_out is next(iter(task.dev.values()))
    texts = task.texts(3)
    assert len(texts) == 3
    assert all(isinstance(text, str) and text for parts in texts for text in parts)


@EVERY_KIND
def test_a_model_is_loaded_by_the_kinds_auto_class_with_a_new_head_that_saves_and_loads(name, opened, tmp_path):
    one = opened(name)
    outline = one.loader.outline(one.config.predecessor.path, one.kind.auto_class(one.config.task))
    assert type(encoder_of(one.loaded.model)) is type(outline)
    # An encoder alone has no head; what imitates needs none.
    assert bool(one.loaded.new) == (one.task.imitation is None and not one.whole)
    one.loaded.model.save_pretrained(tmp_path)
    again = one.task.load(one.loader, str(tmp_path))
    assert not again.new
    assert all(
        torch.equal(value, again.model.state_dict()[key]) for key, value in one.loaded.model.state_dict().items()
    )
    one.task.check_head(one.loader.config(str(tmp_path)), str(tmp_path))


@EVERY_KIND
def test_the_loss_is_finite_and_trains_head_and_blocks(name, opened):
    one = opened(name)
    model = one.loaded.model
    plan = make_plan(model, one.config.plan)
    successor = try_plan(model, plan, init="lower", seed=0).train()
    loss = loss_of(one, successor)
    assert loss.dim() == 0
    assert torch.isfinite(loss)
    loss.backward()
    parameters = dict(successor.named_parameters())
    for chain in plan.chains:
        first = [key for key in parameters if key.startswith(f"{chain}.0.") and parameters[key].dim() == 2]
        assert all(parameters[key].grad.abs().sum() > 0 for key in first)
    assert all(parameters[key].grad is not None for key in one.loaded.new if key in parameters)


@EVERY_KIND
def test_a_step_along_the_gradient_lowers_the_loss(name, opened):
    one = opened(name)
    model = try_plan(one.loaded.model, make_plan(one.loaded.model, one.config.plan), init="lower", seed=0).eval()
    before = loss_of(one, model)
    before.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter -= 1e-2 * parameter.grad
        assert loss_of(one, model) < before


@EVERY_KIND
def test_scores_are_numbers_the_score_among_them_and_within_its_bounds(name, opened):
    one = opened(name)
    found = one.task.score(TorchPredictor(one.loaded.model))
    assert all(isinstance(value, float) and np.isfinite(value) for value in found.values())
    assert -1 <= found["score"] <= 1
    assert one.task.shown.key in found
    assert one.task.score_names
    assert one.task.retained(0.4, 0.8) == 0.5


@EVERY_KIND
def test_what_chooses_in_training_is_the_score_and_the_halves_are_told_beside_it(name, opened):
    one = opened(name)
    predictor = TorchPredictor(one.loaded.model)
    found, whole = one.task.score_in_training(predictor), one.task.score(predictor)
    halves = {key: found.pop(key) for key in HALVES if key in found}
    assert found == whole
    if not halves:
        pytest.skip("the kind does not score halves of dev")
    assert set(halves) == set(HALVES)
    assert min(halves.values()) <= whole["score"] <= max(halves.values())


@EVERY_KIND
def test_samples_of_dev_are_scored_as_dev_is_and_what_is_shown_goes_with_the_score(name, opened):
    one = opened(name)
    metrics, _, outputs = one.task.examine(TorchPredictor(one.loaded.model))
    assert one.task.as_shown(metrics["score"]) == pytest.approx(one.task.shown.value({**metrics, "metrics": metrics}))
    found = one.task.resample(outputs, 5)
    assert np.array_equal(found, one.task.resample(outputs, 5))
    assert len(found) in (0, 5)
    assert set(one.task.score_halves(outputs)) in (set(), set(HALVES))
    whole = one.task.score_samples(outputs, lambda count: np.ones((1, count)))
    assert list(whole) in ([], [pytest.approx(metrics["score"])])


@EVERY_KIND
def test_an_untrained_model_is_not_shown_to_know_more_than_one_answer(name, opened):
    one = opened(name)
    metrics, found, _ = one.task.examine(TorchPredictor(one.loaded.model))
    assert metrics == one.task.score(TorchPredictor(one.loaded.model))
    if found is None:
        pytest.skip("the kind does not say what a constant answer scores")
    json.dumps(found)
    assert found["shown"] is False
    assert 0 <= found["p"] <= 1
    assert constant_remark({"beyond_constant": found})


@EVERY_KIND
def test_outputs_that_are_kept_can_be_compared_example_by_example(name, opened):
    task = opened(name).task
    predictor = TorchPredictor(opened(name).loaded.model)
    outputs = task.outputs(predictor)
    if not outputs:
        pytest.skip("the kind keeps no outputs by example")
    assert {key: len(values) for key, values in outputs.items()} == {
        key: len(encoded.lengths) for key, encoded in task.dev.items()
    }
    assert task.score_outputs(outputs) == task.score(predictor)
    with torch.no_grad():
        other_model = task.load(opened(name).loader, opened(name).config.predecessor.path).model
        for parameter in other_model.parameters():
            parameter.normal_()
    other = task.outputs(TorchPredictor(other_model))
    sizes = {key: len(values) for key, values in outputs.items()}
    nothing, everything, some = (
        {key: np.broadcast_to(mask(size), (1, size)) for key, size in sizes.items()}
        for mask in (lambda n: np.zeros(n, bool), lambda n: np.ones(n, bool), lambda n: np.arange(n) % 2 == 0)
    )
    difference = task.score_outputs(outputs)["score"] - task.score_outputs(other)["score"]
    assert task.differences([outputs], [other], nothing) == pytest.approx([difference])
    assert task.differences([outputs], [other], everything) == pytest.approx([-difference])
    assert task.differences([outputs], [outputs], some) == pytest.approx([0.0])


@EVERY_KIND
def test_what_is_timed_runs_from_text_to_answer(name, opened):
    task, model = opened(name).task, opened(name).loaded.model
    timed = task.timed(4)
    batch = timed.encode(timed.texts)
    assert timed.count_tokens() == batch["attention_mask"].sum(1).tolist()
    answers = timed.answer(TorchPredictor(model)(batch))
    assert len(answers) == len(timed.texts) == 4
    json.dumps(answers)
    found = measure_latency({"model": TorchPredictor(model)}, timed, batch_sizes=[2], predictions=1)
    assert found.latency["model"]["2"]["predictions"] == 1


@EVERY_KIND
def test_the_record_says_of_a_task_its_kind_and_how_it_is_shown(name, opened):
    task = opened(name).task
    said = json.loads(json.dumps(task.describe()))
    assert said["kind"] == name
    assert Shown.from_json(said["shown"]) == task.shown
    assert said["name"] == task.name
    assert said["score"] == list(task.score_names)
    assert said["train"] == len(task.train.lengths)
    assert said["dev"] == {key: len(encoded.lengths) for key, encoded in task.dev.items()}


@EVERY_KIND
def test_two_readings_give_the_same_examples(name, opened, tmp_path):
    one = opened(name)
    again = one.kind.read(one.config, one.task.tokenizer, one.console)
    again.lay_out(tmp_path, one.console)
    assert again.train.dataset[:] == one.task.train.dataset[:]
    assert {key: encoded.dataset[:] for key, encoded in again.dev.items()} == {
        key: encoded.dataset[:] for key, encoded in one.task.dev.items()
    }
