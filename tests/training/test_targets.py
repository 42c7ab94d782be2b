"""What the frozen predecessor says of the examples: computed once, in eval mode, in memory or on disk."""

from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from plankwise.context import Context
from plankwise.training import targets as module
from plankwise.training.targets import KeptTargets, Targets, compute_targets, read_logits

CONTEXT = Context(Console(quiet=True), Path())


@pytest.fixture
def dropping_bert(bert):
    """In training mode, where dropout would make every pass different."""
    return bert.train()


def test_each_example_has_what_the_model_says_of_it_alone(dropping_bert, texts, tmp_path):
    targets = compute_targets(dropping_bert, texts.train, texts.tokenizer, read_logits, tmp_path, CONTEXT)
    rows = torch.tensor([7, 0, 11])
    with torch.no_grad():
        alone = [
            dropping_bert.eval()(torch.tensor([texts.train.dataset[row]["input_ids"]])).logits[0] for row in [7, 0, 11]
        ]
    torch.testing.assert_close(targets.take("logits", rows), torch.stack(alone))


def test_more_than_memory_allows_is_kept_on_disk_and_is_the_same(bert, texts, tmp_path, monkeypatch):
    in_memory = compute_targets(bert, texts.train, texts.tokenizer, read_logits, tmp_path, CONTEXT)
    monkeypatch.setattr(module, "MEMORY_MB", 0)
    on_disk = compute_targets(bert, texts.train, texts.tokenizer, read_logits, tmp_path, CONTEXT)
    rows = torch.arange(len(texts.train.lengths))
    assert torch.equal(in_memory.take("logits", rows), on_disk.take("logits", rows))
    assert {path.name for path in tmp_path.iterdir()} == {"vocab.txt", "logits.npy"}
    assert (in_memory.to_json(1)["kept"], on_disk.to_json(1)["kept"]) == ("memory", "disk")


def test_the_record_says_what_keeping_them_saved():
    targets = Targets({"logits": np.zeros((2**18, 2), np.float32)}, seconds=3.0, on_disk=False)
    said = targets.to_json(passes=4.5)
    assert (said["passes_saved"], said["seconds_saved"], said["mb"], said["names"]) == (4, 12.0, 2.0, ["logits"])
    assert targets.to_json(passes=0.5)["passes_saved"] == 0


def test_targets_may_have_a_row_for_each_token_and_are_cut_to_the_batch(bert, texts, tmp_path):
    def read_states(model, inputs):
        return {"states": model.bert(**inputs).last_hidden_state}

    targets = compute_targets(bert, texts.train, texts.tokenizer, read_states, tmp_path, CONTEXT)
    longest = int(texts.train.lengths.max())
    assert targets.arrays["states"].shape == (24, longest, 16)
    row = int(texts.train.lengths.argmin())
    with torch.no_grad():
        alone = bert.eval().bert(torch.tensor([texts.train.dataset[row]["input_ids"]])).last_hidden_state
    found = targets.take("states", torch.tensor([row]), like=alone)
    torch.testing.assert_close(found, alone)


def test_the_last_targets_are_kept_for_the_same_examples_and_key(texts):
    kept, computed = KeptTargets(), []

    def get(key, train=texts.train, *, on_disk=False):
        def compute():
            computed.append(key)
            return Targets({}, 0.0, on_disk=on_disk)

        return kept.get(train, key, compute)

    first = get("a")
    assert get("a") is first
    get("b", on_disk=True)
    assert get("a") is first
    assert get("a", texts.train.take(range(2))) is not first
    assert get("a") is not first  # others were asked for since
    get("b")
    assert computed == ["a", "b", "a", "a", "b"]
