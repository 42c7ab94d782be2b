"""Models of several families, and one that only plankwise can describe, agree with torch once they are exported."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

import plankwise
from plankwise.export import export_model
from plankwise.models.planned_config import PlannedConfig
from plankwise.runtimes import open_predictor

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
SMALL = {**SIZES, "vocab_size": 25, "max_position_embeddings": 66, "pad_token_id": 0}
FAMILIES = {
    "bert": {},
    "roberta": {"type_vocab_size": 1},
    "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 48},
    "electra": {"embedding_size": 16},
    "mpnet": {},
}


def make(family):
    torch.manual_seed(0)
    own = FAMILIES[family]
    sizes = {"vocab_size": 25, "max_position_embeddings": 66, "pad_token_id": 0} if "dim" in own else SMALL
    return AutoModelForSequenceClassification.from_config(AutoConfig.for_model(family, **sizes, **own, num_labels=3))


def planned(tmp_path, tokenizer):
    """A successor two blocks of which are one and the same, as it is loaded from its folder."""
    torch.manual_seed(0)
    config = AutoConfig.for_model("bert", **{**SMALL, "num_hidden_layers": 4}, num_labels=3)
    ship = plankwise.hybrid(AutoModelForSequenceClassification.from_config(config))
    first, second = (ship.bert.encoder.layer[place].successor for place in (0, 2))
    for name, _ in list(second.named_parameters()):
        parent, _, last = name.rpartition(".")
        setattr(second.get_submodule(parent), last, first.get_parameter(name))
    ship.collapse().save_pretrained(tmp_path / "planned")
    return plankwise.load(tmp_path / "planned")


@pytest.mark.parametrize("name", [*FAMILIES, "planned"])
def test_a_family_agrees_with_torch_in_every_runtime(name, models, batches, tmp_path):
    tokenizer = models.tokenizer
    model = (planned(tmp_path, tokenizer) if name == "planned" else make(name)).eval()
    assert isinstance(model.config, PlannedConfig) == (name == "planned")
    for format in ("onnx", "openvino"):
        folder = export_model(model, tokenizer, tmp_path / format, format=format)
        predictor = open_predictor(format, str(folder), None)
        for batch in batches:
            inputs = {key: value for key, value in batch.items() if key in predictor.exported.inputs}
            with torch.no_grad():
                expected = model(**inputs).logits
            torch.testing.assert_close(predictor(batch)["logits"], expected, atol=1e-5, rtol=1e-5)
    assert AutoTokenizer.from_pretrained(tmp_path / "onnx")("a film") == tokenizer("a film")
