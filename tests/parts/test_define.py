"""DeFINE: the table that is cached is the network's output, the start is nearer than a low rank, groups, and what stays."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional
from transformers import AutoModelForSequenceClassification

import plankwise
from plankwise.models.plans import assemble, build_successors, reassemble, take_out
from plankwise.models.saving import save
from plankwise.parts._sublayers_define import GroupLinear
from sublayers import logits, make, make_inputs, plan_of, successor_of

WORDS = "bert.embeddings.word_embeddings"


def build(model, init="lower", **options):
    return build_successors(model, plan_of(model, "define", WORDS, **options), init=init, seed=0)[0]


def test_the_cached_table_is_what_the_network_gives_and_the_checkpoint_is_a_plain_one(tmp_path):
    model = make()
    plan = plan_of(model, "define", WORDS)
    network = build_successors(model, plan, init="lower", seed=0)[0]
    successor = take_out(assemble(copy.deepcopy(model), plan, [network]))
    table = successor.get_submodule(WORDS)
    assert type(table) is nn.Embedding
    torch.testing.assert_close(table.weight, network.compute(torch.arange(30)), atol=1e-5, rtol=1e-4)
    assert table.padding_idx == 0
    assert table.weight.requires_grad
    assert successor.config.model_type == "bert"
    save(successor, tmp_path / "cached")
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path / "cached").eval()
    assert torch.equal(logits(loaded), logits(successor))
    assert sum(one.numel() for one in successor.parameters()) == sum(one.numel() for one in model.parameters())


def test_a_network_that_is_kept_is_saved_with_the_plan_and_is_smaller(tmp_path):
    model = make(vocab_size=2000)
    successor = successor_of(model, plan_of(model, "define", WORDS, cached=False))
    assert successor.config.model_type == "plankwise"
    assert sum(one.numel() for one in successor.parameters()) < sum(one.numel() for one in model.parameters()) / 2
    save(successor, tmp_path / "network")
    torch.testing.assert_close(logits(plankwise.load(tmp_path / "network")), logits(successor), atol=1e-6, rtol=1e-6)


@torch.no_grad()
def test_the_start_is_nearer_to_the_table_than_a_low_rank_as_narrow_as_its_rows():
    model = make(vocab_size=200)
    table = model.get_submodule(WORDS).weight
    missed = (build(model).tabulate() - table).square().sum()
    assert missed < torch.linalg.svdvals(table)[4:].square().sum()
    random = build(model, init="random").tabulate()
    assert missed < (random - table).square().sum()


@torch.no_grad()
def test_what_is_looked_up_follows_the_weights_and_is_not_copied():
    network = build(make()).eval()
    ids = torch.tensor([[3, 5, 3]])
    before = network(ids)
    torch.testing.assert_close(before, network.compute(ids), atol=1e-5, rtol=1e-4)
    assert torch.equal(network.tabulate()[ids], before)
    assert copy.deepcopy(network)._kept is None
    network.map.weight[3] += 1
    assert not torch.equal(network(ids)[0, 0], before[0, 0])
    assert torch.equal(network(ids)[0, 1], before[0, 1])
    network.load_state_dict(build(make()).state_dict())
    assert torch.equal(network(ids), before)


@torch.no_grad()
def test_a_linear_layer_in_groups_is_one_whose_matrix_has_blocks():
    torch.manual_seed(0)
    layer = GroupLinear(6, 4, 2)
    whole = torch.block_diag(*(block.T for block in layer.weight))
    state = torch.randn(3, 5, 6)
    torch.testing.assert_close(layer(state), functional.linear(state, whole, layer.bias))


@pytest.mark.parametrize(
    ("options", "groups", "widths", "narrow"),
    [
        ({}, [4, 2, 1], [16, 24, 32], 4),
        ({"groups": 6, "depth": 2, "width": 7, "expand": 1.0}, [6, 3], [18, 18], 12),
        ({"groups": 1, "depth": 1, "width": 0.5}, [1], [32], 8),
    ],
)
def test_layers_widen_in_equal_steps_with_half_the_groups_each(options, groups, widths, narrow):
    network = build(make(), **options)
    assert [len(layer.weight) for layer in network.expand] == groups
    assert [norm.normalized_shape[0] for norm in network.norms] == widths
    assert network.map.embedding_dim == narrow
    inputs = [narrow, *(width + narrow for width in widths)]
    assert [layer.weight.shape[0] * layer.weight.shape[1] for layer in network.expand] == inputs[:-1]
    assert network.reduce.in_features == inputs[-1]


def test_a_hybrid_is_made_again_from_a_successor_whose_network_is_gone():
    model = make()
    plan = plan_of(model, "define", WORDS)
    successor = successor_of(model, plan)
    hybrid = reassemble(copy.deepcopy(model), successor, plan)
    with torch.no_grad(), hybrid.masked(True):
        assert torch.equal(hybrid(**make_inputs(model)).logits, logits(successor))
