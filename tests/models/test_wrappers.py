"""Hugging Face models inside modules of one's own: what is inside is shortened with its config, and the wrapper is given back."""

import json
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from transformers import AlbertConfig, AlbertModel, BertConfig, BertModel, EncoderDecoderConfig, EncoderDecoderModel

import plankwise
from plankwise.errors import PlanError

SMALL = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 24, "vocab_size": 20}
TOKENS = torch.tensor([[3, 5, 14, 2], [3, 9, 15, 2]])


class Wrapper(nn.Module):
    """A model with a head of its own, that also predicts tokens with the encoder's embeddings."""

    def __init__(self, inner=None):
        super().__init__()
        self.inner = inner or BertModel(BertConfig(**SMALL))
        self.head = nn.Linear(16, 2)
        self.tokens = nn.Linear(16, 20)
        self.tokens.weight = self.inner.get_input_embeddings().weight

    def forward(self, input_ids):
        states = self.inner(input_ids).last_hidden_state
        return self.head(states[:, 0]), self.tokens(states)


class WithConfig(Wrapper):
    """The same, which keeps the encoder's config."""

    def __init__(self):
        super().__init__()
        self.config = self.inner.config


class InnerTransformer(nn.Module):
    """A stand-in for the first module of a SentenceTransformer, which holds the Hugging Face model as `auto_model`."""

    def __init__(self):
        super().__init__()
        self.auto_model = BertModel(BertConfig(**SMALL))

    def forward(self, features):
        return {**features, "states": self.auto_model(features["input_ids"]).last_hidden_state}


class MeanPooling(nn.Module):
    """A stand-in for its second module."""

    def forward(self, features):
        return {**features, "embedding": features["states"].mean(1)}


class SentenceTransformer(nn.Sequential):
    """A stand-in for the class of this name in sentence-transformers: modules in a row that hand a dict on."""

    def encode(self, input_ids):
        return self({"input_ids": input_ids})["embedding"]


MAKERS = {
    "a wrapper": (Wrapper, "inner", lambda model: torch.cat([one.flatten() for one in model(TOKENS)])),
    "with its config": (WithConfig, "inner", lambda model: torch.cat([one.flatten() for one in model(TOKENS)])),
    "a sentence transformer": (
        lambda: SentenceTransformer(InnerTransformer(), MeanPooling()),
        "0.auto_model",
        lambda model: model.encode(TOKENS),
    ),
}


@torch.no_grad()
def make(name):
    """A hybrid of a wrapper whose successors are other blocks than the predecessor's, its inner path, and what runs it."""
    torch.manual_seed(0)
    maker, path, answer = MAKERS[name]
    ship = plankwise.hybrid(maker().eval(), successors=2)
    for parameter in ship.successor_parameters().values():
        parameter.add_(torch.randn_like(parameter))
    return ship.eval(), path, torch.no_grad()(answer)


@pytest.mark.parametrize("name", MAKERS)
def test_the_wrapper_comes_back_with_an_inner_model_whose_config_says_its_depth(name, tmp_path):
    ship, path, answer = make(name)
    successor = ship.collapse()
    assert type(successor).__name__ == type(ship).__name__
    assert not isinstance(successor, type(ship))
    inner = successor.get_submodule(path)
    assert type(inner) is BertModel
    assert inner.config.num_hidden_layers == len(inner.encoder.layer) == 2
    assert torch.equal(answer(successor), answer(ship))
    inner.save_pretrained(tmp_path)
    successor.set_submodule(path, BertModel.from_pretrained(tmp_path))
    torch.testing.assert_close(answer(successor.eval()), answer(ship))


def test_what_a_wrapper_shares_with_its_inner_model_stays_shared():
    successor = make("with its config")[0].collapse()
    assert successor.tokens.weight is successor.inner.embeddings.word_embeddings.weight
    assert successor.config is successor.inner.config
    assert successor.config.num_hidden_layers == 2


@pytest.mark.parametrize("name", MAKERS)
def test_an_inner_model_that_is_saved_in_the_middle_of_training_says_that_it_is_a_hybrid(name, tmp_path):
    ship, path, _ = make(name)
    inner = ship.get_submodule(path)
    inner.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "plankwise-hybrid"
    expected = ship.collapse().get_submodule(path).state_dict()
    found = plankwise.load(tmp_path).state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[key], value) for key, value in expected.items())


def test_a_family_inside_a_wrapper_has_its_say():
    with pytest.raises(PlanError, match="ALBERT runs one shared block 4 times"):
        plankwise.hybrid(Wrapper(AlbertModel(AlbertConfig(**SMALL, embedding_size=16))))


@dataclass(frozen=True)
class Sizes:
    n_layer: int = 4
    width: int = 16


class Own(nn.Module):
    """Blocks of one's own, with a config that is not Hugging Face's."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.blocks = nn.ModuleList([nn.TransformerEncoderLayer(16, 2, 24) for _ in range(4)])

    def forward(self, states):
        for block in self.blocks:
            states = block(states)
        return states


@pytest.mark.parametrize(
    ("config", "depth"),
    [
        (Sizes(), lambda config: config.n_layer),
        ({"n_layer": 4, "width": 16}, lambda config: config["n_layer"]),
        (BertConfig(**SMALL), lambda config: config.num_hidden_layers),
    ],
    ids=["a dataclass", "a dict", "a Hugging Face config"],
)
def test_a_config_of_ones_own_says_the_new_depth_and_the_predecessors_is_left_as_it_was(config, depth):
    ship = plankwise.hybrid(Own(config), successors=2).eval()
    successor = ship.collapse()
    assert (depth(successor.config), len(successor.blocks)) == (2, 2)
    assert depth(ship.config) == depth(config) == 4
    states = torch.randn(3, 2, 16)
    assert torch.equal(successor(states), ship(states))


def test_two_stacks_with_configs_of_their_own_are_shortened_each():
    """BERT to BERT: two configs of one class inside one, told apart by the stack that has them."""
    decoder = BertConfig(**{**SMALL, "num_hidden_layers": 2}, is_decoder=True, add_cross_attention=True)
    config = EncoderDecoderConfig.from_encoder_decoder_configs(BertConfig(**SMALL), decoder)
    ship = plankwise.hybrid(EncoderDecoderModel(config=config)).eval()
    successor = ship.collapse()
    assert successor.config.encoder.num_hidden_layers == 2
    assert successor.config.decoder.num_hidden_layers == 1
    inputs = {"input_ids": TOKENS, "decoder_input_ids": TOKENS}
    assert torch.equal(successor(**inputs).logits, ship(**inputs).logits)
