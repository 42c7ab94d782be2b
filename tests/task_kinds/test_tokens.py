"""Taggers beside others: what a model with a tokenizer of its own is scored by."""

import copy

import numpy as np
import torch
from transformers import BertTokenizer

from plankwise.runtimes.torch import TorchPredictor


def test_a_tagger_with_other_ids_for_the_same_words_tags_them_alike(opened, tmp_path):
    one = opened("tokens")
    ids = one.task.tokenizer.get_vocab()
    names = sorted(ids, key=ids.__getitem__)
    order = [*names[:5], *reversed(names[5:])]  # special tokens come first
    (tmp_path / "vocab.txt").write_text("\n".join(order), "utf-8")
    model = copy.deepcopy(one.loaded.model)
    with torch.no_grad():
        table = model.get_input_embeddings().weight
        table.copy_(table[[ids[name] for name in order]].clone())
    other = TorchPredictor(model)
    other.tokenizer = BertTokenizer(vocab=str(tmp_path / "vocab.txt"), model_max_length=64)
    own, usual = one.task.held_out_for(other.tokenizer), one.task.held_out_for(None)
    assert usual is one.task.held_out
    assert own.dataset["input_ids"][:] != usual.dataset["input_ids"][:]
    found, wanted = (one.task.outputs(predictor)["dev"] for predictor in (other, TorchPredictor(one.loaded.model)))
    assert np.array_equal(found, wanted)
