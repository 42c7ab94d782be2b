import pytest
import torch
from torch import nn
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DebertaV2Config,
    DebertaV2ForSequenceClassification,
)

from plankwise.evaluation.multiply_adds import bound_speedup, count_multiply_adds

SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24, "vocab_size": 20}


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("tokens", [1, 7])
def test_multiply_adds_are_those_worked_out_by_hand(attention, tokens):
    config = BertConfig(**SMALL, attn_implementation=attention)
    model = BertForSequenceClassification(config)
    width, inner, blocks, classes = 16, 24, 2, 2
    projections = 4 * tokens * width * width  # query, key, value, output
    attending = 2 * tokens * tokens * width  # scores, weighted sum
    feeding = 2 * tokens * width * inner
    head = width * width + width * classes  # on the first token
    ids = torch.ones(1, tokens, dtype=torch.long)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    assert count_multiply_adds(model, inputs) == blocks * (projections + attending + feeding) + head


def test_counting_leaves_what_is_trained_as_it_was_also_where_modules_are_given_weights():
    model = DebertaV2ForSequenceClassification(DebertaV2Config(**SMALL, relative_attention=True, pos_att_type=["p2c"]))
    model.classifier.bias.requires_grad_(False)
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert count_multiply_adds(model, {"input_ids": torch.ones(1, 3, dtype=torch.long)}) > 0
    assert {name for name, parameter in model.named_parameters() if parameter.requires_grad} == trained


def modules(first=torch.float32, second=torch.float32):
    return {"before": nn.Linear(2, 2, dtype=first), "after": nn.Linear(2, 2, dtype=second)}


def test_the_bound_is_the_ratio_of_multiply_adds():
    assert bound_speedup(modules(), {"before": 60, "after": 40}, "before", "after") == 1.5


@pytest.mark.parametrize("counts", [{}, {"before": 60}, {"after": 40}, {"before": 60, "after": 0}])
def test_there_is_no_bound_where_products_were_not_counted(counts):
    assert bound_speedup(modules(), counts, "before", "after") is None


def test_there_is_no_bound_between_numbers_of_different_types():
    assert bound_speedup(modules(second=torch.bfloat16), {"before": 60, "after": 40}, "before", "after") is None


@pytest.mark.parametrize(("cell", "gates"), [(nn.LSTM, 4), (nn.GRU, 3)])
def test_recurrent_layers_count_one_product_a_token_with_each_of_their_matrices(cell, gates):
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = cell(6, 5, batch_first=True)

        def forward(self, state):
            return self.layer(state)

    assert count_multiply_adds(Layer(), {"state": torch.zeros(2, 7, 6)}) == 2 * 7 * gates * 5 * (6 + 5)
