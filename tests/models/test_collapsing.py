"""A collapsed successor made anew: models made of stages, and blocks that differ by their place."""

import copy

import pytest
import torch
from transformers import (
    ConvNextConfig,
    ConvNextForImageClassification,
    LlamaConfig,
    LlamaForSequenceClassification,
    ResNetConfig,
    ResNetForImageClassification,
    SwinConfig,
    SwinForImageClassification,
)

import plankwise
from plankwise.core.plan import Plan, Slot
from plankwise.errors import PlanError
from plankwise.models.plans import try_plan
from plankwise.models.saving import save

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


def test_parts_are_built_once_where_a_classifier_makes_the_model_inside_by_an_auto_class(tmp_path):
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 3, "num_attention_heads": 2}
    config = LlamaConfig(**sizes, vocab_size=30, pad_token_id=0, bos_token_id=1, eos_token_id=2, num_labels=3)
    plan = Plan((Slot("model.layers", (0,), "thin", {"ffn": 0.5}),))
    successor = try_plan(LlamaForSequenceClassification(config).eval(), plan, init="lower", seed=0)
    assert [block.mlp.up_proj.out_features for block in successor.model.layers] == [12, 24, 24]
    save(successor, tmp_path / "thin")
    loaded = plankwise.load(tmp_path / "thin").eval()
    ids = torch.arange(3, 11)[None]
    assert torch.equal(copy.deepcopy(loaded)(ids).logits, copy.deepcopy(successor)(ids).logits)
