"""TinyBERT: the loss of its first stage written out, what it degenerates to, what it learns, and what it refuses."""

import copy

import pytest
import torch
from transformers import DataCollatorWithPadding

from plankwise.core.chain import find_chains
from plankwise.core.plan import Plan, Slot, even_plan, listed_plan
from plankwise.errors import PlanError
from plankwise.methods import kd, tinybert
from plankwise.methods._matching import Teacher, pair_blocks
from plankwise.methods.finetune import truncate


def same_weights(one, other):
    return all(torch.equal(value, other.state_dict()[name]) for name, value in one.state_dict().items())


def inside(model, inputs):
    """What goes on in a BERT, read by another way than the method's: all scores by hand, from transformers' own states."""
    states = model(**inputs, output_hidden_states=True).hidden_states
    scores = []
    for state, block in zip(states, model.bert.encoder.layer, strict=False):
        own = block.attention.self
        query, key = (layer(state).view(*state.shape[:2], 2, 8).transpose(1, 2) for layer in (own.query, own.key))
        scores.append(query @ key.transpose(2, 3) / 8**0.5)
    return states, scores


@pytest.mark.parametrize("layers", ["ends", "top", "bottom"])
@pytest.mark.parametrize("projection", [True, False])
def test_the_first_stages_loss_is_the_sum_of_its_terms_over_real_tokens(make_job, layers, projection):
    """On 4 layers to 2, on texts of different lengths."""
    job = make_job()
    options = tinybert.Options(embedding=2.0, attention=3.0, hidden=5.0, layers=layers, projection=projection)
    (pairs,) = pair_blocks(job.predecessor, job.plan, layers)
    teacher, stage = Teacher(job.predecessor), job.stage("intermediate")
    student = truncate(job.start()).eval()
    batch = dict(DataCollatorWithPadding(stage.tokenizer)([stage.train.dataset[row] for row in (5, 0, 17)]))
    lengths = batch["attention_mask"].sum(1).tolist()
    assert len(set(lengths)) > 1
    shared = torch.nn.Linear(16, 16) if projection else None
    firsts = ["bert.encoder.layer.0"]
    with tinybert.inside_distance(student, teacher.model, pairs, firsts, stage, options, shared) as distance:
        teacher(batch)
        student(**batch)
        found = distance(batch)

    with torch.no_grad():
        (theirs, their_scores), (ours, our_scores) = inside(teacher.model, batch), inside(student, batch)
    blocks = {"ends": (1, 3), "top": (2, 3), "bottom": (0, 1)}[layers]
    expected = 0.0
    for row, n in enumerate(lengths):
        for weight, mine, other in [
            (2.0, ours[0], theirs[0]),
            *((5.0, ours[place + 1], theirs[block + 1]) for place, block in enumerate(blocks)),
        ]:
            mine = mine[row, :n]
            mapped = mine if shared is None else mine @ shared.weight.T + shared.bias
            expected += weight * ((mapped - other[row, :n]) ** 2).sum() / (n * 16) / 3
        for place, block in enumerate(blocks):
            gap = our_scores[place][row, :, :n, :n] - their_scores[block][row, :, :n, :n]
            expected += 3.0 * (gap**2).sum() / (2 * n * n) / 3
    torch.testing.assert_close(found, expected)


def test_without_a_weight_on_the_insides_it_is_kd_to_the_bit(make_job):
    model = make_job().predecessor
    plain = kd.compress(make_job(copy.deepcopy(model)), kd.Options(alpha=0.7, T=2.0))
    outcome = tinybert.compress(
        make_job(copy.deepcopy(model)), tinybert.Options(embedding=0, attention=0, hidden=0, alpha=0.7, T=2.0)
    )
    assert list(outcome.stages)[-1:] == ["prediction"]
    assert same_weights(outcome.successor, plain.successor)


def test_the_insides_come_closer_and_the_head_is_left_for_the_second_stage(make_job, monkeypatch):
    seen = []
    learn = tinybert.learn_inside

    def spy(stage, student, teacher, *rest):
        head = student.classifier.weight.clone()
        result = learn(stage, student, teacher, *rest)
        assert torch.equal(student.classifier.weight, head)
        assert torch.equal(teacher.model.classifier.weight, job.predecessor.classifier.weight)
        seen.append([entry["eval_score"] for entry in result.history if "eval_score" in entry])
        return result

    monkeypatch.setattr(tinybert, "learn_inside", spy)
    job = make_job(training={"max_steps": 24, "evaluate_every": 1}, init="lower")
    outcome = tinybert.compress(job, tinybert.Options(projection=True))
    assert seen[0][-1] > seen[0][0]  # minus the distance on held-out texts
    assert [(stage.name, stage.steps) for stage in outcome.stages.values()] == [
        ("intermediate", 12),
        ("prediction", 12),
    ]
    assert not torch.equal(outcome.successor.classifier.weight, job.predecessor.classifier.weight)


def test_blocks_are_paired_by_spans_from_the_top_or_from_the_bottom():
    class Layers(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.ModuleList(torch.nn.GRU(2, 2) for _ in range(7))

    model = Layers()
    plan = listed_plan(find_chains(model), [[1, 2, 3], [4, 5]])
    expected = {"ends": [0, 3, 5, 6], "top": [3, 4, 5, 6], "bottom": [0, 1, 2, 3]}
    for layers, blocks in expected.items():
        assert pair_blocks(model, plan, layers) == [
            [(f"layer.{theirs}", f"layer.{ours}") for ours, theirs in enumerate(blocks)]
        ]


@pytest.mark.parametrize(
    ("part", "options", "why"),
    [
        ("linear", {}, "has no attention that can be read"),
        ("thin", {"ffn": 1.0, "heads": 0.5}, "has 1 heads and the predecessor's .* has 2; choose a plan.part that"),
    ],
)
def test_successors_without_such_attention_are_refused_unless_it_has_no_weight(make_job, part, options, why):
    plan = even_plan(find_chains(make_job().predecessor), 2, part, options)
    with pytest.raises(PlanError, match=why):
        tinybert.compress(make_job(plan=plan, init="lower"), tinybert.Options())
    assert tinybert.compress(make_job(plan=plan, init="lower"), tinybert.Options(attention=0)).steps == 6


def test_slots_inside_blocks_are_refused(make_job):
    job = make_job(plan=Plan((Slot("bert.encoder.layer.0.attention"),)))
    with pytest.raises(
        PlanError, match=r"method tinybert works on whole blocks, and slot .* is none; give plan\.successors"
    ):
        tinybert.compress(job, tinybert.Options())
