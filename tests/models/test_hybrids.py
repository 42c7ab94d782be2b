"""What a Trainer saves of a hybrid says that it is one; nobody takes it for a plain model with random weights."""

import copy
import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    CLIPConfig,
    CLIPModel,
    EncoderDecoderConfig,
    EncoderDecoderModel,
    GPT2Config,
    GPT2LMHeadModel,
    MarianConfig,
    MarianMTModel,
    Qwen3Config,
    Qwen3ForCausalLM,
    ResNetConfig,
    ResNetForImageClassification,
    T5Config,
    T5ForConditionalGeneration,
)
from transformers.configuration_utils import PreTrainedConfig

import plankwise
from plankwise.errors import ConfigError, PlanError
from plankwise.models.loading import Loader

SMALL = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 24}
TEXT = {**SMALL, "vocab_size": 20, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
T5 = {"vocab_size": 20, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2}
MODELS = {
    "bert": lambda: BertForSequenceClassification(BertConfig(**TEXT)),
    "half precision": lambda: BertForSequenceClassification(BertConfig(**TEXT)).to(torch.bfloat16),
    "tied": lambda: BertForMaskedLM(BertConfig(**TEXT)),
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(n_embd=16, n_layer=4, n_head=2, vocab_size=20, n_positions=16)),
    "t5": lambda: T5ForConditionalGeneration(T5Config(**T5)),
    "depth checked against a list": lambda: Qwen3ForCausalLM(
        Qwen3Config(**TEXT, num_key_value_heads=2, head_dim=8, max_position_embeddings=16)
    ),
    "computed positions": lambda: MarianMTModel(
        MarianConfig(
            **{f"{side}_{key}": 2 for side in ("encoder", "decoder") for key in ("layers", "attention_heads")},
            **{f"{side}_ffn_dim": 24 for side in ("encoder", "decoder")},
            **{key: TEXT[key] for key in ("vocab_size", "bos_token_id", "eos_token_id", "pad_token_id")},
            d_model=16,
            max_position_embeddings=16,
            decoder_start_token_id=0,
            forced_eos_token_id=None,
        )
    ),
    "configs inside a config": lambda: EncoderDecoderModel(
        config=EncoderDecoderConfig.from_encoder_decoder_configs(
            BertConfig(**TEXT), BertConfig(**TEXT, is_decoder=True, add_cross_attention=True)
        )
    ),
    "stages": lambda: ResNetForImageClassification(
        ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[2, 2], layer_type="basic")
    ),
    "clip": lambda: CLIPModel(
        CLIPConfig(
            text_config={**TEXT, "projection_dim": 8},
            vision_config={**SMALL, "num_hidden_layers": 2, "image_size": 16, "patch_size": 8},
            projection_dim=8,
        )
    ),
}


def make(name):
    """A hybrid whose successors are other blocks than the predecessor's."""
    torch.manual_seed(0)
    ship = plankwise.hybrid(MODELS[name]())
    with torch.no_grad():
        for parameter in ship.successor_parameters().values():
            parameter.add_(torch.randn_like(parameter))
    return ship.eval()


def saved(folder, name="bert"):
    ship = make(name)
    ship.save_pretrained(folder)
    return ship


def read_config(folder):
    """Without the dtype, which transformers writes into inner configs once a model has been loaded by its config."""
    without = lambda entries: {key: value for key, value in entries.items() if key != "dtype"}  # noqa: E731
    return json.loads((folder / "config.json").read_text(), object_hook=without)


@pytest.mark.parametrize("name", MODELS)
def test_load_gives_the_successor_that_collapse_gives(name, tmp_path):
    expected = saved(tmp_path / "hybrid", name).collapse()
    found = plankwise.load(tmp_path / "hybrid")
    assert type(found) is type(expected)
    found.save_pretrained(tmp_path / "found")
    expected.save_pretrained(tmp_path / "expected")
    assert read_config(tmp_path / "found") == read_config(tmp_path / "expected")
    state = found.state_dict()
    assert state.keys() == expected.state_dict().keys()
    assert not any(parameter.is_meta for parameter in found.parameters())
    assert found.dtype == expected.dtype
    assert all(torch.equal(state[key], value) for key, value in expected.state_dict().items())


@pytest.mark.parametrize("name", MODELS)
def test_the_hybrid_itself_stays_what_it_was_and_its_weights_keep_their_names(name, tmp_path):
    ship = make(name)
    before = copy.deepcopy(ship.config.to_dict())
    ship.save_pretrained(tmp_path)
    assert {**ship.config.to_dict(), "architectures": before["architectures"]} == before
    names = set(load_file(tmp_path / "model.safetensors"))
    assert names <= set(ship.state_dict())
    assert any(".successor." in key for key in names)
    PreTrainedConfig.from_json_file(tmp_path / "config.json")  # what a Trainer does that resumes


def test_config_json_has_a_model_type_the_plan_and_the_predecessors_keys(tmp_path):
    ship = saved(tmp_path)
    found = json.loads((tmp_path / "config.json").read_text())
    assert found["model_type"] == "plankwise-hybrid"
    assert found["family"] == "bert"
    assert found["plan"] == json.loads(json.dumps(ship.plan.to_json()))
    assert found["kept"] == {"num_hidden_layers": 4}
    assert found["hidden_size"] == 16


