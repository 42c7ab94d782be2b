"""What `kd` and `replacing` may learn beside their own loss: attention scores, and each successor's span while both run."""

import copy

import pytest
import torch
from transformers import DataCollatorWithPadding

from plankwise.config import validate_config
from plankwise.core.chain import find_chains
from plankwise.core.hybrid import Rules
from plankwise.core.plan import Plan, Slot, even_plan
from plankwise.core.schedule import Constant
from plankwise.errors import ConfigError, PlanError
from plankwise.methods import kd, replacing
from plankwise.methods._matching import Teacher, pair_blocks, transferring
from plankwise.methods.finetune import truncate
from plankwise.training.losses import task_loss
from plankwise.training.ship import launch


def make_batch(stage):
    """Texts of different lengths."""
    batch = dict(DataCollatorWithPadding(stage.tokenizer)([stage.train.dataset[row] for row in (5, 0, 17)]))
    assert len(set(batch["attention_mask"].sum(1).tolist())) > 1
    return batch


def scores(block, state):
    own = block.attention.self
    query, key = (layer(state).view(*state.shape[:2], 2, 8).transpose(1, 2) for layer in (own.query, own.key))
    return query @ key.transpose(2, 3) / 8**0.5


def apart(ours, theirs, batch):
    """The mean over texts of the mean squared difference over pairs of real tokens."""
    lengths = batch["attention_mask"].sum(1).tolist()
    gaps = [((ours - theirs)[row, :, :n, :n] ** 2).mean() for row, n in enumerate(lengths)]
    return sum(gaps) / len(gaps)


def make_ship(job, rate, **rules):
    successors = job.start().successors
    ship = launch(
        job.predecessor, job.plan, successors, Constant(rate=rate), seed=0, unfreeze="nothing", rules=Rules(**rules)
    )
    ship.begin(num_steps=10)
    return ship


def test_attention_is_the_mean_distance_of_scores_of_successors_and_the_ends_of_their_spans(make_job):
    job = make_job(init="lower")
    stage = job.stage("kd")
    (pairs,) = pair_blocks(job.predecessor, job.plan, "ends")
    teacher, batch = Teacher(job.predecessor), make_batch(stage)
    student = truncate(job.start()).eval()
    with transferring(task_loss(None), student, teacher, pairs, stage, 3.0) as loss:
        found = loss(student, batch, torch.arange(3))
    with torch.no_grad():
        ours, theirs = (model(**batch, output_hidden_states=True) for model in (student, teacher.model))
        distances = [
            apart(
                scores(student.bert.encoder.layer[place], ours.hidden_states[place]),
                scores(teacher.model.bert.encoder.layer[block], theirs.hidden_states[block]),
                batch,
            )
            for place, block in enumerate((1, 3))
        ]
    torch.testing.assert_close(found, ours.loss + 3.0 * sum(distances) / 2)


def test_of_a_hybrid_only_successors_that_ran_are_compared(make_job):
    job = make_job(init="lower")
    stage = job.stage("replacing")
    teacher, batch = Teacher(job.predecessor), make_batch(stage)
    ship = make_ship(job, 0.5).eval()
    pairs = [(slot.places[-1], f"{slot.places[0]}.successor") for slot in job.plan.slots]
    with transferring(task_loss(None), ship, teacher, pairs, stage, 2.0) as loss:
        with ship.masked([False, True]):
            found = loss(ship, batch, torch.arange(3))
        with ship.masked(False), torch.no_grad():
            plain = loss(ship, batch, torch.arange(3))
            assert torch.equal(plain, ship(**batch)["loss"])
    with torch.no_grad():
        theirs = teacher.model(**batch, output_hidden_states=True).hidden_states
        given = theirs[2]  # the first slot is its span, so that the second is given what it is given in the predecessor
        last = ship.bert.encoder.layer[2].successor
        distance = apart(scores(last, given), scores(teacher.model.bert.encoder.layer[3], theirs[3]), batch)
        with ship.masked([False, True]):
            expected = ship(**batch)["loss"] + 2.0 * distance
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("rate", [0.25, 0.75])
def test_local_matching_is_the_relative_error_of_each_successor_while_both_run(make_job, rate):
    """Written out: both slots by hand, the second on the blend of the first; no dropout, so that it can be."""
    job = make_job(init="lower")
    batch = make_batch(job.stage("replacing"))
    ship = make_ship(job, rate, blend=True, pair=True)
    for module in ship.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    ship.train()
    found = replacing.matching_locally(task_loss(None), ship, 5.0)(ship, batch, torch.arange(3))
    whole = ship(**batch)["loss"]
    mask = batch["attention_mask"]
    seen = mask[:, None, None, :].bool()
    with torch.no_grad():
        state, errors = ship.bert.embeddings(batch["input_ids"]), []
        for first, second in ((0, 1), (2, 3)):
            places = ship.bert.encoder.layer
            span = places[second].block(places[first].block(state, seen), seen)
            successor = places[first].successor(state, seen)
            missed, moved = (((one**2).sum(-1) * mask).sum(1) for one in (successor - span, span - state))
            errors.append((missed / moved).mean())
            state = torch.lerp(span, successor, rate)
    torch.testing.assert_close(found, whole + 5.0 * (errors[0] + errors[1]) / 2)


def test_once_the_rate_is_1_there_is_nothing_to_match_and_in_eval_mode_neither(make_job):
    job = make_job(init="lower")
    batch = make_batch(job.stage("replacing"))
    for rate, training in ((1.0, True), (0.5, False)):
        ship = make_ship(make_job(init="lower"), rate, blend=True, pair=True).train(training)
        torch.manual_seed(0)
        found = replacing.matching_locally(task_loss(None), ship, 5.0)(ship, batch, torch.arange(3))
        torch.manual_seed(0)
        assert torch.equal(found, ship(**batch)["loss"])


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        ({"mix": "blend"}, {"local": 1.0}),
        ({"schedule": {"kind": "constant", "rate": 0.5, "full_at": 0.7}}, {"attention": 1.0}),
    ],
)
def test_weights_of_0_change_no_bit_and_others_do(make_job, options, changed):
    def weights(**more):
        job = make_job(init="lower")
        stage = job.stage
        job = copy.copy(job)
        object.__setattr__(job, "stage", lambda name: stage(f"{name}-{len(more)}-{sum(more.values())}"))
        return replacing.compress(job, replacing.Options(**options, **more)).successor.state_dict()

    plain, zero, other = weights(), weights(**dict.fromkeys(changed, 0.0)), weights(**changed)
    key = "bert.encoder.layer.0.output.dense.weight"
    assert all(torch.equal(value, zero[name]) for name, value in plain.items())
    assert not torch.equal(plain[key], other[key])


def test_local_matching_without_a_blend_is_refused():
    with pytest.raises(
        ConfigError, match=r"local is 1, but mix is 'coin', where span and successor never run together"
    ):
        validate_config({"method": {"local": 1.0}})


@pytest.mark.parametrize("method", [kd, replacing])
def test_attention_of_what_has_none_is_refused_with_a_way_out(method, make_job):
    inner = make_job(plan=Plan((Slot("bert.encoder.layer.0.attention"),)))
    with pytest.raises(
        PlanError, match=r"works on whole blocks, and slot .* is none; .*, or leave method\.attention at 0"
    ):
        method.compress(inner, method.Options(attention=1.0))
    plan = even_plan(find_chains(make_job().predecessor), 2, "linear")
    with pytest.raises(PlanError, match=r"has no attention that can be read .* or give its attention a weight of 0"):
        method.compress(make_job(plan=plan, init="lower"), method.Options(attention=1.0))
