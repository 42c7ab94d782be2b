"""A successor with a block of every part that replaces blocks agrees with torch once it is exported: all of them in one graph."""

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

import plankwise
from exports import SMALL
from plankwise.core.chain import find_chains
from plankwise.core.plan import Plan, listed_plan
from plankwise.errors import RunError
from plankwise.export import export_model
from plankwise.kinds import list_kinds, load_kind
from plankwise.models.plans import assemble, build_successors, take_out
from plankwise.models.saving import save
from plankwise.runtimes import open_predictor

NOT_TRACED = ("recurrent",)  # torch unrolls its recurrent layers for one length of text
PARTS = [name for name in list_kinds("parts") if load_kind("parts", name, key="plan.part").REPLACES == "blocks"]


def save_mixed(parts, folder):
    """A successor with one block of each part, as it is loaded from its folder."""
    torch.manual_seed(0)
    config = BertConfig(**{**SMALL, "num_hidden_layers": len(parts) + 1, "initializer_range": 0.2})
    model = BertForSequenceClassification(config).eval()
    chains = find_chains(model)
    plan = Plan(tuple(listed_plan(chains, [[index]], part, {}).slots[0] for index, part in enumerate(parts)))
    successors = build_successors(model, plan, init="random", seed=0)
    save(take_out(assemble(model, plan, successors)), folder)
    return plankwise.load(folder).eval()


def test_every_part_of_blocks_agrees_with_torch_in_onnx(models, batches, tmp_path):
    loaded = save_mixed([name for name in PARTS if name not in NOT_TRACED], tmp_path / "mixed")
    folder = export_model(loaded, models.tokenizer, tmp_path / "onnx", format="onnx")
    predictor = open_predictor("onnx", str(folder), None)
    for batch in batches:
        with torch.no_grad():
            expected = loaded(**batch).logits
        torch.testing.assert_close(predictor(batch)["logits"], expected, atol=1e-5, rtol=1e-5)


def test_a_part_that_cannot_be_traced_for_texts_of_any_length_is_refused(models, tmp_path):
    with pytest.raises(RunError, match=r"cannot be traced for batches and texts of any size .*export it to torch"):
        export_model(save_mixed(NOT_TRACED, tmp_path / "one"), models.tokenizer, tmp_path / "onnx", format="onnx")
