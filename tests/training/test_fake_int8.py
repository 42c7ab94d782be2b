"""Int8 in training: values are rounded, gradients are not, and afterwards the model is what it was."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import nn
from transformers.pytorch_utils import Conv1D

from plankwise.training.fake_int8 import SAFE_RANGE, WHOLE_RANGE, fake_int8, round_channels, round_tensor
from stages import make_bert

# Smaller numbers than any weight or state: their steps are not told apart in float32.
ELEMENTS = st.floats(-100, 100, width=32).map(lambda value: value if abs(value) > 1e-6 else 0.0)
NUMBERS = arrays("float32", (4, 6), elements=ELEMENTS)


@pytest.fixture
def batch():
    torch.manual_seed(1)
    return {"input_ids": torch.randint(5, 50, (3, 7)), "attention_mask": torch.ones(3, 7, dtype=torch.long)}


@given(NUMBERS, st.sampled_from([SAFE_RANGE, WHOLE_RANGE]), st.sampled_from([0, 1]))
def test_a_channel_is_off_by_half_a_step_of_its_own_scale_at_most(numbers, largest, axis):
    values = torch.from_numpy(numbers)
    steps = values.abs().amax(1 - axis, keepdim=True) / largest
    rounded = round_channels(values, largest, axis)
    assert ((rounded - values).abs() <= 0.501 * steps + 1e-37).all()
    codes = rounded / steps.clamp(min=1e-30)
    assert ((codes - codes.round()).abs() < 1e-2).all()


@given(NUMBERS)
def test_a_tensor_has_256_values_at_most_and_zero_stays_zero(numbers):
    values = torch.from_numpy(numbers)
    values[0, 0] = 0.0
    rounded = round_tensor(values)
    step = (values.max() - values.min()) / 255
    assert rounded[0, 0] == 0
    assert ((rounded - values).abs() <= 1.01 * step).all()
    assert len(round_tensor(torch.linspace(-1, 3, 10_000)).unique()) == 256


def test_what_is_not_a_number_is_not_hidden():
    values = torch.tensor([[1.0, float("nan")], [2.0, 3.0]])
    assert round_tensor(values).isnan().any()
    assert round_channels(values, WHOLE_RANGE).isnan().any()


def test_gradients_pass_straight_through():
    torch.manual_seed(0)
    for rounded in (round_tensor, lambda values: round_channels(values, SAFE_RANGE)):
        values, weights = torch.randn(5, 8, requires_grad=True), torch.randn(5, 8)
        (rounded(values) * weights).sum().backward()
        assert torch.equal(values.grad, weights)


@pytest.mark.parametrize("layer", [nn.Linear(6, 3), Conv1D(3, 6)], ids=["linear", "conv1d"])
def test_a_layer_multiplies_rounded_numbers_and_its_weight_learns_from_rounded_inputs(layer):
    torch.manual_seed(0)
    inputs, outputs_at = torch.randn(5, 6), int(isinstance(layer, Conv1D))
    nn.init.normal_(layer.weight)
    with fake_int8(layer, safe_range=True):
        found = layer(inputs)
        found.sum().backward()
    weight = round_channels(layer.weight, SAFE_RANGE, outputs_at)
    expected = round_tensor(inputs) @ (weight if outputs_at else weight.T) + layer.bias
    assert torch.allclose(found, expected, atol=1e-6)
    assert not torch.allclose(found, layer(inputs), atol=1e-3)
    gradient = layer.weight.grad if outputs_at else layer.weight.grad.T
    assert torch.allclose(gradient, round_tensor(inputs).sum(0)[:, None].expand(6, 3), atol=1e-5)


def test_rows_that_are_looked_up_are_those_of_the_rounded_table():
    table, places = nn.Embedding(20, 8), torch.tensor([[3, 0, 19], [3, 3, 1]])
    with fake_int8(table, safe_range=True):  # which is for products alone
        found = table(places)
    assert torch.equal(found, round_channels(table.weight, WHOLE_RANGE)[places])


def test_a_table_that_is_also_a_matrix_has_the_matrixs_range():
    table, head = nn.Embedding(20, 8), nn.Linear(8, 20)
    head.weight = table.weight
    with fake_int8(nn.ModuleList([table, head]), safe_range=True):
        found = table(torch.arange(20))
    assert torch.equal(found, round_channels(table.weight, SAFE_RANGE))


@pytest.mark.parametrize("stopped", [False, True])
def test_afterwards_the_model_is_what_it_was_to_the_bit(stopped, batch):
    model = make_bert().eval()
    kinds, names = [type(module) for module in model.modules()], list(model.state_dict())
    weights, before = copy.deepcopy(model.state_dict()), model(**batch).logits
    try:
        with fake_int8(model, safe_range=False):
            assert list(model.state_dict()) == names
            assert not torch.equal(model(**batch).logits, before)
            if stopped:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert stopped
    assert [type(module) for module in model.modules()] == kinds
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    assert torch.equal(model(**batch).logits, before)
    assert not any("forward" in vars(module) or module._forward_hooks for module in model.modules())


def test_a_copy_made_inside_runs_on_its_own_weights(batch):
    model = make_bert().eval()
    with fake_int8(model, safe_range=False), torch.no_grad():
        before, other = model(**batch).logits, copy.deepcopy(model)
        other.classifier.weight.zero_()
        assert torch.equal(other(**batch).logits, other.classifier.bias.expand(3, 2))
        assert torch.equal(model(**batch).logits, before)


def test_a_layer_with_a_forward_pass_of_its_own_is_left_alone():
    class Doubled(nn.Linear):
        def forward(self, input):
            return 2 * super().forward(input)

    layer, inputs = Doubled(4, 2), torch.randn(3, 4)
    with fake_int8(layer, safe_range=False):
        assert torch.equal(layer(inputs), 2 * nn.functional.linear(inputs, layer.weight, layer.bias))


def test_the_whole_model_is_trained_through_the_rounding(batch):
    model = make_bert().train()
    with fake_int8(model, safe_range=False):
        model(**batch, labels=torch.tensor([0, 1, 0])).loss.backward()
    assert not [name for name, one in model.named_parameters() if one.grad is None or not one.grad.isfinite().all()]
    matrices = [one.grad for name, one in model.named_parameters() if name.endswith("dense.weight")]
    assert all(gradient.abs().sum() > 0 for gradient in matrices)
