"""The recipes of published blocks: each is read whole, and its successors fit an encoder as wide as the one that it compresses."""

from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertModel

from plankwise.config import load_config
from plankwise.models.plans import build_successors, make_plan

RECIPES = sorted((Path(__file__).parents[2] / "recipes" / "parts").glob("*.toml"))


def test_there_is_one_for_each_published_block():
    assert {"bottleneck", "delight", "lite", "shared"} <= {recipe.stem for recipe in RECIPES}


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda one: one.stem)
def test_a_recipe_is_read_and_its_part_is_built(recipe):
    plan_options = load_config(recipe, []).plan
    with torch.device("meta"):
        model = BertModel(
            BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
        )
    plan = make_plan(model, plan_options)
    assert {slot.part for slot in plan.slots} == {recipe.stem}
    built = build_successors(model, plan, init="lower", seed=0)
    assert len(built) == len(plan.slots)
