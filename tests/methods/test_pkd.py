"""Patient distillation: which layers are matched, at which token, and the whole loss written out."""

import copy

import pytest
import torch
from torch.nn import functional
from transformers import DataCollatorWithPadding

from plankwise.core.chain import find_chains
from plankwise.core.plan import even_plan, listed_plan
from plankwise.core.taps import tapped
from plankwise.errors import PlanError
from plankwise.methods import pkd
from plankwise.methods.finetune import truncate


class Layers(torch.nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.layer = torch.nn.ModuleList(torch.nn.GRU(2, 2) for _ in range(count))


def matched(count, layers, successors=None, spans=None):
    model = Layers(count)
    chains = find_chains(model)
    plan = even_plan(chains, successors) if spans is None else listed_plan(chains, spans)
    theirs, ours = pkd.match_layers(model, plan, layers)
    return [int(path.split(".")[1]) for path in theirs], [int(path.split(".")[1]) for path in ours]


def test_of_12_layers_skip_matches_every_second_and_last_the_seventh_to_the_eleventh():
    assert matched(12, "skip", 6) == ([1, 3, 5, 7, 9], [0, 1, 2, 3, 4])
    assert matched(12, "last", 6) == ([6, 7, 8, 9, 10], [0, 1, 2, 3, 4])


def test_of_12_layers_in_3_successors_skip_matches_the_ends_of_the_spans():
    assert matched(12, "skip", 3) == ([3, 7], [0, 1])
    assert matched(12, "last", 3) == ([9, 10], [0, 1])


def test_uneven_spans_and_blocks_left_alone_are_matched_too():
    assert matched(7, "skip", spans=[[1, 2, 3], [4, 5]]) == ([0, 3, 5], [0, 1, 2])


def test_a_student_of_one_layer_has_nothing_to_match():
    with pytest.raises(PlanError, match="at least 2 successors in a chain"):
        matched(4, "skip", 1)


def test_the_token_that_stands_for_a_text_is_cls_wherever_it_is_or_the_last_that_is_not_padding():
    ids = torch.tensor([[2, 7, 8, 0], [2, 7, 0, 0]])
    mask = torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0]])
    assert pkd.summary_positions(ids, mask, cls_id=2).tolist() == [0, 0]
    assert pkd.summary_positions(ids.flip(1), mask.flip(1), cls_id=2).tolist() == [3, 3]
    assert pkd.summary_positions(ids, mask, cls_id=None).tolist() == [2, 1]
    assert pkd.summary_positions(ids, None, cls_id=9).tolist() == [3, 3]


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("layers", ["skip", "last"])
def test_the_loss_is_the_sum_of_its_three_terms(make_job, layers, normalise):
    """On 4 layers to 2; the states are read by another way than the method's: transformers' own hidden states."""
    job = make_job()
    options = pkd.Options(alpha=0.3, beta=7.0, T=2.0, layers=layers, normalise=normalise)
    paths, own_paths = pkd.match_layers(job.predecessor, job.plan, layers)
    teacher, stage, rows = copy.deepcopy(job.predecessor), job.stage("pkd"), [5, 0, 17]
    with tapped(teacher, paths) as states:
        targets = stage.targets(teacher, pkd.reading(states, paths, 2))
    student = truncate(job.start())
    batch = DataCollatorWithPadding(stage.tokenizer)([stage.train.dataset[row] for row in rows])
    with tapped(student, own_paths) as states:
        loss = pkd.patient_loss(states, own_paths, targets, 2, options)(student, dict(batch), torch.tensor(rows))

    with torch.no_grad():
        theirs = teacher(**batch, output_hidden_states=True)
        ours = student(**batch, output_hidden_states=True)
    matched = 2 if layers == "skip" else 3  # hidden_states[k] is the state after k layers
    u, v = theirs.hidden_states[matched][:, 0], ours.hidden_states[1][:, 0]
    if normalise:
        u, v = u / u.norm(dim=1, keepdim=True), v / v.norm(dim=1, keepdim=True)
    p, q = (theirs.logits / 2).softmax(1), (ours.logits / 2).softmax(1)
    kd = 4 * (p * (p.log() - q.log())).sum() / 3
    ce = functional.cross_entropy(ours.logits, batch["labels"])
    expected = 0.7 * ce + 0.3 * kd + 7 * ((u - v) ** 2).sum() / (3 * 16)
    torch.testing.assert_close(loss, expected)
