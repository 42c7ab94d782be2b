"""The head behind solved successors, solved on labels: right where the old one is wrong, written once and whole."""

import copy
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from datasets import Dataset
from torch import nn

from plankwise.config import FitOptions, PlanOptions
from plankwise.core.chain import find_chains
from plankwise.core.plan import even_plan
from plankwise.data.batch import without_labels
from plankwise.errors import ConfigError, PlanError
from plankwise.estimate.phases import Estimate
from plankwise.estimate.rehearsal import RehearsedStage
from plankwise.methods.finetune import truncate
from plankwise.training import solved_head as module
from plankwise.training.job import Job
from plankwise.training.targets import read_logits


def score(examples, logits):
    return float((logits.argmax(-1) == np.array(examples.dataset["labels"])).mean())


def with_labels(texts, labels):
    columns = {**texts.dataset.with_format(None)[:], "labels": list(labels)}
    return replace(texts, dataset=Dataset.from_dict(columns))


@pytest.fixture
def job(bert, texts):
    """A job whose examples have the labels that are given, or those by which the model's own head is wrong throughout."""
    with torch.no_grad():  # far enough apart, so that answers behind successors are on the same side
        bert.classifier.weight.mul_(50)

    def make(labels=None, rehearse=lambda stage: stage, **solving):
        train = texts.train if labels is None else with_labels(texts.train, labels)
        options = PlanOptions(init="solved", solving={"tokens": 60, "head": "labels", **solving})
        training, plan = FitOptions(max_steps=1), even_plan(find_chains(bert), 2)
        return Job(
            copy.deepcopy(bert),
            plan,
            options,
            3,
            16,
            texts.train,
            lambda name: rehearse(texts.make_stage(name, training, train)),
            score,
        )

    return make


@pytest.fixture
def answers(texts):
    """What a model answers for the texts."""

    def find(model):
        arrays = texts.make_stage("answers", FitOptions(max_steps=1)).targets(model, read_logits).arrays
        return arrays["logits"].argmax(-1)

    return find


@pytest.fixture
def opposite(job, texts, answers):
    """The labels that successors behind the old head get wrong, every one."""
    found = 1 - answers(truncate(job(head="kept").start()))
    texts.forget()
    assert 0 < found.mean() < 1
    return found


def test_where_the_old_head_is_wrong_the_solved_one_is_right(job, opposite, answers):
    start = job(opposite).start()
    model = truncate(start)
    assert (answers(model) == opposite).mean() > 0.9
    notes = start.head.notes
    assert (notes["examples"], notes["score_before"]) == (len(opposite), 0.0)
    assert notes["score"] > 0.5
    assert str(f"{notes['strength']:g}") in notes["losses"]


def test_nothing_but_the_last_map_of_the_head_changes(job, opposite, texts):
    solved = truncate(job(opposite).start()).state_dict()
    texts.forget()
    kept = truncate(job(opposite, head="kept").start()).state_dict()
    assert {name for name in solved if not torch.equal(solved[name], kept[name])} == {
        "classifier.weight",
        "classifier.bias",
    }


def test_labels_are_not_read_unless_the_head_is_solved_on_them(job, opposite, texts):
    one = truncate(job(opposite, head="kept").start()).state_dict()
    texts.forget()
    other = truncate(job(1 - opposite, head="kept").start()).state_dict()
    assert all(torch.equal(value, other[name]) for name, value in one.items())


def test_the_record_has_the_head_among_what_was_solved(job, opposite):
    start = job(opposite).start()
    outcome = start.outcome(nn.Identity())
    assert list(outcome.stages) == ["solving", "solving_head"]
    assert outcome.notes["solving"]["head"] == start.head.notes
    assert outcome.seconds == start.solved.stage.seconds + start.head.stage.seconds
    assert "head" not in start.solved.notes


def test_a_second_call_takes_what_was_written(job, opposite, texts, monkeypatch):
    once = job(opposite).start()
    folder = texts.make_stage("solving_head", FitOptions(max_steps=1)).folder
    assert sorted(path.name for path in folder.iterdir()) == ["head.json", "head.safetensors"]
    assert json.loads((folder / "head.json").read_text("utf-8"))["notes"] == once.head.notes
    monkeypatch.setattr(module, "choose_head", lambda *given: pytest.fail("solved again"))
    again = job(opposite).start()
    assert all(torch.equal(value, again.head.weights[name]) for name, value in once.head.weights.items())
    assert (again.head.stage, again.head.notes) == (once.head.stage, once.head.notes)


def test_weights_without_their_result_are_solved_again_to_the_bit(job, opposite, texts):
    once = truncate(job(opposite).start()).state_dict()
    folder = texts.make_stage("solving_head", FitOptions(max_steps=1)).folder
    (folder / "head.json").unlink()
    (folder / "head.safetensors").write_bytes(b"of an earlier call")
    again = truncate(job(opposite).start()).state_dict()
    assert all(torch.equal(value, again[name]) for name, value in once.items())


def test_no_more_examples_are_used_than_are_asked_for(job, opposite):
    assert job(opposite, head_examples=10).start().head.notes["examples"] == 10


def test_a_model_in_half_precision_keeps_it(job, opposite):
    begun = job(opposite)
    begun.predecessor.to(torch.bfloat16)
    assert {value.dtype for value in truncate(begun.start()).state_dict().values()} == {torch.bfloat16}


def test_examples_without_labels_are_refused(job):
    begun = job()
    stage = begun.stage
    begun = replace(begun, stage=lambda name: replace(stage(name), train=without_labels(stage(name).train)))
    with pytest.raises(ConfigError, match=r"plan\.solving\.head is 'labels', for which at least 2 training examples"):
        begun.start()


def test_a_head_of_another_form_is_refused_before_anything_is_solved(job, monkeypatch):
    begun = job()
    begun.predecessor.classifier = nn.Sequential(begun.predecessor.classifier, nn.Tanh())
    monkeypatch.setattr("plankwise.training.job.solve_start", lambda *given: pytest.fail("solved"))
    begun = replace(begun, options=begun.options.model_copy(update={"init": "auto"}))
    with pytest.raises(PlanError, match=r"plan\.solving\.head is 'labels', but in BertForSequenceClassification no"):
        begun.start(gains=True)


def rehearsing(estimate, bert, folder):
    return lambda stage: RehearsedStage(**{**vars(stage), "folder": folder}, estimate=estimate, predecessor=bert)


def test_a_rehearsal_says_what_it_takes_and_one_without_an_estimate_computes_nothing(job, bert, tmp_path, monkeypatch):
    estimate = Estimate()
    job(rehearse=rehearsing(estimate, bert, tmp_path / "rehearsal")).start()
    assert estimate.phases["solving_head"].seconds > 0
    assert estimate.memory["solving_head"]["vectors"] > 0
    monkeypatch.setattr(module, "choose_head", lambda *given: pytest.fail("solved"))
    begun = job(rehearse=rehearsing(None, bert, tmp_path / "other")).start()
    assert begun.head is None
    assert list(begun.outcome(nn.Identity()).stages) == ["solving"]
