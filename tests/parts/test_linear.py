"""Affine maps in neighbouring slots: one map after collapse where no norm is between them."""

import copy

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2ForSequenceClassification

import plankwise
from plankwise.core.chain import find_chains
from plankwise.core.plan import Plan, listed_plan
from plankwise.evaluation.size import count_parameters
from plankwise.models.plans import assemble, build_successors, take_out

WIDTH = 16
INPUTS = {"input_ids": torch.arange(1, 13).view(2, 6), "attention_mask": torch.ones(2, 6, dtype=torch.long)}


def make(name):
    torch.manual_seed(0)
    if name == "gpt2":
        config = GPT2Config(n_embd=WIDTH, n_layer=5, n_head=2, vocab_size=20, pad_token_id=0, initializer_range=0.3)
        return GPT2ForSequenceClassification(config).eval()
    sizes = {"hidden_size": WIDTH, "num_hidden_layers": 5, "num_attention_heads": 2, "intermediate_size": 24}
    return BertForSequenceClassification(BertConfig(**sizes, vocab_size=20, initializer_range=0.3)).eval()


def make_ship(model, spans):
    """Affine maps in these spans, with weights that are not zero."""
    plan = listed_plan(find_chains(model), spans, "linear", {})
    modules = build_successors(model, plan, init="lower", seed=0)
    for one in modules:
        torch.nn.init.normal_(one.output.weight, std=0.2)
        torch.nn.init.normal_(one.output.bias, std=0.2)
    return assemble(copy.deepcopy(model), plan, modules)


@torch.no_grad()
def logits(model):
    return model(**INPUTS).logits


def parts_of(successor):
    return [slot.part for slot in Plan.from_json(successor.config.plan).slots]


def test_maps_of_three_neighbours_become_one_and_the_successor_smaller_by_two(tmp_path):
    model = make("gpt2")
    ship = make_ship(model, [[1], [2, 3], [4]])
    successor = take_out(ship)
    assert parts_of(successor) == ["linear", "identity", "identity"]
    torch.testing.assert_close(logits(successor), logits(ship), atol=1e-5, rtol=1e-5)
    one = WIDTH**2 + WIDTH
    blocks = sum(count_parameters(model.transformer.h[index]) for index in range(1, 5))
    assert count_parameters(successor) == count_parameters(model) - blocks + one
    successor.save_pretrained(tmp_path / "saved")
    loaded = copy.deepcopy(plankwise.load(tmp_path / "saved"))
    assert torch.equal(logits(loaded), logits(successor))
    assert parts_of(take_out(ship)) == parts_of(successor)  # the hybrid is as it was


def test_what_has_a_block_or_a_norm_between_stays_as_it_is_to_the_bit():
    apart, post = make_ship(make("gpt2"), [[1], [3]]), make_ship(make("bert"), [[1], [2]])
    for ship in (apart, post):
        successor = take_out(ship)
        assert parts_of(successor) == ["linear", "linear"]
        assert torch.equal(logits(successor), logits(ship))


@pytest.mark.parametrize("shared", [True, False])
def test_a_map_that_stands_in_several_places_is_not_changed(shared):
    model = make("gpt2")
    plan = listed_plan(find_chains(model), [[1], [2], [4]], "linear", {})
    modules = build_successors(model, plan, init="random", seed=0)
    if shared:
        modules[2] = modules[0]
    ship = assemble(model, plan, modules)
    successor = take_out(ship)
    assert parts_of(successor) == ["linear", "linear" if shared else "identity", "linear"]
    torch.testing.assert_close(logits(successor), logits(ship), atol=1e-5, rtol=1e-5)
