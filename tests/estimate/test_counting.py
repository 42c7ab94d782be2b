"""Multiply-adds put together from modules against those that a counter sees in a real step, forward and backward."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

from plankwise.core.chain import find_chains
from plankwise.core.hybrid import Rules
from plankwise.core.plan import even_plan
from plankwise.core.schedule import Constant
from plankwise.estimate.counting import Count, Ledger, trains_nothing
from plankwise.families._first_token import first_token_only
from plankwise.methods.layerdrop import install
from plankwise.training.fitting import relative_error, squares
from plankwise.training.ship import hybrid
from plankwise.training.stage import trained_alone


def make_bert(**changes):
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 40}
    return BertForSequenceClassification(BertConfig(**{**sizes, "num_hidden_layers": 6, **changes}))


def make_inputs(size, tokens):
    ids = torch.randint(1, 50, (size, tokens))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.zeros(size, dtype=torch.long)}


def loss_of(model):
    return lambda inputs: model(**inputs)["loss"]


def make_ledger(model, call=None):
    return Ledger(model, call or loss_of(model), [(tokens, make_inputs(1, tokens)) for tokens in (5, 7, 11)])


def really_counted(call, inputs):
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        call(inputs).backward()
    return counter.get_total_flops() // 2


@pytest.mark.parametrize("unfreeze", ["nothing", "head", "all"])
@pytest.mark.parametrize("mix", ["coin", "blend"])
def test_a_step_of_a_hybrid_takes_what_its_mask_says(unfreeze, mix):
    ship = hybrid(make_bert(), 3, Constant(rate=0.5), unfreeze=unfreeze, rules=Rules(blend=mix == "blend"))
    ledger = make_ledger(ship)
    ship.train()
    ship.begin(40)
    seen = set()
    for step in range(40):
        ship.set_step(step)
        state = (ship.mask, ship.settled)
        if not trains_nothing(ship, step) and state not in seen:
            seen.add(state)
            expected = really_counted(loss_of(ship), make_inputs(3, 8))
            assert ledger.now()[1].of(3, 8) == pytest.approx(expected, rel=0.02), state
    assert len(seen) == (8 if mix == "coin" else 2)


def test_a_last_block_that_is_computed_for_the_first_token_alone_is_counted_as_such():
    ship = hybrid(make_bert(), 3, Constant(rate=0.5))
    ship.train()
    ship.begin(40)
    whole = make_ledger(ship)
    with first_token_only(ship):
        ledger = make_ledger(ship)
        for step in range(8):
            ship.set_step(step)
            if not trains_nothing(ship, step):
                expected = really_counted(loss_of(ship), make_inputs(3, 8))
                assert ledger.now()[1].of(3, 8) == pytest.approx(expected, rel=0.05), ship.mask
                assert expected < 0.95 * whole.now()[1].of(3, 8)


def test_gradients_of_frozen_weights_are_counted_where_they_are_asked_for():
    ship = hybrid(make_bert(), 3, Constant(rate=0.5), rules=Rules(frozen_gradients=True))
    ledger = make_ledger(ship)
    ship.train()
    ship.begin(40)
    ship.set_step(0)
    assert ledger.now()[1].of(3, 8) == pytest.approx(really_counted(loss_of(ship), make_inputs(3, 8)), rel=0.02)


def test_successors_that_learn_beside_their_spans_hand_no_gradient_on():
    ship = hybrid(make_bert(), 3, Constant(rate=1), rules=Rules(skip=False))
    ship.train()
    ship.begin(1)
    with ship.paired() as slots:

        def loss(inputs):
            ship(**inputs)
            return torch.stack([relative_error(*squares(slot.pair, inputs)) for slot in slots]).mean()

        ledger = make_ledger(ship, loss)
        assert all(slot.pairing for slot in slots)
        assert ledger.now()[1].of(3, 8) == pytest.approx(really_counted(loss, make_inputs(3, 8)), rel=0.02)


def test_all_of_a_model_and_a_head_alone_are_counted_as_they_are_trained():
    model = make_bert().train()
    ledger = make_ledger(model)
    whole = ledger.now()[1].of(2, 9)
    assert whole == pytest.approx(really_counted(loss_of(model), make_inputs(2, 9)))
    with trained_alone(model, {"classifier.weight", "classifier.bias"}):
        head = really_counted(loss_of(model), make_inputs(2, 9))
        assert ledger.now()[1].of(2, 9) == pytest.approx(head)
    assert head < whole / 2


def test_blocks_that_are_left_out_are_not_counted():
    model = make_bert().train()
    blocks = list(install(model, even_plan(find_chains(model), 3)).values())
    ledger = make_ledger(model)
    blocks[1].dropped = blocks[4].dropped = True
    assert ledger.now()[1].of(2, 9) == pytest.approx(really_counted(loss_of(model), make_inputs(2, 9)))
    model.eval()
    kept = ledger.now()[0].of(1, 1)
    blocks[1].dropped = blocks[4].dropped = False
    assert ledger.now()[0].of(1, 1) == kept  # outside training the lowest block of each span runs


def test_a_decoder_with_tied_embeddings_is_counted_too():
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_embd=16, n_layer=4, n_head=2, n_positions=32)).train()

    def loss(inputs):
        ids = inputs["input_ids"]
        return model(input_ids=ids, labels=ids)["loss"]

    ledger = make_ledger(model, loss)
    assert ledger.now()[1].of(3, 8) == pytest.approx(really_counted(loss, make_inputs(3, 8)), rel=0.02)


def test_counting_leaves_the_hybrid_at_its_step_and_what_is_trained_as_it_was():
    ship = hybrid(make_bert(), 3, Constant(rate=0.5))
    ship.train()
    ship.begin(40)
    ship.set_step(3)
    mask, trained = ship.mask, [parameter.requires_grad for parameter in ship.parameters()]
    make_ledger(ship)
    assert ship.mask == mask
    assert [parameter.requires_grad for parameter in ship.parameters()] == trained
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in ship.modules())


@pytest.mark.parametrize("count", [Count(constant=7.0), Count(line=3.0), Count(line=3.0, square=0.5)])
@pytest.mark.parametrize("lengths", [(4, 9), (4, 6, 9)])
def test_a_few_lengths_tell_constants_lines_and_squares_apart(count, lengths):
    found = Count.through({length: count.of(1, length) for length in lengths})
    assert vars(found) == pytest.approx(vars(count), abs=1e-9)


def test_three_lengths_tell_all_of_them_at_once():
    count = Count(5.0, 3.0, 0.5)
    assert vars(Count.through({n: count.of(1, n) for n in (4, 6, 9)})) == pytest.approx(vars(count))


def test_one_length_gives_a_line_through_it():
    assert Count.through({8: 40.0}).of(2, 8) == 80.0
