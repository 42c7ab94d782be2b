"""Packed matrices: rounding by hand, codes and files that come back to the bit, and models that load as they were saved."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModel, AutoModelForMaskedLM, BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

from plankwise.errors import PlanError
from plankwise.families import plankwise as refusing
from plankwise.models.loading import load
from plankwise.models.packing import BITS, STEPS, pack, pack_codes, round_matrix, unpack, unpack_codes
from plankwise.models.planned import with_packing
from plankwise.models.saving import save, size_on_disk_mb
from plankwise.training.rounding import Form, find_matrices, rounded

TINY = {"vocab_size": 50, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32, "num_hidden_layers": 2}
THREE_BITS = Form(3, 1)


def test_a_group_is_rounded_as_by_hand():
    weight = torch.tensor([[0.75, -0.3, 0.1], [0.0, 0.2, -0.5], [4.0, 1.9, -2.1]])
    # 3 bits: integers from −3 to 3. Rows 0 and 1 share the scale 0.75 / 3 = 0.25; row 2 has 4 / 3, in bfloat16 1.3359375.
    expected = torch.tensor([[3.0, -1.0, 0.0], [0.0, 1.0, -2.0], [3.0, 1.0, -2.0]])
    scales = torch.tensor([[0.25], [0.25], [1.3359375]])
    assert torch.equal(round_matrix(weight, 3, 2, cut=False), expected * scales)


def test_a_cut_scale_is_a_step_in_root_mean_squares_and_larger_weights_are_cut_off():
    weight = torch.full((1, 64), 0.5)
    weight[0, ::2] *= -1
    weight[0, 0] = 16.0
    step = (STEPS[4] * weight.square().mean().sqrt()).bfloat16().float()
    found = round_matrix(weight, 4, 1, cut=True)
    assert torch.equal(found[0, :3], torch.stack([7 * step, step, -step]))  # 0.5 is 0.61 steps
    assert torch.equal(round_matrix(weight, 8, 1, cut=True), round_matrix(weight, 8, 1, cut=False))


def test_a_cut_scale_is_never_above_that_of_the_largest_weight():
    weight = torch.tensor([[1.0, -1.0, 1.0, 1.0]])  # whose root mean square is its largest weight
    assert torch.equal(round_matrix(weight, 2, 1, cut=True), weight)


def test_gradients_pass_as_if_nothing_was_rounded():
    weight = torch.randn(5, 4, requires_grad=True)
    factors = torch.randn(5, 4)
    (round_matrix(weight, 2, 2, cut=True) * factors).sum().backward()
    assert torch.equal(weight.grad, factors)


@settings(max_examples=60, deadline=None)
@given(bits=st.sampled_from(BITS), height=st.integers(1, 6), width=st.integers(1, 19), seed=st.integers(0, 2**20))
def test_codes_come_back_from_their_bytes(bits, height, width, seed):
    codes = np.random.default_rng(seed).integers(0, 2**bits, (height, width), dtype=np.uint8)
    stored = pack_codes(codes, bits)
    assert stored.shape == (height, width if bits == 8 else bits * -(-width // 8))
    assert np.array_equal(unpack_codes(stored, bits, width), codes)


@settings(max_examples=60, deadline=None)
@given(
    bits=st.sampled_from(BITS),
    rows=st.integers(1, 8),
    width=st.integers(1, 19),
    cut=st.booleans(),
    size=st.floats(1e-42, 1e30),
    seed=st.integers(0, 2**20),
)
def test_a_rounded_matrix_comes_back_to_the_bit(bits, rows, width, cut, size, seed):
    weight = torch.randn(7, width, generator=torch.Generator().manual_seed(seed)) * size
    weight[seed % 7] = 0
    whole = round_matrix(weight, bits, rows, cut=cut)
    packed = pack(whole, bits, rows)
    assert torch.equal(unpack(packed).view(torch.int32), whole.view(torch.int32))  # zeros have their sign, too


def test_a_matrix_that_would_not_come_back_is_not_packed():
    weight = torch.randn(4, 8)
    assert pack(weight, 4, 1) is None
    assert pack(round_matrix(weight, 4, 1, cut=True).half(), 4, 1) is None
    assert pack(torch.zeros(8), 4, 1) is None


def make_packed(kind, config, form=THREE_BITS):
    torch.manual_seed(0)
    model = kind(config).eval()
    forms = dict.fromkeys(find_matrices(model), form)
    with rounded(model, forms, cut=True):
        inside = model(input_ids=torch.arange(5, 12)[None]).logits
    return with_packing(model, {f"{path}.weight": tuple(form) for path in forms}), inside


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        (BertForMaskedLM, BertConfig(**TINY)),  # table and decoder are one matrix
        (GPT2LMHeadModel, GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=1)),
    ],
)
def test_a_packed_model_is_small_on_disk_and_loads_as_it_was_trained(kind, config, tmp_path):
    model, inside = make_packed(kind, config)
    ids = torch.arange(5, 12)[None]
    save(model, tmp_path / "one")
    again = load(tmp_path / "one")
    assert torch.equal(again(input_ids=ids).logits, inside)
    state = again.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    save(again, tmp_path / "two")
    assert (tmp_path / "one/model.safetensors").read_bytes() == (tmp_path / "two/model.safetensors").read_bytes()
    inner = AutoModel.from_pretrained(tmp_path / "one").eval()
    assert torch.equal(inner(ids).last_hidden_state, model.base_model(ids).last_hidden_state)


def test_the_size_on_disk_is_that_of_bits_and_scales(tmp_path):
    wide = {**TINY, "hidden_size": 64, "intermediate_size": 256, "vocab_size": 2000}
    model, _ = make_packed(BertForMaskedLM, BertConfig(**wide), Form(4, 8))
    save(model, tmp_path / "model")
    matrices = {id(one.weight): one.weight.numel() for one in find_matrices(model).values()}
    rest = sum(one.numel() for one in model.parameters()) - sum(matrices.values())
    expected = sum(matrices.values()) * 0.5 + 4 * rest
    assert expected < size_on_disk_mb(tmp_path / "model") * 1e6 < 1.15 * expected


def test_a_matrix_that_is_trained_on_is_saved_as_it_is(tmp_path):
    model, _ = make_packed(BertForMaskedLM, BertConfig(**TINY))
    with torch.no_grad():
        model.bert.encoder.layer[0].output.dense.weight += 0.001 * torch.randn(16, 32)
    save(model, tmp_path / "model")
    state = AutoModelForMaskedLM.from_pretrained(tmp_path / "model").state_dict()
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


def test_what_is_shared_is_trained_as_one_matrix():
    torch.manual_seed(0)
    model = BertForMaskedLM(BertConfig(**TINY)).eval()
    ids = torch.arange(5, 12)[None]
    with rounded(model, dict.fromkeys(find_matrices(model), Form(2, 1)), cut=True):
        shared = model.cls.predictions.decoder.parametrizations.weight.original
        assert shared is model.bert.embeddings.word_embeddings.weight
        model(input_ids=ids, labels=ids).loss.backward()
        assert shared.grad[40:].abs().sum() > 0  # of tokens that are not among the inputs
    assert model.cls.predictions.decoder.weight is model.bert.embeddings.word_embeddings.weight


def test_a_packed_model_is_not_compressed_again():
    model, _ = make_packed(BertForMaskedLM, BertConfig(**TINY))
    with pytest.raises(PlanError, match="weights are rounded to a few bits, and it is not compressed a second time"):
        refusing.check(model)
