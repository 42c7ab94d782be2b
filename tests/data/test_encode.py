import pyarrow as pa
import pytest
from transformers import AutoTokenizer

from plankwise.data import encode as module
from plankwise.data.encode import encode


@pytest.fixture
def tokenizer(tiny_model_folder):
    return AutoTokenizer.from_pretrained(tiny_model_folder)


def test_texts_are_cut_to_the_length_counted_and_not_padded(tokenizer):
    table = pa.table({"text": ["film", "the film was very dull and weak"], "label": [0, 1]})
    encoded = encode(table, tokenizer, max_length=5)
    assert encoded.lengths == [3, 5]
    assert encoded.num_cut == 1
    assert [len(ids) for ids in encoded.dataset["input_ids"]] == [3, 5]
    assert encoded.dataset["labels"][:] == [0, 1]
    assert encode(table, tokenizer, max_length=9).num_cut == 0


def test_pairs_are_joined_as_the_tokenizer_joins_them(tokenizer):
    table = pa.table({"text": ["the film"], "text_pair": ["is dull"]})
    encoded = encode(table, tokenizer, max_length=16)
    assert encoded.dataset["input_ids"][0] == tokenizer("the film", "is dull")["input_ids"]
    assert set(encoded.dataset["token_type_ids"][0]) == {0, 1}
    assert "labels" not in encoded.dataset.column_names


def test_chunks_make_no_difference(tokenizer, tiny, monkeypatch):
    table = pa.table({"text": [text for text, _ in tiny.make_rows(11)]})
    whole = encode(table, tokenizer, max_length=8)
    monkeypatch.setattr(module, "CHUNK", 3)
    parts = encode(table, tokenizer, max_length=8)
    assert parts.lengths == whole.lengths
    assert parts.dataset["input_ids"][:] == whole.dataset["input_ids"][:]
