"""No attention: what is left when the heads give nothing, in families with the norm inside the sublayer and outside of it."""

import copy

import pytest
import torch

import plankwise
from plankwise.errors import PlanError
from plankwise.models.plans import build_successors
from plankwise.models.saving import save
from sublayers import logits, make, make_inputs, plan_of, successor_of

ATTENTION = {
    "bert": ("bert.encoder.layer.*.attention", "output.dense"),
    "roberta": ("roberta.encoder.layer.*.attention", "output.dense"),
    "distilbert": ("distilbert.transformer.layer.*.attention", "out_lin"),
    "gpt2": ("transformer.h.*.attn", "c_proj"),
    "llama": ("model.layers.*.self_attn", "o_proj"),
}


def silenced(model, path, output):
    """The model with attention whose heads give zeros."""
    model = copy.deepcopy(model)
    for index in range(2):
        found = model.get_submodule(f"{path.replace('*', str(index))}.{output}")
        torch.nn.init.normal_(found.bias) if found.bias is not None else None
        found.register_forward_pre_hook(lambda _, args: (torch.zeros_like(args[0]),))
    return model


@pytest.mark.parametrize("name", ATTENTION)
def test_a_block_without_attention_is_one_whose_heads_give_zeros(name, tmp_path):
    path, output = ATTENTION[name]
    model = silenced(make(name), path, output)
    successor = successor_of(model, plan_of(model, "no_attention", path))
    torch.testing.assert_close(logits(successor), logits(model), atol=1e-6, rtol=1e-5)
    assert sum(one.numel() for one in successor.parameters()) < sum(one.numel() for one in model.parameters())
    save(successor, tmp_path / "without")
    torch.testing.assert_close(logits(plankwise.load(tmp_path / "without")), logits(successor), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("path", ["transformer.h.*.attn", "transformer.h.0.attn"])
def test_texts_are_continued_with_a_cache_as_without(path):
    model = make("gpt2")
    successor = successor_of(model, plan_of(model, "no_attention", path))
    ids = make_inputs(model)["input_ids"][:1]
    texts = [
        successor.generate(ids, max_new_tokens=5, do_sample=False, use_cache=cached, pad_token_id=0)
        for cached in (True, False)
    ]
    assert torch.equal(*texts)
    assert texts[0].shape[1] > ids.shape[1]


@pytest.mark.parametrize(
    ("name", "path", "kind"),
    [
        ("bert", "bert.encoder.layer.*.attention.self", "BertSelfAttention"),
        ("bert", "bert.encoder.layer.*.intermediate", "BertIntermediate"),
        ("t5", "encoder.block.*.layer.0.SelfAttention", "T5Attention"),
    ],
)
def test_what_is_not_a_whole_attention_sublayer_is_refused(name, path, kind):
    model = make(name)
    with pytest.raises(
        PlanError, match=rf"holds a {kind}, which is not an attention sublayer that it knows.*plan\.slots"
    ):
        build_successors(model, plan_of(model, "no_attention", path), init="lower", seed=0)
