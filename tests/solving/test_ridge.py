"""The ridge against the normal equations, the choice of its strength, and features that say nothing new."""

import pytest
import torch

from plankwise.solving.ridge import STRENGTHS, Ridge


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def add(ridge, features, missed, weights=None, *, held_out=False):
    ridge.add(features, missed, torch.ones(len(features)) if weights is None else weights, held_out=held_out)


@pytest.mark.parametrize("bias", [True, False])
def test_the_change_is_that_of_the_normal_equations_whatever_the_batches(bias):
    features, missed, weights = draw(60, 4), draw(60, 3, seed=1), draw(60, seed=2).abs()
    ridge = Ridge(4, 3, bias=bias)
    for rows in torch.arange(60).split(7):
        add(ridge, features[rows], missed[rows], weights[rows])
    change, strength = ridge.solve()
    assert strength == 1e-3  # without held-out rows
    rows = (torch.cat([features, torch.ones(60, 1)], 1) if bias else features).double()
    gram = rows.T @ (rows * weights[:, None])
    gram += strength * gram.diagonal().mean() * torch.eye(len(gram))
    torch.testing.assert_close(
        change, torch.linalg.solve(gram, rows.T @ (missed * weights[:, None]).double()), rtol=1e-5, atol=1e-6
    )


def test_a_row_that_weighs_two_counts_as_two_rows():
    features, missed = draw(20, 3), draw(20, 2, seed=1)
    once, twice = Ridge(3, 2, bias=True), Ridge(3, 2, bias=True)
    add(once, features, missed, torch.tensor([2.0] * 10 + [1.0] * 10))
    add(twice, torch.cat([features, features[:10]]), torch.cat([missed, missed[:10]]))
    torch.testing.assert_close(once.solve()[0], twice.solve()[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("noise", [0.0, 1.0, 30.0])
def test_the_strength_with_the_least_held_out_error_is_taken_and_all_rows_are_solved_with_it(noise):
    features, other, truth = draw(16, 8), draw(64, 8, seed=1), draw(8, 2, seed=2)
    missed = features @ truth + noise * draw(16, 2, seed=3)
    wanted = other @ truth + noise * draw(64, 2, seed=4)
    ridge = Ridge(8, 2, bias=False)
    add(ridge, features, missed)
    add(ridge, other, wanted, held_out=True)
    alone = {strength: ridge.fitted.solve(strength) for strength in STRENGTHS}
    errors = {strength: (wanted - other @ change.float()).square().sum().item() for strength, change in alone.items()}
    assert len(set(errors.values())) == len(STRENGTHS)
    change, strength = ridge.solve()
    assert strength == min(errors, key=errors.get)
    both = Ridge(8, 2, bias=False)
    add(both, torch.cat([features, other]), torch.cat([missed, wanted]))
    torch.testing.assert_close(change, both.fitted.solve(strength), rtol=1e-5, atol=1e-6)


def test_noise_asks_for_more_strength_than_none():
    def strength(noise):
        ridge = Ridge(8, 2, bias=False)
        for seed, held_out in ((0, False), (1, True)):
            features = draw(16, 8, seed=seed)
            add(ridge, features, features @ draw(8, 2, seed=2) + noise * draw(16, 2, seed=3 + seed), held_out=held_out)
        return ridge.solve()[1]

    assert strength(0.0) == 1e-6
    assert strength(30.0) == 1e-1


def test_a_map_that_misses_nothing_is_not_changed():
    ridge = Ridge(4, 3, bias=True)
    add(ridge, draw(30, 4), torch.zeros(30, 3))
    assert not ridge.solve()[0].any()


@pytest.mark.parametrize(
    "features",
    [
        torch.zeros(20, 6),
        draw(20, 1).expand(20, 6),
        torch.cat([draw(20, 3) * 1e4, draw(20, 3) * 1e4], 1),
        draw(2, 6),
    ],
    ids=["zeros", "one direction", "twice the same", "fewer rows than features"],
)
@pytest.mark.parametrize("bias", [True, False])
def test_features_that_say_the_same_give_a_finite_change_that_does_what_it_can(features, bias):
    ridge = Ridge(6, 2, bias=bias)
    missed = features @ draw(6, 2, seed=1)
    for held_out in (False, True):
        add(ridge, features, missed, held_out=held_out)
    change, _ = ridge.solve()
    assert torch.isfinite(change).all()
    given = features @ change[:6].float() + (change[6].float() if bias else 0.0)
    assert (given - missed).square().sum() <= 1e-4 * missed.square().sum()
