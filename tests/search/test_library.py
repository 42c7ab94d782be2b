"""The library, what it costs, and the score of a candidate."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from plankwise.core.plan import Plan
from plankwise.evaluation.latency import Timed, measure_latency
from plankwise.evaluation.size import count_parameters
from plankwise.families import chains_of
from plankwise.models.plans import assemble, take_out
from plankwise.search import costs as costs_file
from plankwise.search.costs import find_batch, measure_costs
from plankwise.search.library import make_library
from plankwise.search.scores import Workbench, score_all


class Texts:
    """Batches of random tokens: some to solve on, one that chooses, and one that measures."""

    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        ids = [torch.randint(1, 20, (8, 6), generator=generator) for _ in range(6)]
        self.batches = [{"input_ids": one, "attention_mask": torch.ones_like(one)} for one in ids]

    def to_solve_on(self, tokens, model):
        return lambda: iter(self.batches[:4]), self.batches[4:5]

    def to_measure_by(self, model):
        return self.batches[5:]


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    sizes = {"vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2}
    config = BertConfig(**sizes, intermediate_size=24, max_position_embeddings=20, num_labels=3, initializer_range=0.4)
    return BertForSequenceClassification(config).eval()


@pytest.fixture(scope="module")
def library(model):
    return make_library(model, chains_of(model), longest=3, names=("layers", "thin"))


@pytest.fixture(scope="module")
def timed():
    def encode(texts, tokenizer=None):
        longest = max(len(text) for (text,) in texts)
        ids = torch.ones(len(texts), longest, dtype=torch.long)
        mask = torch.tensor([[1] * len(text) + [0] * (longest - len(text)) for (text,) in texts])
        return {"input_ids": ids, "attention_mask": mask}

    return Timed(
        [("a" * (3 + index % 5),) for index in range(20)], encode, lambda outputs: outputs["logits"].argmax(-1)
    )


@pytest.fixture(scope="module")
def costs(library, timed):
    return measure_costs(library, timed, batch_size=2, predictions=2)


def test_a_block_that_is_kept_is_a_candidate_and_all_of_them_cost_what_the_predecessor_does(library, costs, model):
    assert [one.blocks for one in library.kept] == [(0,), (1,), (2,), (3,)]
    assert costs.total_time(library.kept) == pytest.approx(1)
    assert costs.total_parameters(library.kept) == count_parameters(model)
    assert library.plan(library.kept) == Plan(())


def test_a_copy_of_a_block_costs_what_the_block_does_wherever_it_stands(library, costs):
    copies = [one for one in library.candidates if one.slot.part == "layers"]
    assert len(copies) == 5
    assert {costs.time(one) for one in copies} == {costs.time(library.kept[0])}


def test_parameters_of_a_mixed_plan_are_counted_exactly(library, costs, model):
    thin = next(one for one in library.candidates if one.slot.part == "thin" and one.slot.span == (0,))
    layers = next(one for one in library.candidates if one.slot.part == "layers" and one.slot.span == (1, 2))
    chosen = [thin, layers, library.kept[3]]
    plan = library.plan(chosen)
    import copy

    successor = take_out(assemble(copy.deepcopy(model), plan, Workbench(model, Texts(), 0).build(plan)))
    assert count_parameters(successor) == costs.total_parameters(chosen)
    assert library.find(plan) == chosen


def test_noise_makes_no_candidate_faster_than_its_multiply_adds_allow(library, timed, monkeypatch):
    def lucky(*given, **options):
        speed = measure_latency(*given, **options)
        faster = {
            name: {size: replace(one, median=50.0, low=0.1) for size, one in found.items()}
            for name, found in speed.speedups.items()
        }
        return replace(speed, speedups=faster)

    monkeypatch.setattr(costs_file, "measure_latency", lucky)
    found = measure_costs(library, timed, batch_size=2, predictions=2)
    first = library.kept[0].kind
    for kind, ratio in found.ratios.items():
        assert ratio == pytest.approx(found.multiply_adds[kind] / found.multiply_adds[first])
    assert len(found.ratios) == 4


def test_costs_are_the_same_once_they_were_written(costs):
    again = costs_file.Costs(**json.loads(json.dumps(costs.to_json())))
    assert again.to_json() == json.loads(json.dumps(costs.to_json()))


def test_the_timed_batch_is_as_long_as_most(timed):
    lengths = [max(len(one) for (one,) in timed.texts[start : start + 4]) for start in range(0, 20, 4)]
    batch = find_batch(timed, 4)
    assert max(len(text) for (text,) in batch) == int(np.median(lengths))
    assert len(batch) == 4
    assert len(find_batch(timed, 50)) == 50


def test_states_that_are_kept_for_all_candidates_of_a_span_change_no_score(library, model, tmp_path):
    some = [one for one in library.candidates if one.slot.span == (1, 2)]
    bench = Workbench(model, Texts(), 0)
    together = score_all(some, bench, 100, tmp_path / "together")
    alone = [score_all([one], bench, 100, tmp_path / str(place))[0] for place, one in enumerate(some)]
    assert [one.effect for one in together] == [one.effect for one in alone]
    assert len({one.effect for one in together}) == len(some) > 2
    assert all(one.maps > 0 for one in together)
    assert not list((tmp_path / "together").glob(".states*"))


def test_every_part_that_is_offered_starts_nearer_to_its_block_than_nothing_does(model, tmp_path):
    offered = make_library(model, chains_of(model), longest=1)
    some = [one for one in offered.candidates if one.slot.span == (1,) and not one.is_kept]
    scores = dict(
        zip((one.label for one in some), score_all(some, Workbench(model, Texts(), 0), 100, tmp_path), strict=True)
    )
    nothing = scores.pop("identity").effect
    assert {"linear", "narrow (width 0.25)", "thin (ffn 0.5)"} <= scores.keys()
    assert all(score.effect < nothing for score in scores.values())


def test_a_candidate_that_fails_is_left_out_with_its_reason(library, model, tmp_path, monkeypatch):
    from plankwise.errors import PlanError

    bench = Workbench(model, Texts(), 0)

    def fail(plan, tokens, folder):
        raise PlanError("it does not fit")

    monkeypatch.setattr(bench, "solve", fail)
    (found,) = score_all([library.candidates[-1]], bench, 100, tmp_path)
    assert (found.effect, found.failure) == (None, "it does not fit")


def test_options_that_do_not_fit_a_family_are_left_out_and_told(monkeypatch, model):
    told = []
    offered = [("layers", {}), ("thin", {"heads": 7})]
    monkeypatch.setattr("plankwise.search.library.parts.candidates", lambda: offered)
    found = make_library(model, chains_of(model), longest=2, tell=told.append)
    assert {one.slot.part for one in found.candidates} == {"kept", "layers"}
    assert len(told) == 1
    assert told[0].startswith("thin (heads 7) is left out where it does not fit: plan.options.heads is 7")
