"""Solved heads find what steps do not: classes that differ by a thousandth of what vectors are."""

import torch
from torch import nn
from torch.nn import functional

from plankwise.training.exit_heads import PENALTY, Answered, solve_head, solve_heads


def make_answered(texts=200, spread=1e-4, seed=0):
    """Vectors that are nearly all the same, and tell the class by one value."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(texts, 2, 6, generator=generator)
    labels = (noise[:, 0, 0] > 0).long()
    noise[:, 1, 0] = noise[:, 0, 0]
    return Answered(0.5 + spread * noise, torch.zeros(texts, 2), labels)


def test_a_head_is_solved_whatever_the_spread_of_what_it_is_given():
    for spread in (1e-4, 1.0, 100.0):
        answered = make_answered(spread=spread)
        head = solve_head(answered.vectors[:, 0], answered.labels, 2)
        right = head(answered.vectors[:, 0]).argmax(-1) == answered.labels
        assert right.float().mean() > 0.97, spread


def test_at_the_solution_the_loss_and_the_penalty_have_no_slope():
    answered = make_answered(spread=1.0)
    vectors = answered.vectors[:, 0]
    head = solve_head(vectors, answered.labels, 2)
    scaled = (vectors - vectors.mean(0)) / vectors.std(0, correction=0)
    weight = (head.weight * vectors.std(0, correction=0)).detach().requires_grad_()
    bias = (head.bias + head.weight @ vectors.mean(0)).detach()
    loss = functional.cross_entropy(functional.linear(scaled, weight, bias), answered.labels)
    (loss + PENALTY / 2 * weight.square().sum()).backward()
    assert weight.grad.abs().max() < 1e-3


def test_a_head_for_numbers_is_solved_too():
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(300, 4, generator=generator)
    labels = 3 + 2 * vectors[:, 0]
    head = solve_head(vectors, labels, 1)
    assert functional.mse_loss(head(vectors)[:, 0], labels) < 0.05 * labels.var()


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
