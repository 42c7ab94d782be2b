"""Models of several families, and one that only plankwise can describe, agree with torch once they are exported."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

import plankwise
from exports import FAMILIES, SMALL, make
from plankwise.core.chain import find_chains
from plankwise.core.plan import even_plan
from plankwise.export import export_model
from plankwise.models.planned_config import PlannedConfig
from plankwise.models.plans import assemble, build_successors, take_out
from plankwise.models.saving import save
from plankwise.runtimes import open_predictor


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


def thin(tmp_path):
    """A successor whose blocks have one head and half the channels, as it is loaded from its folder."""
    model = make("bert")
    plan = even_plan(find_chains(model), 2, "thin", {"ffn": 0.5, "heads": 0.5})
    successor = take_out(assemble(model, plan, build_successors(model, plan, init="lower", seed=0)))
    save(successor, tmp_path / "thin")
    return plankwise.load(tmp_path / "thin")


@pytest.mark.parametrize("name", [*FAMILIES, "planned", "thin"])
def test_a_family_agrees_with_torch_in_every_runtime(name, models, batches, tmp_path):
    tokenizer = models.tokenizer
    made = {"planned": lambda: planned(tmp_path, tokenizer), "thin": lambda: thin(tmp_path)}
    model = made.get(name, lambda: make(name))().eval()
    assert isinstance(model.config, PlannedConfig) == (name in made)
    for format in ("onnx", "openvino"):
        folder = export_model(model, tokenizer, tmp_path / format, format=format)
        predictor = open_predictor(format, str(folder), None)
        for batch in batches:
            inputs = {key: value for key, value in batch.items() if key in predictor.exported.inputs}
            with torch.no_grad():
                expected = model(**inputs).logits
            torch.testing.assert_close(predictor(batch)["logits"], expected, atol=1e-5, rtol=1e-5)
    assert AutoTokenizer.from_pretrained(tmp_path / "onnx")("a film") == tokenizer("a film")
