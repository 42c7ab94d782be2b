"""The last block for the first token alone: the same loss and gradients, and nothing changed afterwards."""

import pytest
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    CamembertConfig,
    CamembertForSequenceClassification,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    ElectraConfig,
    ElectraForSequenceClassification,
    RobertaConfig,
    RobertaForSequenceClassification,
    XLMRobertaConfig,
    XLMRobertaForSequenceClassification,
)

import plankwise
from plankwise.families._first_token import first_token_only

SIZES = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 4, "num_attention_heads": 2, "vocab_size": 50}
READERS = [
    (BertConfig, BertForSequenceClassification),
    (RobertaConfig, RobertaForSequenceClassification),
    (XLMRobertaConfig, XLMRobertaForSequenceClassification),
    (CamembertConfig, CamembertForSequenceClassification),
    (ElectraConfig, ElectraForSequenceClassification),
]


def make(config, model, **more):
    torch.manual_seed(0)
    more = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, **more}
    return model(config(**SIZES, pad_token_id=0, **more)).train()


def batch(padded=True):
    torch.manual_seed(1)
    ids = torch.randint(5, 50, (3, 7))
    mask = torch.ones_like(ids)
    if padded:
        mask[0, 4:] = 0
    return {"input_ids": ids * mask, "attention_mask": mask, "labels": torch.tensor([0, 1, 1])}


def learn(model, inputs):
    """The loss and all gradients."""
    model.zero_grad()
    loss = model(**inputs).loss
    loss.backward()
    return loss.detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def assert_same(found, expected):
    assert torch.allclose(found[0], expected[0], atol=1e-6)
    assert found[1].keys() == expected[1].keys()
    for name, gradient in expected[1].items():
        assert torch.allclose(found[1][name], gradient, atol=1e-6), name


def states_of_the_last_block(model, inputs):
    seen = []
    handle = list(model.base_model.encoder.layer)[-1].register_forward_hook(lambda *given: seen.append(given[-1].shape))
    model(**inputs)
    handle.remove()
    return seen


@pytest.mark.parametrize(("config", "model"), READERS)
@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_loss_and_gradients_are_those_of_the_whole_block(config, model, padded, attention):
    model, inputs = make(config, model), batch(padded)
    model.set_attn_implementation(attention)
    expected = learn(model, inputs)
    with first_token_only(model):
        assert states_of_the_last_block(model, inputs) == [(3, 1, 16)]
        assert_same(learn(model, inputs), expected)
    assert states_of_the_last_block(model, inputs) == [(3, 7, 16)]
    assert_same(learn(model, inputs), expected)


@pytest.mark.parametrize(
    "mask", [(True, True), (False, True), (True, False), (False, False)], ids=["both", "last", "first", "none"]
)
def test_a_hybrid_gives_the_same_whichever_stands_last(mask):
    ship = plankwise.hybrid(make(BertConfig, BertForSequenceClassification))
    ship.train()
    inputs = batch()
    with ship.masked(mask):
        for parameter in ship.parameters():
            parameter.requires_grad_(True)
        expected = learn(ship, inputs)
        with first_token_only(ship):
            assert states_of_the_last_block(ship, inputs) == [(3, 1, 16)]
            assert_same(learn(ship, inputs), expected)


def test_a_block_that_no_span_covers_may_stand_last():
    ship = plankwise.hybrid(make(BertConfig, BertForSequenceClassification), spans=[[0, 1]])
    with first_token_only(ship), ship.masked(True):
        assert states_of_the_last_block(ship, batch()) == [(3, 1, 16)]


def test_dropout_is_active_where_the_block_is_trained():
    model, inputs = make(BertConfig, BertForSequenceClassification), batch()
    model.bert.encoder.layer[-1].attention.self.dropout.p = 0.5
    with first_token_only(model):
        assert model(**inputs).loss != model(**inputs).loss
        model.eval()
        assert model(**inputs).loss == model(**inputs).loss


def test_predictions_run_the_whole_block():
    model = make(BertConfig, BertForSequenceClassification)
    with first_token_only(model), torch.no_grad():
        assert states_of_the_last_block(model, batch()) == [(3, 7, 16)]


def test_other_heads_and_other_families_are_left_alone():
    for model in (make(BertConfig, BertForMaskedLM), make_distilbert()):
        before = [set(vars(module)) for module in model.modules()]
        with first_token_only(model):
            assert [set(vars(module)) for module in model.modules()] == before


def make_distilbert():
    return DistilBertForSequenceClassification(DistilBertConfig(dim=16, hidden_dim=24, n_layers=2, n_heads=2))


def test_the_block_is_whole_again_after_an_error():
    model = make(BertConfig, BertForSequenceClassification)
    with pytest.raises(ValueError, match="stop"), first_token_only(model):
        raise ValueError("stop")
    assert "forward" not in vars(model.bert.encoder.layer[-1])
