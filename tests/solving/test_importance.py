"""Importance by gradient: exact where the loss is linear in what units give, per token and per batch, without padding."""

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification

from plankwise.parts._units import find_units
from plankwise.solving.importance import find_importance

UNITS = 4


class Toy(nn.Module):
    """An answer that is linear in what the units give, 3 features each."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(5, 3 * UNITS), nn.Linear(3 * UNITS, 2)

    def forward(self, state, attention_mask=None):
        return self.down(torch.tanh(self.up(state)))


@pytest.fixture
def toy():
    torch.manual_seed(0)
    return Toy()


@pytest.fixture
def bert():
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 24}
    config = BertConfig(**sizes, num_hidden_layers=2, max_position_embeddings=16, initializer_range=0.3)
    return BertForSequenceClassification(config).eval()


def lost(toy, inputs):
    """By unit, how much the sum of answers changes once the unit gives 0, token by token (B, T, units)."""
    found = []
    for unit in range(UNITS):
        mask = torch.ones(UNITS, 3)
        mask[unit] = 0
        handle = toy.down.register_forward_pre_hook(lambda _, args, mask=mask: (args[0] * mask.flatten(),))
        found.append(toy(**inputs).sum(-1))
        handle.remove()
    return (toy(**inputs).sum(-1)[..., None] - torch.stack(found, -1)).detach()


def test_where_the_loss_is_linear_importance_is_what_the_loss_changes_by(toy):
    batches = [{"state": torch.randn(3, 6, 5)} for _ in range(2)]
    tokens, whole = (
        find_importance(toy, toy, {"down": UNITS}, batches, torch.sum, per=per)["down"] for per in ("token", "batch")
    )
    changes = [lost(toy, inputs) for inputs in batches]
    torch.testing.assert_close(tokens, sum(change.abs().sum((0, 1)) for change in changes))
    torch.testing.assert_close(whole, sum(change.sum((0, 1)).abs() for change in changes))
    assert (tokens > whole).all()  # tokens cancel each other out in a batch


@pytest.mark.parametrize("per", ["token", "batch"])
def test_padding_does_not_count(toy, per):
    state = torch.randn(2, 6, 5)
    mask = torch.ones(2, 6)
    mask[:, 4:] = 0
    padded = find_importance(toy, toy, {"down": UNITS}, [{"state": state, "attention_mask": mask}], torch.sum, per=per)
    alone = find_importance(toy, toy, {"down": UNITS}, [{"state": state[:, :4]}], torch.sum, per=per)
    torch.testing.assert_close(padded["down"], alone["down"])


def make_batch():
    ids = torch.randint(3, 50, (3, 7), generator=torch.Generator().manual_seed(0))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.tensor([0, 1, 1])}


def test_heads_and_channels_at_once_are_as_each_by_itself(bert):
    block = bert.bert.encoder.layer[0]
    found = find_units(block)
    counts = {units.output: units.count for units in (*found.heads, found.ffn)}
    both = find_importance(bert, block, counts, [make_batch()], lambda output: output.loss)
    for path, count in counts.items():
        alone = find_importance(bert, block, {path: count}, [make_batch()], lambda output: output.loss)
        torch.testing.assert_close(both[path], alone[path])
        assert both[path].min() > 0
    assert all(parameter.grad is None for parameter in bert.parameters())


def test_a_head_that_gives_nothing_has_no_importance(bert):
    block = bert.bert.encoder.layer[1]
    with torch.no_grad():
        block.attention.self.value.weight[4:8] = 0
        block.attention.self.value.bias[4:8] = 0
    scores = find_importance(bert, block, {"attention.output.dense": 4}, [make_batch()], lambda output: output.loss)[
        "attention.output.dense"
    ]
    assert scores[1] == 0
    assert (scores[[0, 2, 3]] > 0).all()
