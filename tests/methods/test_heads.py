"""Head pruning: importance written out, which heads stay, a really smaller model that loads, and what is refused."""

from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForSequenceClassification

import plankwise
from plankwise.core.chain import find_chains
from plankwise.core.plan import Plan, Slot, even_plan
from plankwise.errors import PlanError
from plankwise.methods import finetune, heads
from stages import make_bert

BLOCKS = [f"bert.encoder.layer.{index}" for index in range(2)]


@pytest.fixture
def job(make_job):
    """4 blocks to 2, of 4 heads each."""

    def make(**options):
        model = make_bert(num_attention_heads=4, initializer_range=0.3).eval()
        return make_job(model, even_plan(find_chains(model), 2), **options)

    return make


def test_importance_is_the_sum_over_tokens_of_what_the_loss_changes_by_normed_in_each_block(make_job):
    """On a model of 2 blocks, each example by itself, by gradients of factors that multiply what a head gives to one token."""
    model = make_bert(num_hidden_layers=2, num_attention_heads=4, initializer_range=0.3).eval()
    job = make_job(model, even_plan(find_chains(model), 2))
    stage = job.stage("heads")
    stage = replace(stage, train=stage.train.take(range(1)))
    scores = heads.find_scores(stage, model, BLOCKS, examples=10).scores

    inputs, factors = stage.batch_of([0], "cpu"), {}

    def scale(path):
        def hook(_, args):
            factors[path] = torch.ones(*args[0].shape[:2], 4, 1, requires_grad=True)
            return ((args[0].unflatten(-1, (4, -1)) * factors[path]).flatten(2), *args[1:])

        return model.get_submodule(f"{path}.attention.output.dense").register_forward_pre_hook(hook)

    handles = [scale(path) for path in BLOCKS]
    gradients = torch.autograd.grad(model(**inputs).loss, list(factors.values()))
    for handle in handles:
        handle.remove()
    for found, gradient in zip(scores, gradients, strict=True):
        expected = gradient.abs().sum((0, 1, 3))
        torch.testing.assert_close(found, expected / expected.norm())


def test_the_lowest_of_all_go_but_one_stays_in_each_block():
    scores = [torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.9, 0.8, 0.7])]
    assert [kept.tolist() for kept in heads.choose_heads(scores, 4)] == [[2], [0, 1, 2]]
    assert [kept.tolist() for kept in heads.choose_heads(scores, 3)] == [[2], [0, 1]]
    assert [kept.tolist() for kept in heads.choose_heads(scores, 6)] == [[0, 1, 2], [0, 1, 2]]


def test_as_many_heads_go_in_each_round():
    options = heads.Options(keep=0.25, rounds=3)
    assert [heads.count_kept(24, 6, options, number) for number in (1, 2, 3)] == [18, 12, 6]
    assert heads.count_kept(24, 12, options, 3) == 12  # one in each block


def test_with_all_heads_kept_it_is_fine_tuning_to_the_bit(job):
    plain = finetune.compress(job(init="lower"), finetune.Options()).successor.state_dict()
    ours = heads.compress(job(init="lower"), heads.Options(keep=1)).successor.state_dict()
    assert all(torch.equal(value, ours[name]) for name, value in plain.items())


def test_the_successor_is_smaller_and_loads_with_the_same_answers(job, tmp_path):
    outcome = heads.compress(job(init="lower"), heads.Options(keep=0.4, rounds=2))
    model = outcome.successor
    left = outcome.notes["heads"]["after_rounds"]
    assert outcome.notes["heads"]["before"] == [4, 4]
    assert [sum(one) for one in left] == [6, 3]  # 8 to 3
    widths = [block.attention.self.query.out_features for block in model.bert.encoder.layer]
    assert widths == [4 * count for count in left[-1]]
    assert [(stage.name, stage.steps) for stage in outcome.stages.values()] == [
        ("importance-1", 0),
        ("heads-1", 3),
        ("importance-2", 0),
        ("heads-2", 3),
    ]
    assert outcome.stages["importance-1"].seconds > 0
    model.save_pretrained(tmp_path / "saved")
    ids = torch.arange(5, 25).view(2, 10)
    for loaded in (
        plankwise.load(tmp_path / "saved"),
        AutoModelForSequenceClassification.from_pretrained(tmp_path / "saved"),
    ):
        with torch.no_grad():
            assert torch.equal(loaded.eval()(ids).logits, model.eval()(ids).logits)
    for slot, count in zip(
        outcome.plan.slots, left[-1], strict=True
    ):  # its plan says the same, for the predecessor's blocks
        assert (slot.part, slot.options["heads"]) == ("thin", count / 4)


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (lambda chains: even_plan(chains, 2, "linear"), "holds the part 'linear'; set plan.part = 'layers'"),
        (
            lambda chains: Plan((Slot("bert.encoder.layer.0.attention"),)),
            "takes heads out of blocks of the predecessor's",
        ),
    ],
)
def test_what_has_no_heads_to_take_out_is_refused(make_job, plan, why):
    with pytest.raises(PlanError, match=why):
        heads.compress(make_job(plan=plan(find_chains(make_job().predecessor))), heads.Options())


def test_a_family_whose_heads_share_a_bias_is_refused(make_job):
    from transformers import MPNetConfig, MPNetForSequenceClassification

    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32, "num_hidden_layers": 2}
    model = MPNetForSequenceClassification(MPNetConfig(vocab_size=50, **sizes))
    with pytest.raises(
        PlanError, match=r"a MPNetLayer, cannot be taken out: each head's bias .*; choose another method"
    ):
        heads.compress(make_job(model, even_plan(find_chains(model), 1)), heads.Options())
