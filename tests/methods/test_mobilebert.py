"""MobileBERT: its loss written out, one block after the other, what it degenerates to, and what it makes of a plan."""

import copy
import shutil

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, DataCollatorWithPadding

from plankwise.config import validate_config
from plankwise.core.chain import find_chains
from plankwise.core.plan import Plan, Slot, each_plan, even_plan, listed_plan
from plankwise.core.taps import tapped
from plankwise.errors import ConfigError, PlanError
from plankwise.methods import _matching, kd, mobilebert
from plankwise.methods._matching import Teacher
from plankwise.methods.finetune import truncate
from plankwise.training.attention import group_heads
from plankwise.training.stage import Stage
from plankwise.training.trainer import StageTrainer

BOTTLENECK = {"width": 8, "heads": 1, "ffns": 1}
BLOCK = "bert.encoder.layer."


def make_bert(layers=4):
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    return BertForSequenceClassification(BertConfig(**sizes, num_hidden_layers=layers)).eval()


def bottlenecks(options=BOTTLENECK):
    return each_plan(find_chains(make_bert()), "bottleneck", options)


def same_weights(one, other):
    return all(torch.equal(value, other.state_dict()[name]) for name, value in one.state_dict().items())


def padded(stage):
    """A batch of texts of different lengths."""
    batch = dict(DataCollatorWithPadding(stage.tokenizer)([stage.train.dataset[row] for row in (5, 0, 17)]))
    assert len(set(batch["attention_mask"].sum(1).tolist())) > 1
    return batch


def attention_of_bert(block, state, n):
    """(heads, n, n) by hand: two heads of width 8."""
    own = block.attention.self
    query, key = (layer(state[:n]).view(n, 2, 8).transpose(0, 1) for layer in (own.query, own.key))
    return (query @ key.transpose(1, 2) / 8**0.5).softmax(-1)


def attention_of_bottleneck(block, state, n):
    """(1, n, n) by hand: queries and keys are read off what the two share; one head of width 8."""
    shared = block.share_norm(block.share(state[:n]))
    query, key = block.attend.queries(shared), block.attend.keys(shared)
    return (query @ key.T / 8**0.5).softmax(-1)[None]


