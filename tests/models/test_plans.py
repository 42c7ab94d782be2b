import copy

import pytest
import torch
from transformers import (
    BartConfig,
    BartForSequenceClassification,
    BertConfig,
    BertForMaskedLM,
    ModernBertConfig,
    ModernBertForSequenceClassification,
)

from plankwise.core.hybrid import Rules
from plankwise.core.plan import Plan, Slot, even_plan, listed_plan
from plankwise.core.schedule import Constant
from plankwise.families import chains_of
from plankwise.models.plans import build_successors, one_of, reassemble
from plankwise.training.ship import launch

SMALL = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 24, "vocab_size": 20}
HALF = {"d_model": 16, "vocab_size": 20, "encoder_layers": 4, "decoder_layers": 2, "pad_token_id": 0, "eos_token_id": 2}
MODELS = {
    "a masked language model": lambda: BertForMaskedLM(BertConfig(**SMALL)),
    "blocks that differ by index": lambda: ModernBertForSequenceClassification(
        ModernBertConfig(**SMALL, **dict.fromkeys(("pad_token_id", "bos_token_id", "cls_token_id"), 0), eos_token_id=2)
    ),
    "two chains": lambda: BartForSequenceClassification(BartConfig(**HALF, bos_token_id=1, forced_eos_token_id=None)),
}
TOKENS = torch.tensor([[3, 5, 14, 2], [3, 9, 15, 2]])


def make(name):
    torch.manual_seed(0)
    return MODELS[name]().eval()


def train(model, plan):
    """The successor of a hybrid whose successors are other blocks than the predecessor's."""
    model = copy.deepcopy(model)
    blocks = build_successors(model, plan, init="lower", seed=0)
    with torch.no_grad():
        for parameter in (parameter for block in blocks for parameter in block.parameters()):
            parameter.add_(0.1 * torch.randn_like(parameter))
    return launch(model, plan, blocks, Constant(), seed=0, unfreeze="nothing", rules=Rules()).collapse()


def answer(model):
    with torch.no_grad():
        return model(TOKENS).logits


@pytest.mark.parametrize("name", MODELS)
def test_no_slot_is_the_predecessor_every_slot_the_successor_and_one_slot_neither(name):
    predecessor = make(name)
    plan = even_plan(chains_of(predecessor))
    successor = train(predecessor, plan)
    before, after = answer(predecessor), answer(successor)
    ship = reassemble(predecessor, successor, plan)
    count = len(plan.slots)
    with ship.masked(False):
        assert torch.equal(answer(ship), before)
    with ship.masked(True):
        assert torch.equal(answer(ship), after)
    seen = [before, after]
    for number in range(1, count + 1):
        with ship.masked(one_of(number, count)):
            assert not any(torch.equal(answer(ship), other) for other in seen)
            seen.append(answer(ship))


def test_the_successors_own_blocks_are_found_behind_spans_of_any_width():
    predecessor = make("a masked language model")
    plan = listed_plan(chains_of(predecessor), [[0, 1], [3]])
    successor = train(predecessor, plan)
    ship = reassemble(predecessor, successor, plan)
    layers = ship.bert.encoder.layer
    for place, index in ((layers[0], 0), (layers[3], 2)):
        wanted = successor.bert.encoder.layer[index].state_dict()
        assert all(torch.equal(value, wanted[name]) for name, value in place.successor.state_dict().items())


def test_single_modules_are_found_too_also_in_chains_that_were_shortened():
    predecessor = make("a masked language model")
    plan = Plan((Slot("bert.encoder.layer", (0, 1)), Slot("bert.encoder.layer.3.attention")))
    successor = train(predecessor, plan)
    ship = reassemble(predecessor, successor, plan)
    wanted = successor.bert.encoder.layer[2].attention.state_dict()
    found = ship.bert.encoder.layer[3].attention.successor.state_dict()
    assert all(torch.equal(value, wanted[name]) for name, value in found.items())
    with ship.masked(True):
        assert torch.equal(answer(ship), answer(successor))
