"""Parts of sublayers and embeddings where successors are solved: nearer than their plain starts, alone and in one plan."""

import math

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from plankwise.config import PlanOptions
from plankwise.core.plan import Plan
from plankwise.errors import PlanError
from plankwise.kinds import list_kinds, load_kind
from plankwise.models.plans import build_successors, make_plan
from plankwise.solving.tokens import Places

FFN = [{"path": f"bert.encoder.layer.*.{name}.dense"} for name in ("intermediate", "output")]


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


@pytest.fixture
def bert():
    torch.manual_seed(0)
    sizes = {"vocab_size": 99, "hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 32}
    config = BertConfig(**sizes, num_hidden_layers=4, max_position_embeddings=16, initializer_range=0.2)
    return BertForSequenceClassification(config).eval()


def plan_for(model, part, slots, **options) -> Plan:
    return make_plan(model, PlanOptions(part=part, options=options, slots=slots))


def test_solved_low_rank_is_nearer_than_its_singular_value_decomposition(bert, toys, solved):
    found = solved(bert, toys.make_tokens(), plan_for(bert, "low_rank", FFN, rank=0.5))
    assert found.effect < found.solution.effect_before / 2
    assert [slot["maps"] for slot in found.solution.slots] == [1] * 8


def test_each_solved_map_is_nearer_to_what_the_map_gives_by_itself(bert, toys, solved):
    plan = plan_for(bert, "low_rank", [{"path": "bert.encoder.layer.0.intermediate.dense"}], rank=4)
    batches = toys.make_tokens()
    given = []
    linear = bert.bert.encoder.layer[0].intermediate.dense
    handle = linear.register_forward_hook(lambda _, args, output: given.append((args[0], output)))
    for batch in batches[-2:]:  # not those that it is solved on
        bert(**batch)
    handle.remove()
    plain = build_successors(bert, plan, init="lower", seed=0)[0]
    found = solved(bert, batches, plan).successors[0]
    missed = [sum((one(x) - y).square().sum() for x, y in given) for one in (found, plain)]
    assert missed[0] < missed[1]


def test_solved_fixed_attention_is_nearer_than_the_heads_in_their_order(bert, toys, solved):
    plan = plan_for(bert, "fixed_attention", [{"path": "bert.encoder.layer.*.attention"}])
    found = solved(bert, toys.make_tokens(), plan)
    assert found.effect < found.solution.effect_before / 2
    assert all(
        slot["maps"] == 4 for slot in found.solution.slots
    )  # of the learned head, of all values, and behind them


def test_the_constant_of_no_attention_becomes_the_mean_of_what_attention_adds(bert, toys, solved):
    plan = plan_for(bert, "no_attention", [{"path": "bert.encoder.layer.3.attention"}])
    batches = toys.make_tokens()
    found = solved(bert, batches, plan)
    places = Places(**found.solution.slots[0]["weights"])
    given, counted = [], []
    handle = bert.bert.encoder.layer[3].attention.output.dense.register_forward_hook(
        lambda _, args, out: given.append(out)
    )
    for batch in batches[:-2]:
        bert(**batch)
        counted.append(places.weigh(batch["attention_mask"]))
    handle.remove()
    total = sum((state * often[..., None]).sum((0, 1)) for state, often in zip(given, counted, strict=True))
    mean = total / sum(often.sum() for often in counted)
    torch.testing.assert_close(found.successors[0].bias, mean, atol=1e-5, rtol=1e-4)
    assert found.effect < found.solution.effect_before


MIXED = [
    {"path": "bert.embeddings.word_embeddings", "part": "factorised_embedding", "options": {"width": 0.75}},
    {"path": "bert.encoder.layer.0.attention", "part": "fixed_attention"},
    {"path": "bert.encoder.layer.1.intermediate.dense", "part": "low_rank", "options": {"rank": 0.5}},
    {"path": "bert.encoder.layer", "span": [2, 3], "part": "thin"},
]


def test_parts_of_all_kinds_are_solved_in_one_plan(bert, toys, solved):
    found = solved(bert, toys.make_tokens(), plan_for(bert, "layers", MIXED))
    parts = [slot.part for slot in found.plan.slots]
    assert parts == ["factorised_embedding", "fixed_attention", "low_rank", "thin"]
    assert [slot["maps"] > 0 for slot in found.solution.slots] == [False, True, True, True]
    assert found.effect < found.solution.effect_before / 2


PLACES = {
    "any": {"successors": 2},
    "blocks": {"successors": 2},
    "linear": {"slots": FFN[:1]},
    "map": {"slots": FFN[:1]},
    "embedding": {"slots": [{"path": "bert.embeddings.word_embeddings"}]},
    "module": {"slots": [{"path": "bert.encoder.layer.*.attention"}]},
}


@pytest.mark.parametrize("name", list_kinds("parts"))
def test_a_part_is_solved_or_refused_with_another_start_to_choose(name, bert, toys, solved):
    replaces = load_kind("parts", name, key="plan.part").REPLACES
    plan = make_plan(bert, PlanOptions(part=name, **PLACES[replaces]))
    try:
        found = solved(bert, toys.make_tokens(4), plan)
    except PlanError as error:
        refusal = str(error)
    else:
        assert math.isfinite(found.effect)
        assert len(found.successors) == len(plan.slots)
        return
    assert "choose another plan.init, for example lower" in refusal
