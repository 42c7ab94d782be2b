"""Every part, found by its file, in one model, one block a part: collapsed, saved, loaded and exported, it answers the same."""

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

import plankwise
from exports import SMALL
from plankwise.config import PlanOptions
from plankwise.errors import RunError
from plankwise.export import export_model
from plankwise.kinds import list_kinds, load_kind
from plankwise.models.plans import assemble, build_successors, make_plan, take_out
from plankwise.models.saving import save
from plankwise.runtimes import open_predictor

NOT_TRACED = "recurrent"  # torch unrolls its recurrent layers for one length of text
PARTS = {name: load_kind("parts", name, key="plan.part") for name in list_kinds("parts")}
TABLES = ["word_embeddings", "position_embeddings", "token_type_embeddings"]


def slots_for(names):
    """A slot for each part: of an embedding one of the tables, of anything else in the block of its number."""
    tables = iter(TABLES)
    for number, name in enumerate(names):
        part = PARTS[name]
        block = f"bert.encoder.layer.{number}"
        if part.REPLACES == "embedding":
            yield {"path": f"bert.embeddings.{next(tables)}", "part": name}
        elif part.REPLACES in ("any", "blocks"):
            yield {"path": "bert.encoder.layer", "span": [number], "part": name}
        else:
            inside = {"linear": "intermediate.dense", "map": "output.dense", "module": "attention"}[part.REPLACES]
            yield {"path": f"{block}.{inside}", "part": name}


def make_ship(names):
    torch.manual_seed(0)
    # As many heads as fixed attention has patterns, and one.
    sizes = {**SMALL, "num_hidden_layers": len(names) + 1, "num_attention_heads": 8, "initializer_range": 0.2}
    model = BertForSequenceClassification(BertConfig(**sizes)).eval()
    plan = make_plan(model, PlanOptions(slots=list(slots_for(names))))
    return assemble(model, plan, build_successors(model, plan, init="lower", seed=0))


@torch.no_grad()
def test_a_model_of_all_parts_is_collapsed_saved_loaded_and_exported(models, batches, tmp_path):
    ship = make_ship([name for name in PARTS if name != NOT_TRACED])
    successor = take_out(ship)
    save(successor, tmp_path / "all")
    loaded = plankwise.load(tmp_path / "all")
    folder = export_model(loaded, models.tokenizer, tmp_path / "onnx", format="onnx")
    predictor = open_predictor("onnx", str(folder), None)
    for batch in batches:
        inputs = {key: value for key, value in batch.items() if key in predictor.exported.inputs}
        expected = ship(**inputs).logits
        assert torch.equal(successor(**inputs).logits, expected)
        torch.testing.assert_close(loaded(**inputs).logits, expected, atol=1e-6, rtol=1e-6)
        torch.testing.assert_close(predictor(batch)["logits"], expected, atol=1e-5, rtol=1e-5)


def test_a_part_that_cannot_be_traced_for_texts_of_any_length_is_refused(models, tmp_path):
    successor = take_out(make_ship([NOT_TRACED]))
    with pytest.raises(RunError, match=r"cannot be traced for batches and texts of any size .*export it to torch"):
        export_model(successor, models.tokenizer, tmp_path / "onnx", format="onnx")
