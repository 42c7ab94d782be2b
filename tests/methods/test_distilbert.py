"""DistilBERT: its three terms written out, the highest logits alone, what it degenerates to, and masked tokens of text."""

import pytest
import torch
from torch.nn import functional
from transformers import BertConfig, BertForMaskedLM, DataCollatorWithPadding

from plankwise.core.chain import find_chains
from plankwise.core.plan import Plan, Slot, even_plan
from plankwise.errors import PlanError
from plankwise.evaluation.perplexity import language_loss
from plankwise.methods import distilbert, finetune
from plankwise.methods._matching import Teacher
from plankwise.methods.distilbert import Options, triple_loss
from plankwise.methods.finetune import truncate
from plankwise.training.losses import keep_top, top_loss

LAST = ("bert.encoder.layer.3", "bert.encoder.layer.1")


def mean_cosine(theirs, ours, mask):
    cosines = (theirs * ours).sum(-1) / theirs.norm(dim=-1) / ours.norm(dim=-1)
    return sum((1 - cosines[row, : int(n)]).mean() for row, n in enumerate(mask.sum(1))) / len(mask)


def test_on_labels_the_loss_is_the_sum_of_its_three_terms(make_job):
    job = make_job()
    stage, teacher = job.stage("distilbert"), Teacher(job.predecessor)
    student = truncate(job.start()).eval()
    batch = dict(DataCollatorWithPadding(stage.tokenizer)([stage.train.dataset[row] for row in (5, 0, 17)]))
    with triple_loss(None, student, teacher, LAST, Options(T=3.0)) as loss:
        found = loss(student, batch, torch.arange(3))
    with torch.no_grad():
        theirs, ours = (model(**batch, output_hidden_states=True) for model in (teacher.model, student))
    p, q = (theirs.logits / 3).softmax(1), (ours.logits / 3).softmax(1)
    expected = 2 * functional.cross_entropy(ours.logits, batch["labels"]) + 5 * 9 * (p * (p / q).log()).sum() / 3
    expected += mean_cosine(theirs.hidden_states[-1], ours.hidden_states[-1], batch["attention_mask"])
    torch.testing.assert_close(found, expected)


@pytest.fixture
def masked(make_job):
    """A masked language model of 4 layers, its truncation to 2, and a batch with labels for some tokens."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32, "num_hidden_layers": 4}
    model = BertForMaskedLM(BertConfig(vocab_size=50, **sizes, initializer_range=0.3)).eval()
    job = make_job(model, even_plan(find_chains(model), 2), init="lower")
    teacher, student = Teacher(job.predecessor), truncate(job.start()).eval()
    ids = torch.arange(5, 21).view(2, 8)
    mask = torch.ones_like(ids)
    mask[1, 5:] = 0
    labels = torch.full_like(ids, -100)
    labels[0, [1, 3]], labels[1, 2] = ids[0, [1, 3]], ids[1, 2]
    return teacher, student, {"input_ids": ids, "attention_mask": mask, "labels": labels}


def test_on_text_logits_are_compared_for_the_tokens_that_are_predicted(masked):
    teacher, student, batch = masked
    with triple_loss(language_loss("mlm"), student, teacher, LAST, Options(top="all")) as loss:
        found = loss(student, batch, torch.arange(2))
    chosen = batch["labels"] != -100
    with torch.no_grad():
        theirs, ours = (model(**batch, output_hidden_states=True) for model in (teacher.model, student))
    p, q = ((one.logits[chosen] / 2).softmax(-1) for one in (theirs, ours))
    expected = 2 * ours.loss + 5 * 4 * (p * (p / q).log()).sum() / 3
    expected += mean_cosine(theirs.hidden_states[-1], ours.hidden_states[-1], batch["attention_mask"])
    torch.testing.assert_close(found, expected)


def test_of_the_highest_logits_the_others_are_one_answer_and_all_of_them_are_plain_distillation():
    generator = torch.Generator().manual_seed(0)
    logits, target = 3 * torch.randn(2, 4, 10, generator=generator)
    p, q = (target / 2).softmax(-1), (logits / 2).softmax(-1)
    whole = 4 * (p * (p / q).log()).sum() / 4
    expected = 0.0
    for one, other in zip(p, q, strict=True):
        places = one.argsort(descending=True)[:3]
        one, other = (torch.cat([row[places], 1 - row[places].sum(0, keepdim=True)]) for row in (one, other))
        expected += 4 * (one * (one / other).log()).sum() / 4
    torch.testing.assert_close(top_loss(logits, keep_top(target, 3, 2.0), 2.0), expected)
    assert expected < whole
    for count in (None, 10, 99):
        torch.testing.assert_close(top_loss(logits, keep_top(target, count, 2.0), 2.0), whole)
    torch.testing.assert_close(top_loss(logits, keep_top(target, 9, 2.0), 2.0), whole)  # the rest is one answer, too


def test_only_the_kept_logits_of_the_teacher_stay():
    kept = keep_top(torch.randn(7, 1000), 4, 1.0)
    assert kept.values.shape == kept.places.shape == (7, 4)


def test_with_the_task_alone_it_is_fine_tuning_to_the_bit(make_job):
    plain = finetune.compress(make_job(init="lower"), finetune.Options()).successor.state_dict()
    options = Options(labels=1, logits=0, cosine=0)
    ours = distilbert.compress(make_job(init="lower"), options).successor.state_dict()
    assert all(torch.equal(value, ours[name]) for name, value in plain.items())


def test_slots_inside_blocks_are_refused_unless_no_state_is_compared(make_job):
    plan = Plan((Slot("bert.encoder.layer.0.attention"),))
    with pytest.raises(PlanError, match=r"works on whole blocks, .* or leave method\.cosine at 0"):
        distilbert.compress(make_job(plan=plan), Options())
    assert distilbert.compress(make_job(plan=plan, init="lower"), Options(cosine=0)).steps == 6
