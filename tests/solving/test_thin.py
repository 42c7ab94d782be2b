"""Thin successors are solved: the texts choose what they keep, and narrower maps are solved for the outputs that they have."""

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from plankwise.core.chain import find_chains
from plankwise.core.plan import even_plan, late_plan, listed_plan
from plankwise.models.plans import build_successors, take_out
from plankwise.parts import thin
from plankwise.solving.effect import EndEffect

OPTIONS = [{"ffn": 0.5}, {"ffn": 1.0, "heads": 0.5}, {"ffn": 0.25, "heads": 0.5}]


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


def effect_on(model, plan, successors, batches, solved, toys):
    """The end effect of successors on other texts than those that they were solved on."""
    hybrid = solved.assemble(toys.copy(model), plan, [toys.copy(one) for one in successors])
    return EndEffect(hybrid, batches).measure([True] * len(plan.slots))


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("cut", [even_plan, late_plan])
@pytest.mark.parametrize("count", [4, 2])
def test_solved_thin_blocks_are_nearer_to_the_predecessor_than_copied_ones_on_fresh_texts(
    count, cut, options, bert, toys, solved
):
    plan = cut(find_chains(bert), count, "thin", options)
    found = solved(bert, toys.make_tokens(18), plan)
    fresh = toys.make_tokens(4, seed=1)
    copies = build_successors(bert, plan, init="lower", seed=0)
    assert effect_on(bert, plan, found.successors, fresh, solved, toys) < effect_on(
        bert, plan, copies, fresh, solved, toys
    )
    successor = take_out(solved.assemble(bert, plan, found.successors))
    blocks = successor.bert.encoder.layer
    assert len(blocks) == count
    assert {block.output.dense.in_features for block in blocks} == {32 * options["ffn"]}
    assert {block.attention.output.dense.in_features for block in blocks} == {16 * options.get("heads", 1)}
    assert successor(**fresh[0]).logits.isfinite().all()


def test_a_share_of_one_gives_the_block_back(bert, toys, solved):
    plan = listed_plan(find_chains(bert), [[0]], "thin", {"ffn": 1.0, "heads": 1.0})
    found = solved(bert, toys.make_tokens(4), plan)
    for name, value in bert.bert.encoder.layer[0].state_dict().items():
        assert torch.equal(found.successors[0].state_dict()[name], value)


def test_channels_and_heads_that_say_nothing_on_the_texts_go_whatever_they_weigh(bert, toys, solved):
    block = bert.bert.encoder.layer[0]
    silent, dead = (
        [0, 5, 9, 30],
        2,
    )  # channels whose activation is 0, a head whose values are 0: by weights, they come first
    block.intermediate.dense.bias[silent] = -50
    block.output.dense.weight[:, silent] *= 1000
    rows = slice(4 * dead, 4 * dead + 4)
    block.attention.self.value.weight[rows] = 0
    block.attention.self.value.bias[rows] = 0
    block.attention.self.query.weight[rows] *= 1000
    plan = listed_plan(find_chains(bert), [[0]], "thin", {"ffn": 28, "heads": 3})
    copied = build_successors(bert, plan, init="lower", seed=0)[0]
    assert set(silent) <= set(kept_channels(copied, block))
    found = solved(bert, toys.make_tokens(), plan)
    assert found.effect < 1e-8  # nothing was lost
    assert not set(silent) & set(kept_channels(found.successors[0], block))


def kept_channels(thin, block):
    return [
        next(index for index in range(32) if torch.equal(row, block.intermediate.dense.weight[index]))
        for row in thin.intermediate.dense.weight
    ]


def test_padding_does_not_choose(bert, toys, solved, monkeypatch):
    scores = []
    original = thin._Contribution.scores
    monkeypatch.setattr(thin._Contribution, "scores", lambda self: (scores.append(original(self)), scores[-1])[1])
    plan = listed_plan(find_chains(bert), [[0]], "thin", {"ffn": 0.5})
    batches = toys.make_tokens(4)
    longer = [{name: torch.nn.functional.pad(value, (0, 4)) for name, value in batch.items()} for batch in batches]
    for some in (batches, longer):
        solved(bert, some, plan)
    torch.testing.assert_close(*scores)


def test_narrow_maps_behind_solved_blocks_are_solved_for_the_outputs_that_they_keep(bert, toys, solved):
    plan = listed_plan(find_chains(bert), [[0], [1]], "thin", {"ffn": 0.5, "heads": 0.5})
    found = solved(bert, toys.make_tokens(18), plan)
    assert [slot["maps"] for slot in found.solution.slots] == [6, 6]
    first, second = found.successors
    rows = bert.bert.encoder.layer[0].attention.self.query.weight.unflatten(0, (4, 4))
    distances = torch.cdist(first.attention.self.query.weight.unflatten(0, (2, 4)).flatten(1), rows.flatten(1))
    assert distances.min(1).values.max() < 1e-3  # the first block reads what it read: its rows are the predecessor's
    rows = bert.bert.encoder.layer[1].attention.self.query.weight.unflatten(0, (4, 4))
    distances = torch.cdist(second.attention.self.query.weight.unflatten(0, (2, 4)).flatten(1), rows.flatten(1))
    assert distances.min(1).values.min() > 1e-3
