from torch import nn

from plankwise.evaluation.size import count_parameters


def test_shared_parameters_are_counted_once():
    first, second = nn.Linear(3, 4, bias=False), nn.Linear(3, 4, bias=False)
    assert count_parameters(nn.Sequential(first, second)) == 24
    second.weight = first.weight
    assert count_parameters(nn.Sequential(first, second)) == 12
