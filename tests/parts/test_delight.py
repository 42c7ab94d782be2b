"""DeLighT's block: how deep and wide it is by its place, its groups, and features that are shuffled over them."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from transformers import BertConfig, BertModel

from plankwise.config import validate_part
from plankwise.core.chain import find_chains
from plankwise.core.plan import even_plan
from plankwise.models.plans import build_successors
from plankwise.parts._blocks_sublayers import DExTra, GroupLinear, layer_sizes, shuffle
from plankwise.parts.delight import scaled


def test_blocks_grow_deeper_and_wider_with_their_place():
    options = validate_part("delight", {})
    assert [scaled(options, index, 3) for index in range(3)] == [(4, 2.0), (6, 2.5), (8, 3.0)]
    assert scaled(options, 0, 1) == (4, 2.0)


def test_layers_widen_and_narrow_again_in_twice_as_many_groups_each():
    assert layer_sizes(32, 6, 2.0, 8) == ([16, 40, 64, 64, 40, 16], [2, 4, 8, 8, 4, 2])
    assert layer_sizes(32, 5, 2.0, 4) == ([16, 40, 64, 40, 16], [2, 4, 4, 4, 2])
    assert layer_sizes(32, 1, 2.0, 1) == ([64], [1])


def test_a_group_linear_transform_is_a_map_with_blocks_on_its_diagonal():
    torch.manual_seed(0)
    layer = GroupLinear(6, 8, 2)
    features, began = torch.randn(3, 5, 4), torch.randn(3, 5, 2)
    with torch.no_grad():
        found = layer(features, began).unflatten(-1, (4, 2)).transpose(-1, -2).flatten(-2)  # not shuffled
        for group in range(2):
            given = torch.cat([features[..., 2 * group : 2 * group + 2], began[..., group : group + 1]], -1)
            expected = functional.layer_norm(given @ layer.weight[group] + layer.bias[group], (4,))
            torch.testing.assert_close(found[..., 4 * group : 4 * group + 4], functional.silu(expected))


def test_shuffled_features_of_each_group_are_spread_over_all():
    assert shuffle(torch.arange(6.0)[None, None], 2).flatten().tolist() == [0, 3, 1, 4, 2, 5]


def test_every_layer_reads_what_the_unit_began_with():
    torch.manual_seed(0)
    unit = DExTra(16, 4, 2.0, 2)
    began = []
    for layer in unit.layers:
        layer.register_forward_pre_hook(lambda _, args: began.append(args[1]))
    output = unit(torch.randn(2, 3, 16))
    assert output.shape == (2, 3, 8)
    assert len(began) == 4
    assert all(torch.equal(one, began[0]) for one in began)


@pytest.mark.parametrize("groups", [1, 4])
def test_a_block_has_one_head_in_half_the_width_and_a_light_feed_forward_network(groups):
    config = BertConfig(hidden_size=32, num_hidden_layers=6, num_attention_heads=2, intermediate_size=24, vocab_size=20)
    model = BertModel(config)
    blocks = build_successors(
        model, even_plan(find_chains(model), 3, "delight", {"groups": groups}), init="lower", seed=0
    )
    assert [len(block.mixing.dextra.layers) for block in blocks] == [4, 6, 8]
    assert {(block.mixing.attend.heads, block.mixing.attend.queries.out_features) for block in blocks} == {(1, 16)}
    assert {block.up.out_features for block in blocks} == {8}
    assert max(layer.groups for layer in blocks[0].mixing.dextra.layers) == groups
    assert isinstance(blocks[0].output, nn.Linear)
