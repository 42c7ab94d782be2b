"""Families whose inputs are not tokens, or that have no input embeddings, and lists by layer under other names than `layer`."""

import pytest
import torch
from transformers import (
    BeitForImageClassification,
    CLIPConfig,
    CLIPModel,
    Dinov2Config,
    Dinov2ForImageClassification,
    LongformerConfig,
    LongformerForSequenceClassification,
    ResNetConfig,
    ResNetForImageClassification,
    Wav2Vec2Config,
    Wav2Vec2ForSequenceClassification,
)

import plankwise
import plankwise.families
from plankwise.errors import PlanError

SMALL = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 24}
TOKENS = torch.tensor([[3, 5, 14, 2], [3, 9, 15, 2]])
PIXELS = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def clip():
    text = {**SMALL, "vocab_size": 20, "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1, "projection_dim": 8}
    vision = {**SMALL, "num_hidden_layers": 2, "image_size": 16, "patch_size": 8}
    return CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=8))


def wav2vec2():
    convolutions = {"conv_dim": (8, 8), "conv_stride": (5, 2), "conv_kernel": (10, 3), "num_feat_extract_layers": 2}
    positions = {"num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2, "classifier_proj_size": 8}
    return Wav2Vec2ForSequenceClassification(Wav2Vec2Config(**SMALL, **convolutions, **positions, vocab_size=20))


def resnet():
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [2, 2], "layer_type": "basic"}
    return ResNetForImageClassification(ResNetConfig(**sizes))


def longformer():
    sizes = {**SMALL, "vocab_size": 20, "max_position_embeddings": 64, "pad_token_id": 0, "sep_token_id": 2}
    return LongformerForSequenceClassification(LongformerConfig(**sizes, attention_window=[8, 4, 16, 4]))


MODELS = {
    "clip": (clip, {"input_ids": TOKENS, "pixel_values": PIXELS}, "logits_per_image"),
    "wav2vec2": (wav2vec2, {"input_values": torch.sin(torch.arange(800.0)).reshape(2, 400)}, "logits"),
    "resnet": (resnet, {"pixel_values": PIXELS}, "logits"),
    "longformer": (longformer, {"input_ids": TOKENS}, "logits"),
}


@pytest.fixture
def no_families(monkeypatch):
    """The general rule alone, whatever plug-ins there are."""
    monkeypatch.setattr(plankwise.families, "list_kinds", lambda folder: [])


@pytest.mark.parametrize("unfreeze", ["nothing", "head", "embeddings", "all"])
@pytest.mark.parametrize("name", MODELS)
def test_it_is_trained_collapsed_and_loads_plainly_with_equal_outputs(name, unfreeze, tmp_path, no_families):
    torch.manual_seed(0)
    make, inputs, key = MODELS[name]
    ship = plankwise.hybrid(make(), schedule=plankwise.Constant(rate=1.0), unfreeze=unfreeze)
    ship.begin(1)
    ship.train()(**inputs)[key].sum().backward()
    assert all(parameter.grad is not None for parameter in ship.successor_parameters().values())
    ship.eval()
    successor = ship.collapse()
    with torch.no_grad():
        expected = ship(**inputs)[key]
        torch.testing.assert_close(successor(**inputs)[key], expected)
        successor.save_pretrained(tmp_path)
        torch.testing.assert_close(type(successor).from_pretrained(tmp_path)(**inputs)[key], expected)


def test_the_coin_alone_decides_what_runs_in_a_model_that_skips_blocks_itself_and_the_successor_skips_them_again():
    model = wav2vec2()
    model.config.layerdrop = 1.0
    ship = plankwise.hybrid(model, schedule=plankwise.Constant(rate=1.0))
    ran = []
    for block in ship.wav2vec2.encoder.layers:
        block.register_forward_hook(lambda *args: ran.append(args[0]))
    ship.begin(1)
    ship.train()(**MODELS["wav2vec2"][1])
    assert len(ran) == 4
    assert ship.collapse().wav2vec2.encoder.config.layerdrop == 1.0


def test_each_stack_of_clip_has_its_own_depth(no_families):
    config = plankwise.hybrid(clip()).collapse().config
    assert (config.text_config.num_hidden_layers, config.vision_config.num_hidden_layers) == (2, 1)


@pytest.mark.parametrize("kind", [Dinov2ForImageClassification, BeitForImageClassification])
def test_a_backbone_goes_on_giving_its_last_layers_states(kind, no_families, tmp_path):
    sizes = {"image_size": 16, "patch_size": 8}
    ship = plankwise.hybrid(kind(kind.config_class(**SMALL, **sizes))).eval()
    successor = ship.collapse()
    assert successor.config.out_indices == [2]
    successor.save_pretrained(tmp_path)
    with torch.no_grad():
        found = kind.from_pretrained(tmp_path)(PIXELS).logits
        torch.testing.assert_close(found, ship(PIXELS).logits)


def test_one_that_gives_several_layers_states_is_refused_before_training(no_families):
    config = Dinov2Config(**SMALL, image_size=16, patch_size=8, out_indices=[2, 4])
    with pytest.raises(PlanError, match=r"a shortened dinov2 cannot be made from its config \(out_"):
        plankwise.hybrid(Dinov2ForImageClassification(config))


def test_windows_by_layer_are_those_of_the_blocks_that_stay(no_families):
    assert plankwise.hybrid(longformer()).collapse().config.attention_window == [8, 16]
    assert plankwise.hybrid(longformer(), spans=[[1, 2, 3]]).collapse().config.attention_window == [8, 4]
