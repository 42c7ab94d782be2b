"""A chain of ONNX graphs gives what the model in torch gives, text by text, for any number of texts and tokens."""

import json

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from plankwise.errors import PlanError, RunError
from plankwise.models.exit_graphs import INDEX, GraphChain, write_graphs
from plankwise.models.planned import with_exits

NAMES = ["input_ids", "attention_mask", "token_type_ids"]


def make_bert():
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 64}
    model = BertForSequenceClassification(BertConfig(**sizes, vocab_size=60, num_labels=3)).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.data.normal_(0, 0.15)
    return model


def make_batch(texts, tokens):
    generator = torch.Generator().manual_seed(texts)
    ids = torch.randint(5, 60, (texts, tokens), generator=generator)
    mask = torch.ones_like(ids)
    for row in range(texts):
        mask[row, max(1, tokens - row % 5) :] = 0
    return {"input_ids": ids.masked_fill(mask == 0, 0), "attention_mask": mask, "token_type_ids": ids % 2}


@pytest.fixture(scope="module")
def model():
    model = with_exits(make_bert(), patience=1)
    for head in model.exit_heads:
        head.weight.data.normal_()
    return model


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    return write_graphs(model, NAMES, tmp_path_factory.mktemp("graphs") / "chain")


@torch.no_grad()
def test_the_chain_gives_the_models_answers_and_exits_for_any_number_of_texts_and_tokens(model, folder):
    chain, seen = GraphChain(folder), set()
    for texts, tokens in [(32, 9), (1, 5), (2, 2), (5, 12)]:
        batch = make_batch(texts, tokens)
        expected = model(**batch)
        logits, exits = chain({name: value.numpy() for name, value in batch.items()})
        assert exits.tolist() == expected.exits.tolist()
        assert np.abs(logits - expected.logits.numpy()).max() < 1e-4
        seen |= set(exits.tolist())
    assert seen == {2, 3}  # some left early, some did not


@torch.no_grad()
def test_with_a_patience_of_all_blocks_every_text_runs_to_the_last_graph(model, folder):
    chain, batch = GraphChain(folder), make_batch(6, 7)
    chain.patience = 3
    logits, exits = chain({name: value.numpy() for name, value in batch.items()})
    assert exits.tolist() == [3] * 6
    assert np.abs(logits - model.logits_by_block(**batch)[:, -1].numpy()).max() < 1e-4


def test_the_folder_says_what_the_graphs_take(folder):
    index = json.loads((folder / INDEX).read_text("utf-8"))
    assert index["inputs"] == NAMES
    assert index["graphs"] == ["block-1.onnx", "block-2.onnx", "block-3.onnx"]
    assert (index["patience"], index["tolerance"]) == (1, 0.1)


def test_what_is_no_chain_is_refused(tmp_path):
    with pytest.raises(PlanError, match="has no early exits"):
        write_graphs(make_bert(), NAMES, tmp_path / "chain")
    assert not (tmp_path / "chain").exists()
    with pytest.raises(RunError, match="holds no chain of graphs"):
        GraphChain(tmp_path)
