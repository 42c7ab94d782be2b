"""Solving on a toy where it is exact, and what holds of any model: one block, the order of texts, the seed, memory."""

import random

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification

from plankwise.core.chain import find_chains
from plankwise.core.plan import Plan, Slot, even_plan, listed_plan
from plankwise.errors import PlanError
from plankwise.models.plans import build_successors
from plankwise.solving.bench import Bench
from plankwise.solving.solve import _count_tokens, solve


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


@pytest.fixture
def bert():
    torch.manual_seed(0)
    sizes = {"vocab_size": 99, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(**sizes, num_hidden_layers=4, max_position_embeddings=16, initializer_range=0.2)
    return BertForSequenceClassification(config).eval()


def relative_error(found, expected):
    return float((found - expected).square().sum() / expected.square().sum())


def weights_of(found):
    return nn.ModuleList(found.successors).state_dict()


def test_two_linear_blocks_are_solved_exactly_by_one(toys, solved):
    model = toys.make_linear_net()
    found = solved(model, toys.make_states())
    fresh = toys.make_states(1, seed=1)[0]
    expected = model(**fresh)
    copies = solved.assemble(toys.copy(model), found.plan, [toys.copy(model.blocks[0]), toys.copy(model.blocks[2])])
    with copies.masked(True):
        assert relative_error(copies(**fresh), expected) > 1e-2
    successor = solved.assemble(model, found.plan, found.successors).collapse()
    assert len(successor.blocks) == 2
    assert relative_error(successor(**fresh), expected) < 1e-6


def test_a_span_that_is_one_block_gives_that_block_back(bert, toys, solved):
    found = solved(bert, toys.make_tokens(), listed_plan(find_chains(bert), [[0], [1]]))
    for index, successor in enumerate(found.successors):
        for name, value in bert.bert.encoder.layer[index].state_dict().items():
            torch.testing.assert_close(successor.state_dict()[name], value, rtol=1e-3, atol=1e-4)
    assert found.effect < 1e-8


def test_a_block_behind_solved_ones_is_solved_for_what_they_give_it(bert, toys, solved):
    found = solved(bert, toys.make_tokens(), listed_plan(find_chains(bert), [[0, 1], [2]]))
    first, second = found.solution.slots
    assert not torch.equal(found.successors[1].output.dense.weight, bert.bert.encoder.layer[2].output.dense.weight)
    assert second["effect"] < first["effect"]


def test_the_order_of_texts_does_not_matter(bert, toys, solved):
    batches = toys.make_tokens(6)  # less than a held-out batch needs, so that each text counts alike
    given, held_out = batches[:-2], batches[-2:]
    rows = {name: torch.cat([batch[name] for batch in given]) for name in given[0]}
    order = list(range(len(rows["input_ids"])))
    random.Random(0).shuffle(order)
    shuffled = [{name: value[some] for name, value in rows.items()} for some in torch.tensor(order).split(8)]
    assert not torch.equal(shuffled[0]["input_ids"], given[0]["input_ids"])
    one, other = weights_of(solved(bert, batches)), weights_of(solved(bert, [*shuffled, *held_out]))
    for name, value in one.items():
        torch.testing.assert_close(other[name], value, rtol=1e-3, atol=1e-4)


def test_solving_again_gives_the_same_weights_to_the_bit(bert, toys, solved):
    one, other = (weights_of(solved(bert, toys.make_tokens())) for _ in range(2))
    assert all(torch.equal(value, other[name]) for name, value in one.items())


def test_texts_that_differ_give_other_weights(bert, toys, solved):
    one, other = (weights_of(solved(bert, toys.make_tokens(seed=seed))) for seed in (0, 1))
    assert not torch.equal(one["0.output.dense.weight"], other["0.output.dense.weight"])


def test_modules_inside_blocks_are_solved_too(bert, toys, solved):
    slots = (Slot("bert.encoder.layer.1.attention"), Slot("bert.encoder.layer", (2, 3)))
    found = solved(bert, toys.make_tokens(), Plan(slots))
    assert found.solution.slots[0]["effect"] < 1e-8  # the module itself
    assert 0 < found.effect < found.solution.effect_before


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_in_half_precision_is_solved_in_float32(dtype, bert, toys, solved):
    in_half = toys.copy(bert).to(dtype)
    found = solved(in_half, toys.make_tokens())
    expected = solved(toys.copy(in_half).float(), toys.make_tokens())
    assert {value.dtype for value in in_half.state_dict().values() if value.is_floating_point()} == {dtype}
    for name, value in weights_of(expected).items():
        assert torch.equal(weights_of(found)[name], value)


def test_a_head_is_solved_as_any_linear_map(bert, toys, solved):
    alone = solved(bert, toys.make_tokens(), Plan((Slot("classifier"),)))
    torch.testing.assert_close(alone.successors[0].weight, bert.classifier.weight)
    behind = solved(bert, toys.make_tokens(), Plan((Slot("bert.encoder.layer", (0, 1)), Slot("classifier"))))
    assert (behind.successors[1].weight - bert.classifier.weight).abs().max() > 1e-3


def test_what_the_answers_do_not_depend_on_is_refused_as_any_other_module_is(bert, toys, solved):
    with pytest.raises(PlanError, match="slot pooler, a BertPooler, and its span do not both end in a linear map"):
        solved(bert.bert, toys.make_tokens(4), Plan((Slot("pooler"),)))


def test_successors_that_share_weights_are_refused_by_the_names_of_their_slots(toys, tmp_path):
    model, batches = toys.make_linear_net(), toys.make_states(4)
    plan = listed_plan(find_chains(model), [[0, 1], [2, 3]])
    one = toys.copy(model.blocks[0])
    with pytest.raises(PlanError, match="those of slots blocks 0-1 and blocks 2-3 share weights; choose"):
        solve(model, plan, lambda init: [one, one], lambda: iter(batches), batches[:1], tmp_path)


class Squashed(nn.Module):
    """A block that ends in a function that is not linear."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, state):
        return torch.tanh(state + self.linear(state))


def test_a_block_that_ends_in_no_linear_map_is_refused_by_the_name_of_its_slot(toys, solved):
    model = toys.make_linear_net()
    model.blocks = nn.ModuleList(Squashed(8) for _ in range(4))
    with pytest.raises(
        PlanError, match="that of slot blocks 0-1, a Squashed, and its span do not both end in a linear"
    ):
        solved(model, toys.make_states(4))


def test_beside_successors_that_cannot_be_solved_and_are_to_be_kept_the_others_are_solved(toys, tmp_path):
    model = toys.make_linear_net()
    model.blocks[1] = Squashed(8)
    batches, plan = toys.make_states(8), Plan((Slot("blocks", (0, 1)), Slot("blocks", (2, 3))))

    def build(init):
        return build_successors(model, plan, init=init, seed=0)

    found = solve(model, plan, build, lambda: iter(batches[:-1]), batches[-1:], tmp_path, keep_others=True)
    assert [slot["maps"] for slot in found.slots] == [0, 1]
    starts = {start: build(start)[0] for start in ("lower", "upper")}
    kept = found.successors[0].state_dict()
    assert all(torch.equal(kept[name], value) for name, value in starts[found.slots[0]["start"]].state_dict().items())
    assert 0 < found.slots[1]["effect"] < found.effect_before


def test_four_times_the_texts_keep_no_more_bytes_in_memory(bert, toys, solved):
    peaks, on_disk = [], []
    for times in (1, 4):
        found = []
        solved(
            bert,
            toys.repeat(toys.make_tokens(9), times),
            watch=lambda folder, found=found: found.append(
                (toys.live_bytes(), sum(file.stat().st_size for file in folder.iterdir()))
            ),
        )
        peaks.append([memory for memory, _ in found])
        on_disk.append(max(size for _, size in found))
    # A pass ends with another batch of them, in which other tokens are padding.
    assert all(other <= 1.01 * one for one, other in zip(*peaks, strict=True))
    assert on_disk[1] > 3 * on_disk[0]  # what grows with the texts is on disk


def test_the_tokens_of_texts_without_a_mask_are_counted_by_their_states(toys, solved, tmp_path):
    model, batches = toys.make_linear_net(), toys.make_states(6)
    plan = even_plan(find_chains(model))
    hybrid = solved.assemble(model, plan, build_successors(model, plan, init="lower", seed=0))
    bench = Bench(hybrid, batches[0], tmp_path)
    assert _count_tokens(bench, lambda: iter(batches), batches[0]) == 6 * 12 * 3
