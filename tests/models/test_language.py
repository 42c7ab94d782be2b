import pytest
import torch
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    RobertaConfig,
    RobertaModel,
)

from plankwise.errors import ConfigError
from plankwise.families import head_of
from plankwise.models.language import load_language_model
from plankwise.models.loading import Loader

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


@pytest.fixture
def load(tiny_model_folder):
    tokenizer = AutoTokenizer.from_pretrained(tiny_model_folder)

    def load_it(path, objective="mlm"):
        loaded = load_language_model(Loader(), str(path), objective, tokenizer=tokenizer)
        return loaded.model, list(loaded.new)

    return load_it


def test_an_encoder_without_a_head_gets_one_that_is_tied_to_its_embeddings(tiny_model_folder, load):
    model, new = load(tiny_model_folder)
    assert new
    assert all(name.startswith("cls.") for name in new)
    assert model.cls.predictions.decoder.weight is model.bert.embeddings.word_embeddings.weight
    assert head_of(model) == {name for name in head_of(model) if name.startswith("cls.")} != set()
    assert "cls.predictions.decoder.weight" not in head_of(model)


def test_a_head_that_comes_with_the_model_is_kept(tmp_path, tiny, load):
    torch.manual_seed(0)
    given = BertForMaskedLM(BertConfig(**SIZES, vocab_size=len(tiny.words)))
    given.save_pretrained(tmp_path / "model")
    model, new = load(tmp_path / "model")
    assert new == []
    assert torch.equal(model.cls.predictions.transform.dense.weight, given.cls.predictions.transform.dense.weight)


def test_bert_can_predict_pairs_too(tiny_model_folder, load):
    model, new = load(tiny_model_folder, "mlm+sop")
    assert "cls.seq_relationship.weight" in new
    assert type(model).__name__ == "BertForPreTraining"


def test_what_reads_both_ways_is_no_causal_model(tiny_model_folder, load):
    with pytest.raises(ConfigError, match=r"reads texts both ways.*use 'mlm'"):
        load(tiny_model_folder, "clm")


def test_a_decoder_is_a_causal_model_and_no_masked_one(tmp_path, load):
    GPT2LMHeadModel(GPT2Config(vocab_size=25, n_embd=16, n_layer=2, n_head=2)).save_pretrained(tmp_path / "gpt2")
    _model, new = load(tmp_path / "gpt2", "clm")
    assert new == []
    with pytest.raises(ConfigError, match=r"'mlm', but transformers has no such head for a gpt2 .*use 'clm'"):
        load(tmp_path / "gpt2")


def test_a_family_without_a_head_for_pairs_is_refused(tmp_path, load):
    RobertaModel(RobertaConfig(**SIZES, vocab_size=25)).save_pretrained(tmp_path / "roberta")
    with pytest.raises(ConfigError, match=r"a roberta .* has no head for pairs of texts.*use 'mlm'"):
        load(tmp_path / "roberta", "mlm+nsp")


def test_a_tokenizer_without_a_mask_token_is_refused(tiny_model_folder):
    tokenizer = AutoTokenizer.from_pretrained(tiny_model_folder)
    tokenizer.mask_token = None
    with pytest.raises(ConfigError, match="has no mask token"):
        load_language_model(Loader(), str(tiny_model_folder), "mlm", tokenizer=tokenizer)
