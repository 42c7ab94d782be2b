"""Q-BERT: which block has how many bits, what is rounded, what is saved, and what it degenerates to."""

import itertools
import json
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from plankwise.config import validate_config
from plankwise.core.chain import find_chains
from plankwise.core.plan import Plan, Slot, even_plan
from plankwise.errors import ConfigError, PlanError
from plankwise.methods import finetune, kd, qbert
from plankwise.models.loading import load
from plankwise.models.saving import save
from plankwise.report.remarks import bits_remark
from plankwise.training.curvature import RESULT, find_sensitivity


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10), st.integers(1, 5)), min_size=2, max_size=4),
    st.floats(2, 8),
)
def test_bits_are_the_best_of_all_that_meet_the_mean(blocks, mean):
    choices = [2, 3, 4, 8]
    sensitivity, scale, sizes = zip(*blocks, strict=True)
    errors = [[one / 4**bits for bits in choices] for one in scale]
    found = qbert.choose_bits(sensitivity, errors, sizes, choices, mean)

    def used(bits):
        return sum(one * size for one, size in zip(bits, sizes, strict=True)) / sum(sizes)

    def loss(bits):
        return sum(s * row[choices.index(one)] for s, row, one in zip(sensitivity, errors, bits, strict=True))

    assert used(found) <= mean * (1 + 1e-8)
    within = [bits for bits in itertools.product(choices, repeat=len(sizes)) if used(bits) <= mean]
    assert loss(found) <= min(map(loss, within)) * (1 + 1e-6) + 1e-8


def test_of_blocks_that_are_alike_the_sensitive_ones_have_more_bits():
    errors = [[1.0, 0.25]] * 4
    assert qbert.choose_bits([1.0, 5.0, 2.0, 4.0], errors, [10] * 4, [2, 3], 2.5) == [2, 3, 2, 3]


def values_of(weight):
    return max(len(row.unique()) for row in weight)


def test_blocks_tables_and_head_have_their_bits_and_the_saved_model_answers_the_same(make_job, tmp_path):
    job = make_job(plan=even_plan(find_chains(make_job().predecessor), 4))
    options = qbert.Options(bits=3, choices=[2, 4], embedding_bits=3, head_bits=2, groups=100)
    outcome = qbert.compress(job, options)
    found, model = outcome.notes["bits"], outcome.successor
    assert sorted(found["blocks"]) == [2, 2, 4, 4]
    assert found["mean"] == 3
    assert len(found["sensitivity"]) == 4
    assert list(outcome.stages) == ["float", "sensitivity", "qbert"]
    for block, bits in zip(model.bert.encoder.layer, found["blocks"], strict=True):
        linear = [one.weight for one in block.modules() if isinstance(one, nn.Linear)]
        assert max(map(values_of, linear)) <= 2**bits - 1
        assert max(map(values_of, linear)) > 2**bits / 2
    tables = [one.weight for one in model.modules() if isinstance(one, nn.Embedding)]
    assert max(map(values_of, tables)) in range(4, 8)
    assert values_of(model.classifier.weight) <= 3
    assert values_of(model.bert.pooler.dense.weight) <= 3
    inputs = job.stage("x").batch_of([0, 1, 2], "cpu")
    save(model, tmp_path / "successor")
    assert torch.equal(load(tmp_path / "successor")(**inputs).logits, model(**inputs).logits)


def test_what_is_evaluated_in_training_is_what_is_saved(make_job):
    job = make_job(init="lower")
    inputs, seen = job.stage("x").batch_of([0, 1, 2], "cpu"), []

    def score(model):
        with torch.no_grad():
            seen.append(model.eval()(**inputs).logits)
        return {"score": float(len(seen))}

    outcome = qbert.compress(with_score(job, score), qbert.Options(bits=2, embedding_bits=4))
    torch.testing.assert_close(outcome.successor(**inputs).logits, seen[-1])  # products in training may round otherwise
    assert not torch.allclose(seen[-1], seen[-2])


def with_score(job, score):
    return replace(job, stage=lambda name: replace(job.stage(name), score=score))


@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_with_nothing_rounded_it_is_fine_tuning_or_distillation_to_the_bit(alpha, make_job):
    other = kd.Options(alpha=alpha, T=2.0) if alpha else finetune.Options()
    plain = (kd if alpha else finetune).compress(make_job(init="lower"), other).successor.state_dict()
    options = qbert.Options(bits=32, embedding_bits=32, head_bits=32, alpha=alpha)
    outcome = qbert.compress(make_job(init="lower"), options)
    ours = outcome.successor.state_dict()
    assert all(torch.equal(value, ours[name]) for name, value in plain.items())
    assert bits_remark(outcome.notes) == ""
    assert not hasattr(outcome.successor.config, "packed")


@pytest.mark.parametrize(("bits", "choices"), [(8, [2, 3, 4, 8]), (3, [3]), (2, [2, 3]), (32, [2, 3])])
def test_where_there_is_nothing_to_choose_no_sensitivity_is_computed(bits, choices, make_job):
    outcome = qbert.compress(make_job(init="lower"), qbert.Options(bits=bits, choices=choices))
    assert outcome.notes["bits"]["blocks"] == [bits, bits]
    assert list(outcome.stages) == ["float", "qbert"]


def test_the_record_says_that_it_is_smaller_and_not_faster():
    told = bits_remark({"bits": {"mean": 2.5, "embeddings": 4, "head": 8}})
    assert told.startswith("weights have 2.50 bits on average in blocks, 4 in embedding tables and 8 in the head's")
    assert told.endswith("but neither faster nor smaller in memory")


def test_a_mean_out_of_reach_and_slots_inside_blocks_are_refused(make_job):
    with pytest.raises(ConfigError, match=r"bits is 4, but a block's weights have 2 to 3 bits \(choices\)"):
        validate_config({"method": {"name": "qbert", "choices": [2, 3]}})
    job = make_job(plan=Plan((Slot("bert.encoder.layer.0.attention"),)))
    with pytest.raises(PlanError, match="method qbert works on whole blocks"):
        qbert.compress(job, qbert.Options())


def test_sensitivity_is_kept_so_that_a_run_that_goes_on_chooses_the_same(make_job):
    job = make_job()
    stage, model = job.stage("sensitivity"), job.predecessor
    groups = [[block.output.dense.weight] for block in model.bert.encoder.layer]
    amounts = {"examples": 12, "parts": 3, "iterations": 4}
    found = find_sensitivity(stage, model, groups, **amounts)
    assert len(found.values) == 4
    assert all(value > 0 for value in found.values)
    file = stage.folder / RESULT
    kept = json.loads(file.read_text())
    kept["notes"]["values"] = [4.0, 3.0, 2.0, 1.0]
    file.write_text(json.dumps(kept))
    assert find_sensitivity(stage, model, groups, **amounts).values == [4.0, 3.0, 2.0, 1.0]


def test_sensitivity_is_the_size_of_the_mean_and_the_spread_over_parts(make_job, monkeypatch):
    job = make_job()
    seen = []

    def eigenvalues(loss, groups, **settings):
        seen.append(float(loss.detach()))
        return [(1.0, -3.0)[len(seen) % 2], 5.0]

    monkeypatch.setattr("plankwise.training.curvature.top_eigenvalues", eigenvalues)
    groups = [list(block.parameters()) for block in job.predecessor.bert.encoder.layer[:2]]
    found = find_sensitivity(job.stage("s"), job.predecessor, groups, examples=10, parts=2, iterations=1)
    assert found.values == [1.0 + 2.0, 5.0 + 0.0]
    assert len(set(seen)) == 2
