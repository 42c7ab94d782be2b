"""A collapsed successor made anew: models made of stages, and blocks that differ by their place."""

import copy

import pytest
import torch
from transformers import (
    ConvNextConfig,
    ConvNextForImageClassification,
    ResNetConfig,
    ResNetForImageClassification,
    SwinConfig,
    SwinForImageClassification,
)

import plankwise
from plankwise.errors import PlanError

PIXELS = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))


def resnet():
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [2, 3], "layer_type": "basic"}
    return ResNetForImageClassification(ResNetConfig(**sizes))


def convnext():
    return ConvNextForImageClassification(ConvNextConfig(hidden_sizes=[8, 16], depths=[2, 4], num_stages=2))


def swin():
    sizes = {"image_size": 64, "patch_size": 4, "embed_dim": 16, "num_heads": [2, 4], "window_size": 4}
    return SwinForImageClassification(SwinConfig(**sizes, depths=[2, 4]))


@pytest.mark.parametrize(
    ("make", "plan", "depths"),
    [
        (resnet, {}, [1, 1]),
        (resnet, {"chains": ["resnet.encoder.stages.1.layers"], "spans": [[1, 2]]}, [2, 2]),
        (convnext, {}, [1, 2]),
        (swin, {"chains": ["swin.encoder.layers.1.blocks"], "spans": [[0, 1, 2]]}, [2, 2]),
    ],
)
def test_chains_inside_stages_are_shortened_in_the_config_and_load_plainly(make, plan, depths, tmp_path):
    torch.manual_seed(0)
    ship = plankwise.hybrid(make().eval(), **plan).eval()
    successor = ship.collapse()
    assert type(successor) is make().__class__
    assert list(successor.config.depths) == depths
    torch.testing.assert_close(successor(PIXELS).logits, ship(PIXELS).logits)
    successor.save_pretrained(tmp_path)
    again = copy.deepcopy(type(successor).from_pretrained(tmp_path))
    assert torch.equal(again(PIXELS).logits, successor(PIXELS).logits)


def test_a_successor_in_a_place_where_the_family_makes_another_kind_of_block_is_refused_before_training():
    """Every second block of a Swin looks at shifted windows; half of the blocks would all be of the first kind."""
    with pytest.raises(
        PlanError, match=r"blocks\.1\.shift_size is 0 in the successor, but 2 in the model .*choose plan.spans"
    ):
        plankwise.hybrid(swin())
