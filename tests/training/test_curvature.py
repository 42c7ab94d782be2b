"""Top eigenvalues against those of the whole Hessian."""

import pytest
import torch
from torch import nn
from torch.func import functional_call

from plankwise.training.curvature import top_eigenvalues


def exact(loss_of, weights):
    """Of largest size, from the Hessian written out."""
    flat = torch.cat([weight.detach().flatten() for weight in weights])
    sizes = [weight.numel() for weight in weights]

    def loss(vector):
        parts = vector.split(sizes)
        return loss_of([part.view_as(weight) for part, weight in zip(parts, weights, strict=True)])

    values = torch.linalg.eigvalsh(torch.autograd.functional.hessian(loss, flat))
    return float(values[values.abs().argmax()])


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_power_iteration_finds_the_eigenvalue_of_largest_size_of_each_groups_own_hessian(sign):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.GELU(), nn.Linear(5, 3)).double()
    x, y = torch.randn(6, 4).double(), torch.randint(0, 3, (6,))

    def loss_with(weights):
        return sign * nn.functional.cross_entropy(functional_call(model, weights, (x,)), y)

    groups = [["0.weight"], ["2.weight"], ["0.weight", "2.weight"]]
    state = dict(model.named_parameters())
    chosen = [[state[name] for name in names] for names in groups]
    found = top_eigenvalues(loss_with({}), chosen, iterations=2000, tolerance=1e-9, seed=0)
    expected = [
        exact(lambda values, names=names: loss_with(dict(zip(names, values, strict=True))), weights)
        for names, weights in zip(groups, chosen, strict=True)
    ]
    assert found == pytest.approx(expected, rel=1e-3)


def test_weights_that_a_loss_is_linear_in_or_does_not_read_have_no_curvature():
    weight, other = nn.Parameter(torch.randn(3)), nn.Parameter(torch.randn(3))
    loss = (weight * torch.arange(3.0)).sum()
    assert top_eigenvalues(loss, [[weight], [other]], iterations=5, tolerance=0.01, seed=0) == [0.0, 0.0]
