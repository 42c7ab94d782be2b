"""What could not be collapsed after training, or is not what `hybrid` takes, is refused before training, in a sentence."""

import threading
from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification

import plankwise
from plankwise.errors import ConfigError, PlanError


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            {"schedule": "linear"},
            "schedule is 'linear', which is not a schedule; give one of plankwise's, for example "
            "schedule=plankwise.Linear(start=0.3, full_at=0.5)",
        ),
        ({"successors": "3"}, "successors is '3', which is not a whole number; give one, for example successors=3"),
        ({"successors": 2.0}, "successors is 2.0, which is not a whole number; give one, for example successors=3"),
        ({"successors": True}, "successors is True, which is not a whole number; give one, for example successors=3"),
        ({"unfreeze": "heads"}, "unfreeze is 'heads'; choose one of nothing, head, embeddings, all"),
        (
            {"init": "fitted"},
            "init is 'fitted', for which successors are computed from texts first, and hybrid() is given none; use a recipe with "
            "plan.init = 'fitted' and `plankwise compress`, or choose first, lower, upper, spread, mean, random here",
        ),
    ],
)
def test_an_argument_of_another_kind_is_refused(bert, arguments, sentence):
    with pytest.raises(ConfigError) as caught:
        plankwise.hybrid(bert, **arguments)
    assert str(caught.value) == sentence


def test_no_successors_at_all_are_refused(bert):
    with pytest.raises(PlanError, match=r"successors is 0, but 4 blocks .* choose 1, 2 or 4, or list plan\.spans"):
        plankwise.hybrid(bert, successors=0)


@pytest.mark.parametrize("path", ["bert-base-uncased", Path("my-model")])
def test_a_path_is_not_a_model(path):
    with pytest.raises(
        ConfigError, match=r"a loaded model is needed, but .* is the name or folder of one; load it first"
    ):
        plankwise.hybrid(path)


def test_what_is_not_a_model_at_all_is_named():
    with pytest.raises(ConfigError, match=r"a loaded model is needed, but \{\} is a dict"):
        plankwise.hybrid({})


class LoraWrapper(nn.Module):
    """A stand-in for a model of peft: adapters beside the blocks' own weights, merged by `merge_and_unload`."""

    def __init__(self, model):
        super().__init__()
        self.base_model = model
        self.peft_config = {"default": object()}

    def merge_and_unload(self):
        return self.base_model


def test_adapters_have_to_be_merged_first(bert):
    with pytest.raises(
        PlanError, match=r"LoraWrapper has adapters of peft, .*merge them first: .*merge_and_unload\(\)"
    ):
        plankwise.hybrid(LoraWrapper(bert))
    plankwise.hybrid(LoraWrapper(bert).merge_and_unload())


def test_adapters_that_transformers_added_itself_are_seen_too(bert):
    bert.peft_config = {"default": object()}  # what `add_adapter` leaves on the model
    with pytest.raises(PlanError, match="has adapters of peft"):
        plankwise.hybrid(bert)


def quantised_modules(model):
    return torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)


def quantised_by_config(model):
    model.config.quantization_config = {"quant_method": "bitsandbytes", "load_in_8bit": True}
    return model


def quantised_weights(model):
    weight = model.bert.encoder.layer[0].output.dense.weight
    model.bert.encoder.layer[0].output.dense.weight = nn.Parameter(weight.to(torch.int8), requires_grad=False)
    return model


@pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated")
@pytest.mark.parametrize(
    ("change", "where"),
    [
        (quantised_modules, r"bert\.encoder\.layer\.0\.attention\.self\.query is a torch\.ao\.nn\.quantized\..*Linear"),
        (quantised_by_config, "BertForSequenceClassification has a quantization_config"),
        (quantised_weights, r"bert\.encoder\.layer\.0\.output\.dense\.weight is torch\.int8"),
    ],
)
def test_a_quantised_model_is_refused(bert, change, where):
    with pytest.raises(
        PlanError, match=rf"quantised \({where}\), .*load it in floating point, .*quantise its successor"
    ):
        plankwise.hybrid(change(bert))


class Locked(nn.Module):
    """Holds what cannot be copied."""

    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()
        self.blocks = nn.ModuleList([nn.TransformerEncoderLayer(16, 2, 24) for _ in range(4)])


class FourLayers(BertForSequenceClassification):
    """A model that cannot be made with another depth."""

    def __init__(self, config):
        if config.num_hidden_layers != 4:
            raise AssertionError("four layers or nothing")
        super().__init__(config)


class OfNumbers(BertForSequenceClassification):
    """A model whose constructor computes with a tensor's values, which a tensor without values does not have."""

    def __init__(self, config):
        super().__init__(config)
        self.drop = torch.linspace(0, 1, config.num_hidden_layers).tolist()


def small():
    return BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=4, num_attention_heads=2, intermediate_size=32)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (Locked, r"the successor could not be taken out of a Locked after training \(TypeError: cannot pickle"),
        (lambda: FourLayers(small()), r"a shortened bert cannot be made from its config \(four layers or nothing\)"),
    ],
)
def test_what_collapse_would_refuse_is_refused_before_training_and_the_model_stays_as_it_was(make, sentence):
    model = make()
    names, kind = list(model.state_dict()), type(model)
    with pytest.raises(PlanError, match=sentence):
        plankwise.hybrid(model)
    assert type(model) is kind
    assert list(model.state_dict()) == names


def test_a_model_that_cannot_be_made_without_values_is_tried_with_them():
    successor = plankwise.hybrid(OfNumbers(small()), successors=2).collapse()
    assert successor.drop == [0.0, 1.0]


def test_looking_ahead_changes_nothing_and_copies_no_weights(bert, monkeypatch):
    copied = []
    original = torch.Tensor.__deepcopy__
    monkeypatch.setattr(torch.Tensor, "__deepcopy__", lambda self, memo: (copied.append(self), original(self, memo))[1])
    monkeypatch.setattr(nn.Parameter, "__deepcopy__", lambda self, memo: (copied.append(self), self)[1])
    from plankwise.core.plan import even_plan
    from plankwise.families import chains_of
    from plankwise.models.plans import build_successors, check_collapse

    before = {name: value.clone() for name, value in bert.state_dict().items()}
    plan = even_plan(chains_of(bert), 2)
    built = build_successors(bert, plan, init="lower", seed=0)
    copied.clear()
    state = torch.get_rng_state()
    check_collapse(bert, plan, built)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(tensor.is_meta for tensor in copied)
    after = bert.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(after[name], value) for name, value in before.items())
