"""Shared blocks: one object for each group, the group's start, one group for each slot, saving, and what is refused."""

import copy

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

import plankwise
from plankwise.core.chain import find_chains
from plankwise.core.plan import even_plan
from plankwise.errors import PlanError
from plankwise.models.plans import assemble, build_successors, take_out
from plankwise.models.saving import save

INPUTS = {"input_ids": torch.arange(1, 13).view(2, 6), "attention_mask": torch.tensor([[1] * 6, [1] * 4 + [0] * 2])}


@pytest.fixture
def model():
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 6, "num_attention_heads": 2, "intermediate_size": 24}
    return BertForSequenceClassification(BertConfig(**sizes, vocab_size=20, initializer_range=0.2)).eval()


def build(model, count, groups, init="lower", part="shared"):
    plan = even_plan(find_chains(model), count, part, {"groups": groups} if part == "shared" else {})
    return plan, build_successors(model, plan, init=init, seed=0)


@torch.no_grad()
def logits(model):
    return model(**INPUTS).logits


@pytest.mark.parametrize(
    ("count", "groups", "expected"),
    [(6, 1, [0] * 6), (6, 2, [0, 0, 0, 1, 1, 1]), (6, 4, [0, 0, 1, 2, 2, 3]), (3, 2, [0, 0, 1]), (3, 3, [0, 1, 2])],
)
def test_a_slot_is_in_the_group_that_albert_puts_it_in(model, count, groups, expected):
    _, blocks = build(model, count, groups)
    numbers = {id(block): number for number, block in enumerate(dict.fromkeys(blocks))}
    assert [numbers[id(block)] for block in blocks] == expected
    assert expected == [int(index / count * groups) for index in range(count)]


@pytest.mark.parametrize("init", ["lower", "upper", "first", "spread", "mean", "random"])
def test_one_group_for_each_slot_is_the_part_layers(model, init):
    outputs = []
    for part in ("shared", "layers"):
        plan, blocks = build(model, 3, 3, init, part)
        outputs.append(logits(take_out(assemble(copy.deepcopy(model), plan, blocks))))
    assert torch.equal(*outputs)


@pytest.mark.parametrize(("init", "expected"), [("lower", [0]), ("upper", [3]), ("mean", [0, 1, 2, 3])])
def test_a_groups_block_starts_as_one_block_for_all_of_its_spans(model, init, expected):
    _, blocks = build(model, 3, 2, init)
    donors = [model.bert.encoder.layer[index].state_dict() for index in expected]
    for name, value in blocks[0].state_dict().items():
        assert torch.equal(value, torch.stack([donor[name] for donor in donors]).mean(0))


def test_groups_are_saved_once_and_shared_when_loaded(model, tmp_path):
    plan, blocks = build(model, 3, 2)
    successor = take_out(assemble(model, plan, blocks))
    save(successor, tmp_path / "shared")
    loaded = copy.deepcopy(plankwise.load(tmp_path / "shared")).eval()
    layers = loaded.bert.encoder.layer
    assert all(one is two for one, two in zip(layers[0].parameters(), layers[1].parameters(), strict=True))
    assert not {id(one) for one in layers[0].parameters()} & {id(one) for one in layers[2].parameters()}
    assert torch.equal(logits(loaded), logits(successor))
    assert sum(one.numel() for one in layers.parameters()) == 2 * sum(one.numel() for one in layers[0].parameters())


def test_more_groups_than_slots_are_refused(model):
    with pytest.raises(
        PlanError, match=r"plan\.options\.groups is 4, but .* has 3 slots of part 'shared'; give a number up to 3"
    ):
        build(model, 3, 4)


def test_blocks_of_a_decoder_are_not_shared_because_of_their_cache():
    torch.manual_seed(0)
    decoder = GPT2LMHeadModel(GPT2Config(n_embd=16, n_layer=4, n_head=2, vocab_size=20)).eval()
    with pytest.raises(
        PlanError, match=r"are to share a block, but those of a decoder keep keys and values in a cache"
    ):
        build(decoder, 2, 1)
    assert len(set(build(decoder, 2, 2)[1])) == 2
