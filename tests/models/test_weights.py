"""Weights that are missing, or that have no place, are an error wherever a model is loaded."""

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AlbertConfig,
    AlbertForMaskedLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    BertConfig,
    BertForPreTraining,
    BertForSequenceClassification,
    BertModel,
    GPTNeoConfig,
    GPTNeoForCausalLM,
)

from plankwise.errors import ConfigError
from plankwise.models.loading import Loader, load

SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24, "vocab_size": 20}
CLASSIFIER = AutoModelForSequenceClassification


def changed(folder, model, change):
    """The model's folder after its weights have been changed."""
    model.save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def classifier():
    return BertForSequenceClassification(BertConfig(**SMALL))


def drop_an_encoder_weight(weights):
    del weights["bert.encoder.layer.1.output.dense.bias"]


def drop_a_layer(weights):
    for name in [name for name in weights if name.startswith("bert.encoder.layer.1.")]:
        del weights[name]


def add_a_layer(weights):
    copied = {name.replace("layer.1.", "layer.2."): value.clone() for name, value in weights.items()}
    weights.update(copied)


def widen_the_embeddings(weights):
    weights["bert.embeddings.word_embeddings.weight"] = torch.zeros(21, 16)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            drop_an_encoder_weight,
            "has no weights for bert.encoder.layer.1.output.dense.bias, which would be random; give a folder that "
            "save_pretrained wrote whole, whose config.json belongs to its weights",
        ),
        (
            drop_a_layer,
            "has no weights for bert.encoder.layer.1.attention.output.LayerNorm.bias and 15 more, which would be random; give",
        ),
        (
            add_a_layer,
            "has weights for bert.encoder.layer.2.attention.output.LayerNorm.bias and 15 more, which the model of its "
            "config.json does not have; give",
        ),
    ],
)
def test_an_encoder_that_is_not_whole_is_refused_with_and_without_a_new_head(change, sentence, tmp_path):
    folder = str(changed(tmp_path, classifier(), change))
    for work in (lambda: load(folder), lambda: Loader().model(folder, CLASSIFIER, new_head=True)):
        with pytest.raises(ConfigError) as caught:
            work()
        assert f"{folder} {sentence}" in str(caught.value)


def test_embeddings_of_another_shape_are_not_taken_for_a_new_head(tmp_path):
    folder = str(changed(tmp_path, classifier(), widen_the_embeddings))
    with pytest.raises(ConfigError, match=r"has no weights for bert\.embeddings\.word_embeddings\.weight"):
        Loader().model(folder, CLASSIFIER, new_head=True)


def test_a_head_is_new_only_where_one_is_asked_for(tmp_path):
    BertModel(BertConfig(**SMALL)).save_pretrained(tmp_path)
    loaded = Loader().model(str(tmp_path), CLASSIFIER, new_head=True)
    assert set(loaded.new) == {"classifier.weight", "classifier.bias"}
    with pytest.raises(ConfigError, match=r"has no weights for classifier\.bias and 1 more"):
        Loader().model(str(tmp_path), CLASSIFIER)


def test_heads_of_other_tasks_may_be_there(tmp_path):
    """BERT's own checkpoint has heads for both of its tasks, whatever is made of it."""
    BertForPreTraining(BertConfig(**SMALL)).save_pretrained(tmp_path)
    assert not Loader().model(str(tmp_path), AutoModelForMaskedLM).new
    loaded = Loader().model(str(tmp_path), CLASSIFIER, new_head=True)
    assert set(loaded.new) == {"classifier.weight", "classifier.bias"}


def test_what_older_versions_saved_and_newer_ones_compute_may_be_there(tmp_path):
    config = GPTNeoConfig(
        hidden_size=16, num_layers=2, num_heads=2, attention_types=[[["global", "local"], 1]], vocab_size=20
    )
    old = {
        "transformer.h.0.attn.attention.bias": torch.ones(1, 1, 4, 4),
        "transformer.h.0.attn.attention.masked_bias": torch.ones(()),
    }
    folder = changed(tmp_path, GPTNeoForCausalLM(config), lambda weights: weights.update(old))
    assert type(load(folder)) is GPTNeoForCausalLM


def test_a_trained_head_with_weights_that_it_has_no_place_for_is_refused(tmp_path):
    folder = changed(tmp_path, classifier(), lambda weights: weights.update({"classifier.scale": torch.ones(2)}))
    with pytest.raises(ConfigError, match=r"has weights for classifier\.scale, which the model of its config"):
        load(folder)


def test_a_model_without_a_chain_gets_a_new_head_and_keeps_its_body(tmp_path):
    sizes = {**SMALL, "embedding_size": 8}
    folder = tmp_path / "whole"
    AlbertForMaskedLM(AlbertConfig(**sizes)).save_pretrained(folder)
    loaded = Loader().model(str(folder), CLASSIFIER, new_head=True)
    assert set(loaded.new) == {"classifier.weight", "classifier.bias", "albert.pooler.weight", "albert.pooler.bias"}
    name = "albert.embeddings.LayerNorm.bias"
    folder = changed(tmp_path / "part", AlbertForMaskedLM(AlbertConfig(**sizes)), lambda weights: weights.pop(name))
    with pytest.raises(ConfigError, match=f"has no weights for {name}, which would be random"):
        Loader().model(str(folder), CLASSIFIER, new_head=True)
