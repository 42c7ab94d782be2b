"""Solved heads find what steps do not: classes that differ by a thousandth of what vectors are; and keep what is right already."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from plankwise.training.heads import choose_head, solve_head, zeros_like

STRENGTH = 0.1


def make_examples(count=200, spread=1.0, seed=0):
    """Vectors around one point that tell the class by their first value."""
    noise = torch.randn(count, 6, generator=torch.Generator().manual_seed(seed))
    return 0.5 + spread * noise, (noise[:, 0] > 0).long()


def solve_from_zero(vectors, labels, outputs=2, strength=STRENGTH):
    return solve_head(vectors, labels, zeros_like(nn.Linear(vectors.shape[1], outputs)), strength)


def share_right(head, vectors, labels):
    return (head(vectors).argmax(-1) == labels).float().mean()


@pytest.mark.parametrize("spread", [1e-4, 1.0, 100.0])
def test_a_head_is_solved_whatever_the_spread_of_what_it_is_given(spread):
    vectors, labels = make_examples(spread=spread)
    assert share_right(solve_from_zero(vectors, labels), vectors, labels) > 0.97


@pytest.mark.parametrize("bias", [True, False])
def test_at_the_solution_the_loss_and_the_penalty_have_no_slope(bias):
    vectors, labels = make_examples()
    start = nn.Linear(6, 2, bias=bias)
    head = solve_head(vectors, labels, start, STRENGTH)
    spread = vectors.std(0, correction=0)
    change = ((head.weight - start.weight) * spread).detach().requires_grad_()
    weight = start.weight.detach() + change / spread
    loss = functional.cross_entropy(functional.linear(vectors, weight, head.bias), labels)
    if bias:  # a weight's change moves the bias with it, so that vectors are as if around 0
        moved = head.bias.detach() + ((head.weight - start.weight).detach() - change / spread) @ vectors.mean(0)
        loss = functional.cross_entropy(functional.linear(vectors, weight, moved), labels)
    (loss + STRENGTH / 2 * change.square().sum()).backward()
    assert change.grad.abs().max() < 1e-3


def test_a_head_for_numbers_is_solved_too():
    vectors = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
    labels = 3 + 2 * vectors[:, 0]
    head = solve_from_zero(vectors, labels, outputs=1)
    assert functional.mse_loss(head(vectors)[:, 0], labels) < 0.05 * labels.var()


def test_the_stronger_the_penalty_the_nearer_a_head_stays_to_its_start():
    vectors, labels = make_examples()
    start = nn.Linear(6, 2)
    distances = [
        (solve_head(vectors, labels, start, strength).weight - start.weight).norm() for strength in (0.01, 1.0, 1e6)
    ]
    assert distances[0] > distances[1] > distances[2]
    assert distances[2] < 1e-4


def test_a_wrong_head_is_solved_and_its_answers_are_of_examples_left_out():
    vectors, labels = make_examples()
    wrong = solve_from_zero(vectors, 1 - labels)
    found = choose_head(vectors, labels, wrong)
    assert found.strength is not None
    assert share_right(found.head, *make_examples(seed=1)) > 0.95
    assert (found.logits.argmax(-1) == labels.numpy()).mean() > 0.95
    assert not torch.equal(torch.from_numpy(found.logits), found.head(vectors).detach())
    assert found.losses[f"{found.strength:g}"] == min(found.losses.values()) < found.losses["kept"]


def test_a_head_stays_where_no_other_is_better_on_examples_left_out():
    vectors, _ = make_examples(count=40)
    twice, labels = (
        vectors.repeat_interleave(2, 0),
        torch.arange(80) % 2,
    )  # each with both labels: there is nothing to learn
    start = zeros_like(nn.Linear(6, 2))
    found = choose_head(twice, labels, start)
    assert found.strength is None
    assert found.head is start


def test_two_examples_are_enough():
    vectors, labels = make_examples(count=2)
    assert choose_head(vectors, labels, nn.Linear(6, 2)).logits.shape == (2, 2)
