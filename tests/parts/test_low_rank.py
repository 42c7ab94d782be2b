"""Low rank: the whole rank is the map, a smaller one the best that there is, families, saving, and what is refused."""

import pytest
import torch
from torch import nn

import plankwise
from plankwise.config import validate_part
from plankwise.errors import ConfigError, PlanError
from plankwise.models.plans import build_successors
from plankwise.models.saving import save
from plankwise.parts import low_rank
from plankwise.parts._sublayers_modules import leading
from sublayers import logits, make, plan_of, successor_of

FFN = {
    "bert": ("bert.encoder.layer.*.intermediate.dense", "bert.encoder.layer.*.output.dense"),
    "gpt2": ("transformer.h.*.mlp.c_fc", "transformer.h.*.mlp.c_proj"),
    "llama": ("model.layers.*.mlp.gate_proj", "model.layers.*.mlp.up_proj", "model.layers.*.mlp.down_proj"),
    "t5": ("encoder.block.*.layer.1.DenseReluDense.wi", "encoder.block.*.layer.1.DenseReluDense.wo"),
}


@pytest.mark.parametrize("name", FFN)
def test_the_whole_rank_gives_what_the_map_gives_and_half_of_it_has_fewer_weights(name, tmp_path):
    model = make(name)
    whole = successor_of(model, plan_of(model, "low_rank", *FFN[name], rank=1.0))
    torch.testing.assert_close(logits(whole), logits(model), atol=1e-4, rtol=1e-4)
    half = successor_of(model, plan_of(model, "low_rank", *FFN[name], rank=0.5))
    assert sum(one.numel() for one in half.parameters()) < sum(one.numel() for one in model.parameters())
    assert (logits(half) - logits(model)).abs().max() > 1e-3
    save(half, tmp_path / "half")
    torch.testing.assert_close(logits(plankwise.load(tmp_path / "half")), logits(half), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("path", FFN["bert"])  # more outputs than inputs, and fewer
def test_a_smaller_rank_misses_what_the_smaller_singular_values_hold_and_no_more(path):
    model = make()
    found = build_successors(model, plan_of(model, "low_rank", path, rank=5), init="lower", seed=0)[0]
    weight = model.get_submodule(path.replace("*", "0")).weight.detach()
    expected = torch.linalg.svdvals(weight)[5:].square().sum()
    torch.testing.assert_close((found.weight.detach() - weight).square().sum(), expected, atol=1e-4, rtol=1e-4)


def test_directions_are_orthonormal_for_tall_wide_and_deficient_matrices():
    torch.manual_seed(0)
    for matrix, rank in ((torch.randn(9, 4), 3), (torch.randn(4, 9), 4), (torch.ones(6, 5), 3), (torch.randn(6, 2), 4)):
        found = leading(matrix, rank)
        assert found.shape == (len(matrix), rank)
        torch.testing.assert_close(found.T @ found, torch.eye(rank, dtype=torch.float64))


@torch.no_grad()
@pytest.mark.parametrize("shape", [(6, 10), (10, 6)])
@pytest.mark.parametrize("bias", [True, False])
def test_texts_choose_the_directions_that_their_inputs_need(shape, bias):
    """Inputs that use three dimensions are mapped exactly by rank 3, whichever the map's largest singular values are."""
    torch.manual_seed(0)
    linear = nn.Linear(*shape, bias=bias)
    inputs = torch.randn(2, 7, 3) @ torch.randn(3, shape[0])
    padding = torch.ones(2, 7)
    padding[1, 4:] = 0
    inputs[1, 4:] = 100 * torch.randn(3, shape[0])  # what is padding must not count

    def runs():
        linear(inputs)
        yield padding

    (found,) = low_rank.build([SpanOf(linear)], low_rank.Options(rank=3))
    low_rank.choose(found, linear, runs, None)
    real = padding.bool()
    torch.testing.assert_close(found(inputs)[real], linear(inputs)[real], atol=1e-4, rtol=1e-4)
    found.fill(linear.weight, linear.bias, leading(linear.weight, 3))
    assert (found(inputs)[real] - linear(inputs)[real]).abs().max() > 1e-2


class SpanOf:
    slot = "the slot"

    def __init__(self, module):
        self.module = module


def test_a_rank_is_a_share_up_to_one_and_a_number_above():
    model = make()
    for rank, expected in ((0.25, 4), (1.0, 16), (3, 3), (1e-9, 1)):
        plan = plan_of(model, "low_rank", FFN["bert"][0], rank=rank)
        assert build_successors(model, plan, init="lower", seed=0)[0].inner.out_features == expected


def test_ranks_that_no_map_has_are_refused():
    model = make()
    plan = plan_of(model, "low_rank", FFN["bert"][0], rank=17)
    with pytest.raises(
        PlanError, match=r"plan\.options\.rank is 17, but slot .* holds a Linear that allows 16 at most"
    ):
        build_successors(model, plan, init="lower", seed=0)
    with pytest.raises(ConfigError, match=r"plan\.options\.rank: 1\.5 is neither a share nor a number"):
        validate_part("low_rank", {"rank": 1.5})
    with pytest.raises(PlanError, match=r"'low_rank', which replaces map, but slot .* holds a BertAttention"):
        build_successors(model, plan_of(model, "low_rank", "bert.encoder.layer.*.attention"), init="lower", seed=0)
