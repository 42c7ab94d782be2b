"""The last block for the first token alone: the same loss and gradients, and nothing changed afterwards."""

import copy

import pytest
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertForTokenClassification,
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
from transformers.models.bert.modeling_bert import BertLayer

import plankwise
from plankwise.core.slot import StandIn
from plankwise.training.first_token import first_token_only

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
    with first_token_only(model, batch()):
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
        with first_token_only(ship, batch()):
            assert states_of_the_last_block(ship, inputs) == [(3, 1, 16)]
            assert_same(learn(ship, inputs), expected)


def test_a_block_that_no_span_covers_may_stand_last():
    ship = plankwise.hybrid(make(BertConfig, BertForSequenceClassification), spans=[[0, 1]])
    with first_token_only(ship, batch()), ship.masked(True):
        assert states_of_the_last_block(ship, batch()) == [(3, 1, 16)]


def test_dropout_is_active_where_the_block_is_trained():
    model, inputs = make(BertConfig, BertForSequenceClassification), batch()
    model.bert.encoder.layer[-1].attention.self.dropout.p = 0.5
    with first_token_only(model, batch()):
        assert model(**inputs).loss != model(**inputs).loss
        model.eval()
        assert model(**inputs).loss == model(**inputs).loss


def test_predictions_run_the_whole_block():
    model = make(BertConfig, BertForSequenceClassification)
    with first_token_only(model, batch()), torch.no_grad():
        assert states_of_the_last_block(model, batch()) == [(3, 7, 16)]


def test_heads_that_read_other_tokens_and_other_families_are_left_alone():
    inputs = {name: value for name, value in batch().items() if name != "labels"}
    for model in (make(BertConfig, BertForMaskedLM), make(BertConfig, BertForTokenClassification), make_distilbert()):
        before = [type(module) for module in model.modules()]
        with first_token_only(model, inputs) as narrowed:
            assert not narrowed
            assert [type(module) for module in model.modules()] == before


def test_trying_it_out_leaves_the_models_mode_and_the_random_state_as_they_were():
    model = make(BertConfig, BertForSequenceClassification, hidden_dropout_prob=0.5)
    inputs, state = batch(), torch.get_rng_state()
    with first_token_only(model, inputs) as narrowed:
        assert narrowed
        assert model.training
        assert torch.equal(torch.get_rng_state(), state)


def test_a_block_that_does_not_run_when_it_is_tried_out_is_left_alone():
    model = make(BertConfig, BertForMaskedLM)
    last = model.bert.encoder.layer[-1]
    model.bert.encoder.layer[-1] = SkippedInEval(last)
    with first_token_only(model, {name: value for name, value in batch().items() if name != "labels"}) as narrowed:
        assert not narrowed


class SkippedInEval(StandIn):
    def forward(self, state, *args, **kwargs):
        return self.block(state, *args, **kwargs) if self.training else state


def test_a_head_that_reads_the_mean_of_all_tokens_is_left_alone():
    class MeanPooler(torch.nn.Module):
        def forward(self, states):
            return states.mean(1)

    model = make(BertConfig, BertForSequenceClassification)
    model.bert.pooler = MeanPooler()
    with first_token_only(model, batch()) as narrowed:
        assert not narrowed


def make_distilbert():
    return DistilBertForSequenceClassification(DistilBertConfig(dim=16, hidden_dim=24, n_layers=2, n_heads=2))


def test_the_block_is_whole_again_after_an_error():
    model = make(BertConfig, BertForSequenceClassification)
    with pytest.raises(ValueError, match="stop"), first_token_only(model, batch()):
        raise ValueError("stop")
    assert type(model.bert.encoder.layer[-1]) is BertLayer


def test_a_slot_inside_the_last_block_is_run_and_trained():
    ship = plankwise.hybrid(
        make(BertConfig, BertForSequenceClassification),
        slots={
            "bert.encoder.layer.3.attention": make(BertConfig, BertForSequenceClassification)
            .bert.encoder.layer[0]
            .attention
        },
        schedule=plankwise.Constant(rate=1.0),
    )
    ship.begin(1)
    ship.train()
    with first_token_only(ship, batch()):
        _, gradients = learn(ship, batch())
    assert "bert.encoder.layer.3.attention.successor.self.query.weight" in gradients


def test_a_copy_of_the_block_runs_on_its_own_weights():
    model = make(BertConfig, BertForSequenceClassification)
    last = model.bert.encoder.layer[-1]
    state = torch.randn(2, 3, 16, requires_grad=True)
    with first_token_only(model, batch()):
        replica = last._replicate_for_data_parallel()  # as DataParallel copies modules
        replica._modules = {name: copy.deepcopy(child) for name, child in last._modules.items()}
        with torch.no_grad():
            for parameter in replica.output.parameters():
                parameter.zero_()
        assert not torch.equal(replica(state), last(state))
