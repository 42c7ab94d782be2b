"""What parts offer to a search for a plan: options that can be built for spans of any length."""

import pytest
from transformers import BertConfig, BertForSequenceClassification

from plankwise.core.chain import find_chains
from plankwise.core.plan import listed_plan
from plankwise.kinds import list_kinds, load_kind
from plankwise.models.plans import build_successors
from plankwise.parts import candidates

PARTS = {name: load_kind("parts", name, key="plan.part") for name in list_kinds("parts")}


@pytest.mark.parametrize("name", [name for name, part in PARTS.items() if hasattr(part, "CANDIDATES")])
def test_every_candidate_is_found_and_can_be_built_in_place_of_one_block_and_of_several(name):
    offered = PARTS[name].CANDIDATES
    assert offered
    assert [options for part, options in candidates() if part == name] == offered
    sizes = {"vocab_size": 20, "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4}
    model = BertForSequenceClassification(BertConfig(**sizes, intermediate_size=64, max_position_embeddings=20))
    for options in offered:
        plan = listed_plan(find_chains(model), [[0], [1, 2, 3]], name, options)
        assert len(build_successors(model, plan, init="lower", seed=0)) == 2


def test_layers_and_thin_offer_candidates():
    assert {"layers", "thin"} <= {name for name, _ in candidates()}