@pytest.mark.parametrize("normalised", [True, False])
def test_the_loss_is_the_sum_of_its_terms_over_real_tokens(make_job, normalised):
    """On two layers, to a bottleneck with one head where the predecessor has two."""
    model = make_bert(layers=2)
    job = make_job(model, each_plan(find_chains(model), "bottleneck", BOTTLENECK), init="lower")
    options = mobilebert.Options(states=2.0, mean=3.0, variance=5.0, attention=7.0, normalised=normalised)
    pairs = mobilebert.pair_successors(job)
    assert pairs == [(f"{BLOCK}0", f"{BLOCK}0"), (f"{BLOCK}1", f"{BLOCK}1")]
    teacher, stage = Teacher(job.predecessor), job.stage("transfer")
    student = truncate(job.start()).eval()
    batch = padded(stage)
    with mobilebert.transfer_distance(student, teacher.model, pairs, stage, options) as distance:
        teacher(batch)
        student(**batch)
        found = distance(batch)

    def normal(state):
        return (state - state.mean(-1, keepdim=True)) / (state.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()

    expected = 0.0
    places = ["bert.embeddings", f"{BLOCK}0", f"{BLOCK}1"]
    with torch.no_grad(), tapped(teacher.model, places) as wanted, tapped(student, places) as states:
        teacher.model(**batch)
        student(**batch)
        theirs, ours = ([one[path] for path in places] for one in (wanted, states))
        for row, n in enumerate(batch["attention_mask"].sum(1).tolist()):
            for number in (0, 1):
                mine, other = ours[number + 1][row, :n], theirs[number + 1][row, :n]
                gap = normal(mine) - normal(other) if normalised else mine - other
                expected += 2 * (gap**2).mean() / 3
                expected += 3 * ((mine.mean(-1) - other.mean(-1)) ** 2).mean() / 3
                expected += 5 * (mine.var(-1, correction=0) - other.var(-1, correction=0)).abs().mean() / 3
                p = attention_of_bert(teacher.model.bert.encoder.layer[number], theirs[number][row], n).mean(0)
                (q,) = attention_of_bottleneck(student.bert.encoder.layer[number], ours[number][row], n)
                expected += 7 * (p * (p.log() - q.log())).sum(-1).mean() / 3
    torch.testing.assert_close(found, expected)


def test_heads_in_groups_attend_as_the_mean_of_their_group_and_of_equal_numbers_as_they_are():
    torch.manual_seed(0)
    scores, seen = torch.randn(2, 6, 4, 4), torch.ones(2, 1, 4, 4).tril()
    grouped = group_heads(scores, seen, 2).masked_fill(seen == 0, -1e9).softmax(-1)
    alone = scores.masked_fill(seen == 0, -1e9).softmax(-1)
    torch.testing.assert_close(grouped, torch.stack([alone[:, :3].mean(1), alone[:, 3:].mean(1)], 1))
    assert group_heads(scores, seen, 6) is scores


@pytest.mark.parametrize(
    "nothing", [{"share": 0}, {"states": 0, "mean": 0, "variance": 0, "attention": 0}], ids=["share", "weights"]
)
@pytest.mark.parametrize("variant", ["progressive", "auxiliary"])
def test_without_any_transfer_it_is_kd_to_the_bit(make_job, nothing, variant):
    if variant == "auxiliary" and "share" in nothing:
        nothing = {"states": 0, "mean": 0, "variance": 0, "attention": 0, "share": 0}
    model, plan = make_bert(), bottlenecks()
    plain = kd.compress(make_job(copy.deepcopy(model), plan), kd.Options(alpha=0.7, T=2.0))
    outcome = mobilebert.compress(
        make_job(copy.deepcopy(model), plan), mobilebert.Options(alpha=0.7, T=2.0, variant=variant, **nothing)
    )
    assert list(outcome.stages)[-1:] == ["prediction"]
    assert same_weights(outcome.successor, plain.successor)


def watch(monkeypatch):
    """Notes, for each stage that is run, its learning rate and which blocks have changed in it, or what else has."""
    seen = {}
    run = Stage.run

    def spy(stage, model, *args, **kwargs):
        before = copy.deepcopy(model.state_dict())
        result = run(stage, model, *args, **kwargs)
        changed = {key for key, value in model.state_dict().items() if not torch.equal(value, before[key])}
        places = {key.removeprefix(BLOCK)[0] if key.startswith(BLOCK) else "else" for key in changed}
        seen[stage.name] = (sorted(places), stage.options.learning_rate, result)
        return result

    monkeypatch.setattr(Stage, "run", spy)
    return seen


def test_one_block_learns_after_the_other_from_below_then_all_learn_the_answers(make_job, monkeypatch):
    seen = watch(monkeypatch)
    job = make_job(plan=bottlenecks(), training={"max_steps": 24, "evaluate_every": 1}, init="lower")
    outcome = mobilebert.compress(job, mobilebert.Options(learning_rate=2e-2))
    stages = [(name, places, rate) for name, (places, rate, _) in seen.items()]
    transfers = [(f"transfer-{number + 1}", [str(number)], 2e-2) for number in range(4)]
    assert stages == [*transfers, ("prediction", ["0", "1", "2", "3", "else"], 1e-2)]
    assert [stage.steps for stage in outcome.stages.values()] == [3, 3, 3, 3, 12]
    for name, _, _ in transfers:
        scores = [entry["eval_score"] for entry in seen[name][2].history if "eval_score" in entry]
        assert scores[-1] > scores[0], name  # minus the distance on held-out texts


def test_blocks_below_the_one_that_learns_have_their_share_of_its_rate(make_job, monkeypatch):
    seen, rates = watch(monkeypatch), []
    training_step = StageTrainer.training_step

    def step(trainer, model, *args, **kwargs):
        groups = trainer.optimizer.param_groups
        rates.append({(group["initial_lr"], bool(group["weight_decay"])) for group in groups if group["params"]})
        return training_step(trainer, model, *args, **kwargs)

    monkeypatch.setattr(StageTrainer, "training_step", step)
    job = make_job(plan=bottlenecks(), training={"max_steps": 8, "weight_decay": 0.1}, init="lower")
    mobilebert.compress(job, mobilebert.Options(below=0.25, learning_rate=2e-2))
    places = [seen[name][0] for name in seen]
    assert places[:4] == [["0"], ["0", "1"], ["0", "1", "2"], ["0", "1", "2", "3"]]
    own = {(2e-2, True), (2e-2, False)}
    assert rates[:4] == [own, *[own | {(5e-3, True), (5e-3, False)}] * 3]
    assert rates[4] == {(1e-2, True), (1e-2, False)}


def test_a_joint_transfer_trains_all_blocks_at_once_and_an_auxiliary_one_is_no_stage(make_job, monkeypatch):
    seen = watch(monkeypatch)
    job = make_job(plan=bottlenecks(), init="lower")
    assert mobilebert.compress(job, mobilebert.Options(variant="joint")).steps == 6
    assert [seen[name][0] for name in seen] == [["0", "1", "2", "3"], ["0", "1", "2", "3", "else"]]
    assert list(seen) == ["transfer", "prediction"]


def test_what_an_auxiliary_transfer_adds_is_the_distance_of_all_blocks(make_job):
    job = make_job(plan=bottlenecks(), init="lower")
    teacher, stage = Teacher(job.predecessor), job.stage("prediction")
    pairs, options = mobilebert.pair_successors(job), mobilebert.Options(variant="auxiliary")
    student = truncate(job.start()).eval()
    batch = padded(stage)

    def plain(model, inputs, rows):
        return model(**inputs)["loss"]

    with mobilebert.transfer_distance(student, teacher.model, pairs, stage, options) as distance:
        teacher(batch)
        alone = plain(student, batch, None)
        expected = alone + distance(batch)
    with mobilebert.adding(plain, student, teacher, pairs, stage, options) as loss:
        assert torch.equal(loss(student, batch, None), expected)
    assert expected > alone
    again = make_job(plan=bottlenecks(), init="lower")
    assert list(mobilebert.compress(again, options).stages) == ["prediction"]


def test_a_pass_that_is_left_behind_a_block_learns_the_same_as_a_whole_one(make_job, monkeypatch, tmp_path):
    ran = []

    def compress():
        job = make_job(plan=bottlenecks(), training={"max_steps": 5}, init="lower")
        job.predecessor.bert.encoder.layer[3].register_forward_hook(lambda *_: ran.append(True))
        return mobilebert.compress(job, mobilebert.Options(attention=0)).successor

    left = compress()
    few = len(ran)
    shutil.rmtree(tmp_path / "checkpoints")
    monkeypatch.setattr(_matching, "run_until", lambda model, inputs, path: model(**inputs))
    assert same_weights(compress(), left)
    assert 0 < few < len(ran) - few


def test_successors_are_matched_with_the_ends_of_their_spans_and_blocks_left_alone_are_not(make_job):
    plan = listed_plan(find_chains(make_bert()), [[1, 2]])
    assert mobilebert.pair_successors(make_job(plan=plan)) == [(f"{BLOCK}2", f"{BLOCK}1")]


@pytest.mark.parametrize("part", ["thin", "narrow", "lite", "delight"])
def test_other_parts_that_attend_learn_the_same_way(make_job, part):
    plan = each_plan(find_chains(make_bert()), part)
    outcome = mobilebert.compress(make_job(plan=plan, init="lower"), mobilebert.Options())
    assert outcome.steps == 6


def test_other_numbers_of_heads_are_refused_if_they_are_to_be_equal(make_job):
    options = mobilebert.Options(heads="equal")
    with pytest.raises(PlanError, match=r"has 1 heads and the predecessor's .* has 2; choose a plan\.part that keeps"):
        mobilebert.compress(make_job(plan=bottlenecks(), init="lower"), options)
    two = bottlenecks({**BOTTLENECK, "heads": 2})
    assert mobilebert.compress(make_job(plan=two, init="lower"), options).steps == 6


def test_successors_without_attention_are_refused_unless_it_has_no_weight(make_job):
    plan = even_plan(find_chains(make_bert()), 2, "linear", {})
    with pytest.raises(PlanError, match="has no attention that can be read"):
        mobilebert.compress(make_job(plan=plan, init="lower"), mobilebert.Options())
    assert mobilebert.compress(make_job(plan=plan, init="lower"), mobilebert.Options(attention=0)).steps == 6


def test_a_successor_without_weights_has_no_stage_to_learn_in(make_job):
    plan = even_plan(find_chains(make_bert()), 2, "identity", {})
    with pytest.raises(PlanError, match=r"stage transfer-1 has nothing to train: .* has no weights; choose another"):
        mobilebert.compress(make_job(plan=plan, init="lower"), mobilebert.Options(attention=0))


def test_slots_inside_blocks_are_refused(make_job):
    job = make_job(plan=Plan((Slot(f"{BLOCK}0.attention"),)))
    with pytest.raises(PlanError, match=r"method mobilebert works on whole blocks, and slot .* is none"):
        mobilebert.compress(job, mobilebert.Options())


def test_fewer_steps_than_stages_are_refused(make_job):
    with pytest.raises(ConfigError, match=r"has 5 stages \(transfer-1, .*, prediction\), but 4 steps are left"):
        mobilebert.compress(make_job(plan=bottlenecks(), training={"max_steps": 4}), mobilebert.Options())


@pytest.mark.parametrize(
    ("given", "shape"),
    [
        ({}, ("bottleneck", "each", None)),
        ({"options": {"width": 0.5}, "init": "lower"}, ("bottleneck", "each", None)),
        ({"successors": 3}, ("layers", "even", 3)),
        ({"successors": None}, ("bottleneck", "each", None)),
        ({"part": "thin", "cut": "each"}, ("thin", "each", None)),
        ({"part": "bottleneck"}, ("bottleneck", "even", None)),
        ({"spans": [[0, 1]]}, ("layers", "even", None)),
    ],
)
def test_the_plan_is_a_bottleneck_for_each_block_unless_a_recipe_says_its_shape(given, shape):
    plan = validate_config({"method": {"name": "mobilebert"}, "plan": given}).plan
    assert (plan.part, plan.cut, plan.successors) == shape
    written = validate_config({"method": {"name": "mobilebert"}, "plan": plan.model_dump(mode="json")}).plan
    assert written == plan
