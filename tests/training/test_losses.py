"""Distillation's losses against numbers worked out by hand."""

import math

import pytest
import torch

from plankwise.training.losses import distilling, kd_loss, pt_loss
from plankwise.training.targets import Targets


def logits_of(*probabilities: float) -> torch.Tensor:
    return torch.tensor([probabilities], dtype=torch.float64).log()


def test_kd_is_the_divergence_of_the_students_softmax_from_the_predecessors():
    # 0.5 ln(0.5 / 0.25) + 0.5 ln(0.5 / 0.75) = 0.5 ln(4 / 3)
    assert kd_loss(logits_of(0.25, 0.75), logits_of(0.5, 0.5), T=1).item() == pytest.approx(0.5 * math.log(4 / 3))


def test_a_temperature_divides_the_logits_and_multiplies_the_loss_by_its_square():
    loss = kd_loss(3 * logits_of(0.25, 0.75), 3 * logits_of(0.5, 0.5), T=3)
    assert loss.item() == pytest.approx(9 * 0.5 * math.log(4 / 3))


def test_at_a_great_temperature_kd_is_half_the_variance_of_the_differences_between_the_logits():
    # Differences 1, -1, 3: mean 1, squared distances 0, 4, 4; half of their mean is 4/3.
    student, target = torch.tensor([[2.0, 0.0, 4.0]]).double(), torch.tensor([[1.0, 1.0, 1.0]]).double()
    assert kd_loss(student, target, T=1e4).item() == pytest.approx(4 / 3, rel=1e-3)


def test_mean_also_divides_by_the_number_of_classes():
    student, target = torch.randn(4, 3), torch.randn(4, 3)
    per_example = kd_loss(student, target, T=2)
    assert kd_loss(student, target, T=2, reduction="mean").item() == pytest.approx(per_example.item() / 3)


def test_for_a_number_kd_is_the_squared_difference_and_the_temperature_does_not_matter():
    student, target = torch.tensor([[1.0], [4.0]]), torch.tensor([[2.0], [1.0]])
    assert kd_loss(student, target, T=10).item() == 5.0  # (1 + 9) / 2


def test_pt_is_the_mean_over_examples_layers_and_width():
    # One example, two layers, width 2: (1 + 0 + 4 + 9) / 4
    states, targets = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]), torch.tensor([[[2.0, 2.0], [1.0, 7.0]]])
    assert pt_loss(states, targets, normalise=False).item() == 3.5


def test_pt_normalised_compares_directions():
    # (0.6, 0.8) against (1, 0): (0.16 + 0.64) / 2; twice as long a state has the same direction.
    states, targets = torch.tensor([[[3.0, 4.0]]]), torch.tensor([[[2.0, 0.0]]])
    assert pt_loss(states, targets, normalise=True).item() == pytest.approx(0.4)
    assert pt_loss(2 * states, targets, normalise=True).item() == pytest.approx(0.4)


def test_the_objective_weighs_labels_and_logits_and_takes_each_examples_own_target():
    targets = Targets(
        {"logits": torch.stack([logits_of(0.9, 0.1)[0], logits_of(0.5, 0.5)[0]]).numpy()}, 0, on_disk=False
    )

    def model(**inputs):
        return {"loss": torch.tensor(2.0), "logits": logits_of(0.25, 0.75)}

    loss = distilling(targets, alpha=0.25, T=1)(model, {}, torch.tensor([1]))
    assert loss.item() == pytest.approx(0.75 * 2 + 0.25 * 0.5 * math.log(4 / 3))


def test_a_step_that_trains_nothing_has_no_logits_and_reports_its_loss():
    loss = distilling(Targets({}, 0, on_disk=False), alpha=0.5, T=1)(
        lambda **inputs: {"loss": torch.tensor(2.0)}, {}, torch.tensor([0])
    )
    assert loss.item() == 2.0


def test_of_logits_for_each_token_those_with_a_label_count_and_targets_may_be_wider_than_the_batch():
    width = 5  # of the longest text of all; this batch's are 3 tokens long
    array = torch.randn(4, width, 2, generator=torch.Generator().manual_seed(0)).numpy()
    logits = torch.zeros(2, 3, 2)
    labels = torch.tensor([[-100, 1, 0], [-100, 1, -100]])
    rows = torch.tensor([3, 1])
    loss = distilling(Targets({"logits": array}, 0.0, on_disk=False), alpha=1.0, T=1.0)
    found = loss(lambda **inputs: {"loss": torch.tensor(9.0), "logits": logits}, {"labels": labels}, rows)
    wanted = torch.from_numpy(array[[3, 3, 1], [1, 2, 1]])
    assert found.item() == pytest.approx(kd_loss(torch.zeros(3, 2), wanted, T=1.0).item())
