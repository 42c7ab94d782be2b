"""Attention as the maps of queries and keys give it: found in families of several forms, and refused where it is more than that."""

import pytest
import torch
from transformers import (
    BartConfig,
    BartForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2ForSequenceClassification,
    LlamaConfig,
    LlamaForSequenceClassification,
    MPNetConfig,
    MPNetForSequenceClassification,
)

from plankwise.core.taps import tapped
from plankwise.errors import PlanError
from plankwise.training.attention import find_attention, scores_of

SIZES = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32, "num_hidden_layers": 2, "vocab_size": 50}


def bart():
    sides = {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in
             {"layers": 2, "attention_heads": 2, "ffn_dim": 32}.items()}  # fmt: skip
    return BartForSequenceClassification(BartConfig(vocab_size=50, d_model=16, eos_token_id=49, **sides))


def gpt2():
    config = GPT2Config(vocab_size=50, n_embd=16, n_head=2, n_layer=2, pad_token_id=0, bos_token_id=1, eos_token_id=1)
    return GPT2ForSequenceClassification(config)


FOUND = {
    "bert": (lambda: BertForSequenceClassification(BertConfig(**SIZES)), "bert.encoder.layer.1", False),
    "bart": (bart, "model.decoder.layers.1", True),  # keys come first
    "gpt2": (gpt2, "transformer.h.1", True),  # one map gives all three
}
REFUSED = {
    "a bias by position": (lambda: MPNetForSequenceClassification(MPNetConfig(**SIZES)), "mpnet.encoder.layer.1"),
    "queries turned": (lambda: LlamaForSequenceClassification(LlamaConfig(**SIZES, pad_token_id=0)), "model.layers.1"),
}


def make_inputs():
    ids = torch.arange(5, 19).view(2, 7)
    ids[:, -1] = 49
    mask = torch.ones_like(ids)
    mask[1, 4:6] = 0
    return {"input_ids": ids, "attention_mask": mask}


@pytest.mark.parametrize("family", FOUND)
def test_softmax_of_the_scores_is_what_the_family_says_its_attention_is(family):
    make, block, causal = FOUND[family]
    model, inputs = make().train(), make_inputs()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    attention = find_attention(model, block, inputs)
    assert attention.causal is causal
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    model.set_attn_implementation("eager")
    with tapped(model.eval(), attention.maps) as states, torch.no_grad():
        output = model(**inputs, output_attentions=True)
        query, key, _ = attention.vectors(states)
    said = (output.get("decoder_attentions") or output.get("attentions"))[1]
    scores = scores_of(query, key)[0]  # of the text without padding
    if causal:
        scores = scores.masked_fill(torch.ones(7, 7).triu(1).bool(), -torch.inf)
    torch.testing.assert_close(scores.softmax(-1), said[0])


@pytest.mark.parametrize("why", REFUSED)
def test_attention_that_depends_on_more_than_queries_and_keys_is_refused(why):
    make, block = REFUSED[why]
    with pytest.raises(
        PlanError, match="positions turn its queries or add to its scores; choose a method that reads no"
    ):
        find_attention(make(), block, make_inputs())
