"""The last linear map of a head is found by running the model, whatever its family."""

import pytest
import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DebertaV2Config,
    DebertaV2ForSequenceClassification,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    GPT2Config,
    GPT2ForSequenceClassification,
    ModernBertConfig,
    ModernBertForSequenceClassification,
    RobertaConfig,
    RobertaForSequenceClassification,
)

from plankwise.errors import PlanError
from plankwise.models.heads import find_last_map, vectors_given_to

SMALL = {"vocab_size": 30, "num_labels": 3, "pad_token_id": 0}
BERT = SMALL | {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
TOKENS = {"input_ids": torch.arange(1, 13).view(2, 6), "attention_mask": torch.ones(2, 6, dtype=torch.long)}


def make(kind, config):
    torch.manual_seed(0)
    return kind(config).eval()


@pytest.mark.parametrize(
    ("kind", "config", "path"),
    [
        (BertForSequenceClassification, BertConfig(**BERT), "classifier"),
        (RobertaForSequenceClassification, RobertaConfig(**BERT), "classifier.out_proj"),
        (DebertaV2ForSequenceClassification, DebertaV2Config(**BERT), "classifier"),
        (
            ModernBertForSequenceClassification,
            ModernBertConfig(**BERT, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2),
            "classifier",
        ),
        (
            DistilBertForSequenceClassification,
            DistilBertConfig(**SMALL, dim=16, n_layers=2, n_heads=2, hidden_dim=16),
            "classifier",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_map_that_gives_the_answers_is_found(kind, config, path):
    model = make(kind, config)
    assert find_last_map(model, TOKENS) == path
    head = model.get_submodule(path)
    with torch.no_grad(), vectors_given_to(head) as given:
        logits = model(**TOKENS).logits
    assert torch.equal(head(given[0]), logits)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_a_head_that_is_given_every_token_is_refused():
    model = make(GPT2ForSequenceClassification, GPT2Config(**SMALL, n_embd=16, n_layer=2, n_head=2))
    with pytest.raises(
        PlanError, match=r"plan\.solving\.head is 'labels', but in GPT2ForSequenceClassification no linear map"
    ):
        find_last_map(model, TOKENS)
