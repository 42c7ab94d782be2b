"""The method `exits`: what is kept out is not trained on, patience is the smallest that is good enough, blocks may all be kept."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from plankwise.core.chain import find_chains
from plankwise.core.plan import even_plan
from plankwise.errors import ConfigError
from plankwise.methods import exits
from plankwise.methods.exits import Options, choose, keep_out


def test_examples_that_choose_are_not_trained_on_and_the_steps_stay_as_many(make_job):
    stage = make_job().stage("exits")
    rest, few, count = keep_out(stage, 0.25)
    assert count == 12
    assert rest.num_steps == stage.num_steps
    trained = {tuple(ids) for ids in rest.train.dataset["input_ids"]}
    kept_out = [tuple(ids) for ids in few.train.dataset["input_ids"]][:count]
    assert not trained & set(kept_out)
    assert len(trained) + len(set(kept_out)) == len({tuple(ids) for ids in stage.train.dataset["input_ids"]})


def test_one_example_cannot_be_divided(make_job):
    stage = make_job().stage("exits")
    one = replace(stage.train, dataset=stage.train.dataset.select([0]), lengths=stage.train.lengths[:1])
    with pytest.raises(ConfigError, match="and there is 1; give more"):
        keep_out(replace(stage, train=one), 0.1)


def answers(*rows):
    """Logits (N, blocks, 2) of heads that answer so, and the labels, which are what the last head answers."""
    found = np.eye(2, dtype=np.float32)[np.array(rows)]
    return found, np.array(rows)[:, -1]


@pytest.mark.parametrize(("within", "chosen"), [(0.0, 3), (0.25, 2), (0.5, 1)])
def test_the_smallest_patience_whose_score_is_close_to_the_whole_models_is_chosen(within, chosen, make_job):
    logits, labels = answers([0, 0, 0, 0, 0], [0, 0, 0, 1, 1], [0, 0, 1, 1, 1], [1, 0, 0, 0, 0])
    job = replace(make_job(), score_examples=lambda texts, found: float((found.argmax(-1) == labels).mean()))
    found = choose(job, None, logits, Options(within=within))
    assert [one["score"] for one in found["tried"]] == [0.5, 0.75, 1.0, 1.0]
    assert found["patience"] == chosen
    assert [one["mean_block"] for one in found["tried"]][-1] == 5
    assert choose(job, None, logits, Options(patience=4))["patience"] == 4


def test_all_blocks_may_be_kept_and_start_as_copies(make_job):
    model = make_job().predecessor
    outcome = exits.compress(make_job(model, even_plan(find_chains(model), 4)), Options())
    assert outcome.notes["init"] == "lower"  # nothing to solve
    assert outcome.successor.num_blocks == 4
    assert outcome.successor.patience == outcome.notes["patience"]["patience"]
    assert len(outcome.notes["patience"]["heads"]) == 3


def test_fewer_blocks_are_solved_first(make_job):
    outcome = exits.compress(make_job(), Options(patience=1))
    assert outcome.notes["init"] == "solved"
    assert outcome.successor.patience == 1


def test_numbers_are_learnt_and_left_by_their_tolerance(make_job):
    torch.manual_seed(0)
    sizes = {
        "vocab_size": 50,
        "hidden_size": 16,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "num_hidden_layers": 4,
    }
    model = BertForSequenceClassification(BertConfig(**sizes, num_labels=1, problem_type="regression"))

    def closeness(texts, found):
        return -float(np.square(found[:, 0] - texts.dataset["labels"][:]).mean())

    job = replace(make_job(model, even_plan(find_chains(model), 4)), score_examples=closeness)
    outcome = exits.compress(job, Options(tolerance=0.5, within=10.0))
    assert outcome.successor.config.exits["tolerance"] == 0.5
    assert outcome.successor.patience == 1  # whatever the score
    assert all(one["score"] <= 0 for one in outcome.notes["patience"]["tried"])
