"""The benchmark of a whole run: both procedures learn the same from the same step, and multiply-adds are counted right."""

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from datasets import Dataset
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

import plankwise
from plankwise.training.first_token import first_token_only

FOLDER = Path(__file__).parent.parent / "benchmarks"
NUM_STEPS = 6


@pytest.fixture(scope="module")
def cost():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        spec = importlib.util.spec_from_file_location("benchmark_training_cost", FOLDER / "training_cost.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module


@pytest.fixture
def work(cost, tmp_path):
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 64, "num_hidden_layers": 6, "num_attention_heads": 2}
    without = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = BertForSequenceClassification(BertConfig(vocab_size=50, **sizes, **without))
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(str, range(45))]))
    lengths = np.arange(32 * NUM_STEPS) % 7 + 3
    rows = [torch.randint(5, 50, (length,)).tolist() for length in lengths]
    dataset = Dataset.from_dict({"input_ids": rows, "labels": [row[0] % 2 for row in rows]})
    task = SimpleNamespace(train=SimpleNamespace(dataset=dataset, lengths=lengths))
    return cost.Work(BertTokenizer(vocab=str(vocabulary)), task, model, NUM_STEPS, seed=0)


def gradients(modules):
    return [
        {name: None if p.grad is None else p.grad.clone() for name, p in module.named_parameters()}
        for module in modules
    ]


def shortened(work, model):
    """Inside, the last block computes the first token alone, as it does while a stage trains."""
    few = work.tokenizer.pad({"input_ids": work.task.train.dataset[:4]["input_ids"]}, return_tensors="pt")
    return first_token_only(model, few)


def test_both_procedures_give_the_successors_the_same_gradients_step_by_step(work, monkeypatch):
    other = work.published()
    ship = plankwise.hybrid(work.predecessor, schedule=plankwise.Linear(), seed=0)
    ship.begin(NUM_STEPS)
    ship.train()
    places = [ship.get_submodule(slot.places[0]) for slot in ship.plan.slots]
    theirs = []
    clip = nn.utils.clip_grad_norm_

    def look(parameters, norm):
        theirs.append(gradients([module.successor for module in other.modules]))
        other.model.zero_grad()  # nothing is learnt, so that both stay at the same weights
        return clip(parameters, norm)

    monkeypatch.setattr(nn.utils, "clip_grad_norm_", look)
    masks = set()
    for step in range(NUM_STEPS):
        other.take(step)
        ship.set_step(step)
        masks.add(ship.mask)
        rows = other.rows[step * 32 : step * 32 + 32].tolist()
        columns = dict(work.task.train.dataset[rows])
        labels = torch.tensor(columns.pop("labels"))
        ship.zero_grad()
        with shortened(work, ship) as shorter:
            assert shorter
            ship(**work.tokenizer.pad(columns, return_tensors="pt"), labels=labels).loss.backward()
        for replaced, ours, published in zip(
            ship.mask, gradients([place.successor for place in places]), theirs[-1], strict=True
        ):
            if replaced:
                for name, gradient in published.items():
                    assert torch.allclose(ours[name], gradient, atol=1e-6), (step, name)
            else:
                assert all(gradient is None for gradient in ours.values())
    assert len(masks) > 2


def test_the_published_procedure_changes_the_successors_alone(work):
    other = work.published()
    trained = {
        f"bert.encoder.layer.{i}.successor.{n}"
        for i, m in enumerate(other.modules)
        for n, _ in m.successor.named_parameters()
    }
    before = {name: p.detach().clone() for name, p in other.model.named_parameters()}
    for step in range(NUM_STEPS):
        other.take(step)
    changed = {name for name, p in other.model.named_parameters() if not torch.equal(p, before[name])}
    assert changed
    assert changed <= trained


def test_multiply_adds_are_those_that_torch_counts(cost, work):
    ship = plankwise.hybrid(work.predecessor, schedule=plankwise.Linear(), seed=0)
    ship.begin(NUM_STEPS)
    ship.train()
    expected = []
    sampler = cost.LengthSampler(work.task.train.lengths, cost.BATCH_SIZE, 0)
    order = list(sampler)
    with shortened(work, ship), sdpa_kernel(SDPBackend.MATH):
        for step in range(NUM_STEPS):
            ship.set_step(step)
            if not any(ship.mask):
                expected.append(0)
                continue
            columns = dict(work.task.train.dataset[order[step * 32 : step * 32 + 32]])
            labels = torch.tensor(columns.pop("labels"))
            batch = work.tokenizer.pad(columns, return_tensors="pt")
            with FlopCounterMode(display=False) as counter:
                ship(**batch, labels=labels).loss.backward()
            expected.append(counter.get_total_flops() // 2)
    assert cost.count_multiply_adds(work, ship) == pytest.approx(expected, rel=0.05)
