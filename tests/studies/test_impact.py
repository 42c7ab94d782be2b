import pytest
import torch
from transformers import AutoModelForSequenceClassification, GPT2Config, GPT2ForSequenceClassification

from plankwise.core.plan import even_plan, listed_plan
from plankwise.errors import ConfigError
from plankwise.families import chains_of
from plankwise.models.plans import assemble, build_successors, one_of, reassemble, take_out
from plankwise.studies import impact
from plankwise.studies._trials import configure

TOKENS = torch.tensor([[2, 5, 14, 3], [2, 9, 15, 3]])


def load(folder):
    return AutoModelForSequenceClassification.from_pretrained(folder).eval()


def train(folder, plan):
    """The successor of a hybrid whose successors are other blocks than the predecessor's."""
    model = load(folder)
    return take_out(assemble(model, plan, build_successors(model, plan, init="random", seed=7)))


def answer(model):
    with torch.no_grad():
        return model(TOKENS).logits


@pytest.mark.parametrize("spans", [[[0, 1], [2, 3]], [[1, 2]], [[0, 1, 2], [3]]])
def test_the_hybrid_without_successors_is_the_predecessor_and_with_all_the_successor(spans, tiny_classifier_folder):
    plan = listed_plan(chains_of(load(tiny_classifier_folder)), spans)
    successor = train(tiny_classifier_folder, plan)
    ship = reassemble(load(tiny_classifier_folder), successor, plan)
    with ship.masked(False):
        assert torch.equal(answer(ship), answer(load(tiny_classifier_folder)))
    with ship.masked(True):
        assert torch.equal(answer(ship), answer(successor))


def test_a_decoder_that_caches_its_states_is_put_together_again_too(tmp_path):
    torch.manual_seed(0)
    sizes = {"n_layer": 4, "n_embd": 16, "n_head": 2, "vocab_size": 20, "n_positions": 8, "pad_token_id": 0}
    GPT2ForSequenceClassification(GPT2Config(**sizes, bos_token_id=1, eos_token_id=1)).save_pretrained(tmp_path)
    plan = even_plan(chains_of(load(tmp_path)), 2)
    successor = train(tmp_path, plan)
    assert successor.config.use_cache
    ship = reassemble(load(tmp_path), successor, plan)
    with ship.masked(True):
        assert torch.equal(answer(ship), answer(successor))
    by_hand = load(tmp_path)
    by_hand.transformer.h[2].load_state_dict(successor.transformer.h[1].state_dict())
    del by_hand.transformer.h[3]
    with ship.masked(one_of(2, 2)):
        assert torch.equal(answer(ship), answer(by_hand))


def test_one_slot_at_a_time_runs_that_successor_alone(tiny_classifier_folder):
    plan = even_plan(chains_of(load(tiny_classifier_folder)), 2)
    successor = train(tiny_classifier_folder, plan)
    ship = reassemble(load(tiny_classifier_folder), successor, plan)
    by_hand = load(tiny_classifier_folder)
    layers = by_hand.bert.encoder.layer
    layers[2] = successor.bert.encoder.layer[1]
    del layers[3]
    with ship.masked(one_of(2, 2)):
        assert torch.equal(answer(ship), answer(by_hand))


def test_a_mask_replaces_exactly_the_slot_asked_for():
    assert [one_of(number, 3) for number in (1, 2, 3)] == [
        (True, False, False),
        (False, True, False),
        (False, False, True),
    ]


def test_the_rate_stays_constant_to_the_end_and_nothing_else_is_trained(request_for):
    request = request_for("impact", "method.unfreeze=all")
    (trial,) = impact.plan(request)
    config = configure(trial.recipe, request.folder, 0, trial.arms[0].overrides)
    assert {config.method.schedule(step, 100) for step in range(100)} == {0.5}
    assert config.method.unfreeze == "nothing"


def test_a_constant_recipe_keeps_its_rate(request_for):
    request = request_for("impact", 'method.schedule={ kind = "constant", rate = 0.7 }')
    (trial,) = impact.plan(request)
    assert configure(trial.recipe, request.folder, 0, trial.arms[0].overrides).method.schedule(99, 100) == 0.7


def test_slots_are_counted_from_one_and_end_with_all(request_for):
    (trial,) = impact.plan(request_for("impact", "plan.successors=4"))
    assert [arm.at for arm in trial.arms] == ["1", "2", "3", "4", "all"]


def test_a_slot_that_is_not_there_is_refused(request_for):
    with pytest.raises(ConfigError, match="--values has the slot '3', but the plan of tiny has the slots 1 to 2"):
        impact.plan(request_for("impact", values=["1", "3"]))