def test_the_auto_classes_refuse_with_what_it_is_and_what_to_do(tmp_path):
    saved(tmp_path)
    for load in (
        AutoConfig.from_pretrained,
        AutoModel.from_pretrained,
        AutoModelForSequenceClassification.from_pretrained,
    ):
        with pytest.raises(ConfigError) as caught:
            load(tmp_path)
        assert str(caught.value) == (
            f"{tmp_path} is a checkpoint of a hybrid in training (bert, 2 slots), not a finished model; take its successor out by "
            f"plankwise.load('{tmp_path}').save_pretrained('successor') and give that folder, or go on training by "
            f"trainer.train(resume_from_checkpoint='{tmp_path}')"
        )


@pytest.mark.parametrize("name", MODELS)
def test_the_familys_own_class_refuses(name, tmp_path):
    kind = type(MODELS[name]())
    saved(tmp_path, name)
    with pytest.raises(Exception, match="this is a hybrid of plankwise"):
        kind.from_pretrained(tmp_path)


WITHOUT = """
import sys
sys.modules["plankwise"] = None  # importing it fails from here on
import transformers
for kind in (transformers.AutoModel, transformers.AutoModelForSequenceClassification, transformers.BertForSequenceClassification):
    try:
        kind.from_pretrained(sys.argv[1])
        print("loaded")
    except Exception as error:
        print("refused", str(error).replace(chr(10), " "))
"""


def test_transformers_alone_refuses(tmp_path):
    saved(tmp_path)
    found = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(tmp_path)], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert len(found) == 3
    assert all(line.startswith("refused") and "hybrid" in line for line in found)


def test_a_checkpoint_without_some_of_its_weights_is_refused(tmp_path):
    saved(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["bert.encoder.layer.0.successor.output.dense.bias"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ConfigError, match=r"1 are missing, 0 have no place, .*layer\.0\.successor.*; give a folder"):
        plankwise.load(tmp_path)


def test_weights_in_several_files_are_put_together(tmp_path):
    ship = make("bert")
    ship.save_pretrained(tmp_path, max_shard_size="10KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    expected = ship.collapse().state_dict()
    assert all(torch.equal(value, expected[key]) for key, value in plankwise.load(tmp_path).state_dict().items())


def test_modules_of_ones_own_cannot_be_built_anew_and_that_is_said(tmp_path):
    ship = plankwise.hybrid(MODELS["bert"](), slots={"classifier": torch.nn.Linear(16, 2)})
    ship.save_pretrained(tmp_path)
    with pytest.raises(PlanError, match=r"slot classifier holds a module of your own, .*; make the hybrid as you did"):
        plankwise.load(tmp_path)


@pytest.mark.parametrize("before", [True, False], ids=["saved as a plain model", "saved as a hybrid"])
@pytest.mark.parametrize("command_name", ["compress", "evaluate"])
def test_commands_refuse_a_hybrids_folder(
    command_name, before, tmp_path, command, recipe, tiny, tiny_classifier_folder
):
    model = AutoModelForSequenceClassification.from_pretrained(tiny_classifier_folder)
    ship = plankwise.hybrid(model, successors=2)
    folder = tmp_path / "checkpoint"
    if before:  # as it was done before hybrids said what they are
        BertForSequenceClassification.save_pretrained(ship, folder)
    else:
        ship.save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_classifier_folder).save_pretrained(folder)
    if command_name == "compress":
        found = command("compress", recipe, f"predecessor.path={folder}")
    else:
        table = tmp_path / "reviews.csv"
        task = ["task.name=table", f"task.train={table}", "task.text=sentence", "task.label=label"]
        found = command("evaluate", folder, *task)
    assert found.code == 2, found.out + found.err
    assert ("they are a hybrid's, saved while it was trained" if before else "is a checkpoint of a hybrid") in found.err
    assert found.err.count("\n") == 1


def test_a_hybrids_folder_without_a_tokenizer_is_called_that_too(tmp_path, tiny_classifier_folder):
    model = AutoModelForSequenceClassification.from_pretrained(tiny_classifier_folder)
    plankwise.hybrid(model, successors=2).save_pretrained(tmp_path / "checkpoint")
    with pytest.raises(plankwise.PlankwiseError, match="is a checkpoint of a hybrid in training"):
        Loader().tokenizer(str(tmp_path / "checkpoint"))


def test_the_successor_of_a_checkpoint_is_saved_with_the_checkpoints_tokenizer(tmp_path, tiny_classifier_folder):
    model = AutoModelForSequenceClassification.from_pretrained(tiny_classifier_folder)
    plankwise.hybrid(model, successors=2).save_pretrained(tmp_path / "checkpoint")
    AutoTokenizer.from_pretrained(tiny_classifier_folder).save_pretrained(tmp_path / "checkpoint")
    plankwise.load(tmp_path / "checkpoint").save_pretrained(tmp_path / "successor")
    assert AutoTokenizer.from_pretrained(tmp_path / "successor").tokenize("fine film") == ["fine", "film"]
