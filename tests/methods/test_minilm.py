"""MiniLM: both versions' losses written out, where they are the same, what they degenerate to, and what is refused."""

import copy

import pytest
import torch
from torch.nn import functional
from transformers import DataCollatorWithPadding

from plankwise.core.chain import find_chains
from plankwise.core.plan import even_plan
from plankwise.errors import ConfigError, PlanError
from plankwise.methods import kd, minilm
from plankwise.methods._matching import Teacher
from plankwise.methods.finetune import truncate


@pytest.fixture
def toy(make_job):
    """Teacher of 4 layers, student of 2, a batch of texts of different lengths, and what computes a method's distance on it."""
    job = make_job()
    teacher, stage = Teacher(job.predecessor), job.stage("intermediate")
    student = truncate(job.start()).eval()
    batch = dict(DataCollatorWithPadding(stage.tokenizer)([stage.train.dataset[row] for row in (5, 0, 17)]))

    def measure(**options):
        chosen = minilm.Options(**options)
        theirs, ours = minilm.choose_blocks(job.predecessor, job.plan, chosen.layer)
        with minilm.relation_distance(student, teacher.model, ours, theirs, stage, chosen) as distance:
            teacher(batch)
            student(**batch)
            return distance(batch)

    return teacher.model, student, batch, measure


def vectors(model, batch, block):
    """Queries, keys and values of a block for all heads, (B, T, 16), from transformers' own states."""
    state = model(**batch, output_hidden_states=True).hidden_states[block]
    own = model.bert.encoder.layer[block].attention.self
    return [layer(state) for layer in (own.query, own.key, own.value)]


def divergence(theirs, ours, heads, lengths):
    """KL of relations X · Yᵀ / √d, for (X, Y) of each side, text by text and head by head."""
    total = 0.0
    for row, n in enumerate(lengths):
        for head in torch.arange(16).chunk(heads):
            p, q = (((x[row, :n, head] @ y[row, :n, head].T) / len(head) ** 0.5).softmax(-1) for x, y in (theirs, ours))
            total += (p * (p.log() - q.log())).sum() / (n * heads * len(lengths))
    return total


@pytest.mark.parametrize("layer", ["last", 1])
def test_version_1_is_the_divergence_of_attentions_and_of_relations_of_values(toy, layer):
    teacher, student, batch, measure = toy
    lengths = batch["attention_mask"].sum(1).tolist()
    assert len(set(lengths)) > 1
    with torch.no_grad():
        q, k, v = vectors(teacher, batch, 3 if layer == "last" else layer)
        own_q, own_k, own_v = vectors(student, batch, 1)
    expected = divergence((q, k), (own_q, own_k), 2, lengths) + divergence((v, v), (own_v, own_v), 2, lengths)
    torch.testing.assert_close(measure(version=1, layer=layer), expected)


@pytest.mark.parametrize(("given", "heads"), [("auto", 2), (4, 4), (1, 1)])
def test_version_2_is_the_divergence_of_the_relations_of_queries_keys_and_values(toy, given, heads):
    teacher, student, batch, measure = toy
    lengths = batch["attention_mask"].sum(1).tolist()
    with torch.no_grad():
        pairs = zip(vectors(teacher, batch, 3), vectors(student, batch, 1), strict=True)
    expected = sum(divergence((x, x), (y, y), heads, lengths) for x, y in pairs)
    torch.testing.assert_close(measure(relation_heads=given), expected)


def test_a_student_that_is_its_teacher_has_no_distance(make_job):
    job = make_job()
    job = make_job(job.predecessor, even_plan(find_chains(job.predecessor), 4), init="lower")
    teacher, stage = Teacher(job.predecessor), job.stage("intermediate")
    student = truncate(job.start()).eval()
    batch = dict(DataCollatorWithPadding(stage.tokenizer)([stage.train.dataset[row] for row in (5, 0)]))
    last = "bert.encoder.layer.3"
    for version in (1, 2):
        options = minilm.Options(version=version)
        with minilm.relation_distance(student, teacher.model, last, last, stage, options) as distance:
            teacher(batch)
            student(**batch)
            assert distance(batch).item() == 0


@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_without_steps_for_relations_it_is_kd_to_the_bit(make_job, alpha):
    model = make_job().predecessor
    plain = kd.compress(make_job(copy.deepcopy(model)), kd.Options(alpha=alpha)).successor.state_dict()
    ours = minilm.compress(make_job(copy.deepcopy(model)), minilm.Options(share=0, alpha=alpha)).successor.state_dict()
    assert all(torch.equal(value, ours[name]) for name, value in plain.items())


def test_relations_are_learnt_without_labels_where_heads_differ_too(make_job):
    plan = even_plan(find_chains(make_job().predecessor), 2, "thin", {"ffn": 1.0, "heads": 0.5})
    training = {"max_steps": 24, "evaluate_every": 1}
    outcome = minilm.compress(make_job(plan=plan, training=training, init="lower"), minilm.Options(relation_heads=4))
    scores = [entry["eval_score"] for entry in outcome.stages["intermediate"].history if "eval_score" in entry]
    assert scores[-1] > scores[0]  # minus the divergence on held-out texts
    with pytest.raises(PlanError, match="has 1 heads and the predecessor's"):
        minilm.compress(make_job(plan=plan, init="lower"), minilm.Options(version=1))


def test_a_block_that_is_not_there_and_heads_that_do_not_divide_the_width_are_refused(make_job):
    with pytest.raises(ConfigError, match=r"method\.layer is 4, but the predecessor's .* has blocks 0 to 3"):
        minilm.compress(make_job(), minilm.Options(layer=4))
    with pytest.raises(ConfigError, match=r"method\.relation_heads is 3, but queries, keys and values are 16 wide"):
        minilm.compress(make_job(init="lower"), minilm.Options(relation_heads=3))


def test_the_divergence_of_a_causal_attention_is_over_the_keys_that_are_seen():
    from plankwise.training.attention import seen_keys
    from plankwise.training.losses import relation_loss

    scores, targets = torch.randn(2, 1, 2, 3, 3, generator=torch.Generator().manual_seed(0))
    real = torch.ones(1, 3)
    found = relation_loss(scores, targets, seen_keys(real, causal=True), real)
    expected = sum(
        functional.kl_div(
            scores[0, head, n, : n + 1].log_softmax(-1), targets[0, head, n, : n + 1].softmax(-1), reduction="sum"
        )
        for head in range(2)
        for n in range(3)
    )
    torch.testing.assert_close(found, expected / 6)
