"""Heads after each block: solved ones take the place of trained ones where they are better on examples kept out."""

import torch
from torch import nn

from plankwise.training.exit_heads import Answered, solve_heads


def make_answered(texts=200, spread=1e-4, seed=0):
    """Vectors that are nearly all the same, and tell the class by one value."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(texts, 2, 6, generator=generator)
    labels = (noise[:, 0, 0] > 0).long()
    noise[:, 1, 0] = noise[:, 0, 0]
    return Answered(0.5 + spread * noise, torch.zeros(texts, 2), labels)


def test_a_trained_head_stays_where_it_is_better_on_examples_kept_out():
    train, kept_out = make_answered(), make_answered(seed=1)
    heads = nn.ModuleList([nn.Linear(6, 2), nn.Linear(6, 2)])
    with torch.no_grad():
        for head in heads:
            head.weight.zero_()
        heads[1].weight[:, 0] = torch.tensor([-1e6, 1e6])  # better than any that is kept small
        heads[1].bias.copy_(torch.tensor([0.5e6, -0.5e6]))
    before = heads[1].weight.clone()
    assert solve_heads(heads, train, kept_out) == ["solved", "trained"]
    assert torch.equal(heads[1].weight, before)
    logits = kept_out.logits(heads)
    assert logits.shape == (200, 3, 2)
    assert (logits[:, 0].argmax(-1) == kept_out.labels.numpy()).mean() > 0.95
