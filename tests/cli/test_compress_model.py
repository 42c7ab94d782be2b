"""Predecessors that cannot be used: one sentence, exit code 2, nothing written."""

import shutil

import pytest
from transformers import AlbertConfig, AlbertModel


@pytest.fixture
def broken(tmp_path, tiny_model_folder):
    """A copy of the encoder, to be damaged."""
    return shutil.copytree(tiny_model_folder, tmp_path / "broken")


def test_a_missing_folder_is_refused(refusal, tmp_path):
    sentence = refusal(f"predecessor.path={tmp_path}/none")
    assert sentence == f"model folder {tmp_path}/none does not exist; give an existing folder or a hub name"


@pytest.mark.parametrize("path", ["nothing-here", "nobody/nothing-here"])
def test_a_name_that_cannot_be_fetched_is_refused(refusal, path):
    sentence = refusal(f"predecessor.path={path}")
    assert sentence.startswith(f"no model could be loaded from '{path}' (")
    assert sentence.endswith("give a folder that save_pretrained wrote, or a hub name that this machine can reach")


def test_a_folder_without_a_config_is_refused(refusal, broken):
    (broken / "config.json").unlink()
    assert f"{broken} is not a model's folder: it has no config.json" in refusal(f"predecessor.path={broken}")


@pytest.mark.parametrize(("content", "reason"), [("{nope", "config.json' is not a valid JSON"), ("{}", "`model_type`")])
def test_a_damaged_config_is_refused(refusal, broken, content, reason):
    (broken / "config.json").write_text(content)
    assert reason in refusal(f"predecessor.path={broken}")


def test_missing_and_truncated_weights_are_refused(refusal, broken):
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert "file not fully covered" in refusal(f"predecessor.path={broken}")
    weights.unlink()
    assert "no file named model.safetensors" in refusal(f"predecessor.path={broken}")


def test_a_model_without_a_chain_is_refused(refusal, tmp_path, tiny):
    sizes = {"embedding_size": 16, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 32}
    model = AlbertModel(AlbertConfig(**sizes, vocab_size=len(tiny.words), num_hidden_layers=4))
    model.save_pretrained(tmp_path / "albert")
    tiny.save_tokenizer(tmp_path / "albert")
    sentence = refusal(f"predecessor.path={tmp_path}/albert")
    assert "one shared block 4 times, so it has no chain" in sentence
    assert "start from a BERT or RoBERTa predecessor" in sentence


def test_names_in_another_order_are_refused_with_the_order_to_set(refusal, tmp_path, tiny):
    folder = tiny.save_bert(tmp_path / "swapped", names=("positive", "negative"))
    assert "set task.labels = ['positive', 'negative'] so that they agree" in refusal(f"predecessor.path={folder}")


def test_a_given_predecessor_no_better_than_the_majority_is_refused(refusal, tmp_path, tiny, table_file):
    folder = tiny.save_bert(tmp_path / "constant", names=("negative", "positive"), initializer_range=0.0)
    sentence = refusal(f"predecessor.path={folder}")
    assert "scores 0.5000 on dev, no better than always answering the most frequent class (0.5000)" in sentence
    assert sentence.endswith(
        "train it on the task with predecessor.finetune = true, or give one that has learnt the task, "
        'or go on anyway with evaluation.ignore_guards=["majority"]'
    )
