import pyarrow as pa
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoTokenizer, DataCollatorWithPadding, PreTrainedTokenizer, PreTrainedTokenizerFast

from plankwise.data import encode as module
from plankwise.data.batch import examples_of, plain_collator
from plankwise.data.encode import encode
from plankwise.errors import RunError

WORDS = ["<pad>", "<unk>", "<cls>", "the", "film", "plot", "is", "dull", "fine"]
TEXTS = ["the film is fine", "dull", "the plot is dull the film is dull", "", "film plot"]
PAIRS = ["plot", "the film is dull is fine", "", "fine", "film is the plot"]


@pytest.fixture
def tokenizer(tiny_model_folder):
    return AutoTokenizer.from_pretrained(tiny_model_folder)


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """Every table is large enough for the cache, which is a folder of its own."""
    monkeypatch.setattr(module, "CACHED_ROWS", 1)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path)
    return tmp_path / "plankwise"


def make_fast(kind=PreTrainedTokenizerFast, **more):
    """Special tokens at the end, of a type of their own; texts are cut at their beginning."""
    backend = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.TemplateProcessing(
        single="$A:0 <cls>:2", pair="$A:0 $B:1 <cls>:2", special_tokens=[("<cls>", 2)]
    )
    return kind(tokenizer_object=backend, pad_token="<pad>", unk_token="<unk>", pad_token_type_id=3, **more)


class Masking(PreTrainedTokenizerFast):
    """Hides every first token, so its mask is not what padding would make."""

    def _encode_plus(self, *args, **kwargs):
        encoding = super()._encode_plus(*args, **kwargs)
        encoding["attention_mask"] = [[0, *mask[1:]] for mask in encoding["attention_mask"]]
        return encoding


class Slow(PreTrainedTokenizer):
    vocab_size = len(WORDS)

    def get_vocab(self):
        return {word: index for index, word in enumerate(WORDS)}

    def _tokenize(self, text):
        return text.split()

    def _convert_token_to_id(self, token):
        return WORDS.index(token)

    def _convert_id_to_token(self, index):
        return WORDS[index]


TYPES = ["input_ids", "token_type_ids", "attention_mask"]
TOKENIZERS = {
    "bert": lambda bert: bert,
    "without types": lambda bert: make_fast(model_input_names=["input_ids", "attention_mask"]),
    "types of special tokens": lambda bert: make_fast(model_input_names=TYPES, truncation_side="left"),
    "left padding, no mask": lambda bert: make_fast(model_input_names=["input_ids"], padding_side="left"),
    "masks of its own": lambda bert: make_fast(Masking, model_input_names=TYPES),
    "slow": lambda bert: Slow(pad_token="<pad>", unk_token="<unk>"),
}


@pytest.mark.parametrize("columns", [["text"], ["text", "text_pair"]], ids=["single", "pair"])
@pytest.mark.parametrize("make", TOKENIZERS.values(), ids=TOKENIZERS)
@pytest.mark.parametrize("cached", [1, 1000], ids=["cached", "in memory"])
@pytest.mark.parametrize("many", [1, 1000], ids=["by words", "by texts"])
def test_batches_are_those_of_the_tokenizers_own_call(make, columns, cached, many, tokenizer, cache, monkeypatch):
    monkeypatch.setattr(module, "CACHED_ROWS", cached)
    monkeypatch.setattr(module, "MANY_ROWS", many)
    tokenizer = make(tokenizer)
    table = pa.table({"text": TEXTS, "text_pair": PAIRS, "label": [0, 1, 1, 0, 1]}).select([*columns, "label"])
    plain = tokenizer(*(table[name].to_pylist() for name in columns), truncation=True, max_length=6)
    examples = [dict(zip(plain, row, strict=True)) for row in zip(*plain.values(), strict=True)]
    expected = DataCollatorWithPadding(tokenizer)(
        [{**example, "labels": label} for example, label in zip(examples, [0, 1, 1, 0, 1], strict=True)]
    )

    encoded = encode(table, tokenizer, max_length=6)
    batch = plain_collator(encoded, tokenizer)(examples_of(encoded.dataset, list(range(5))))
    assert set(batch) == set(expected)
    assert all(torch.equal(batch[name], value) for name, value in expected.items())
    assert encoded.lengths.tolist() == [len(ids) for ids in plain["input_ids"]]
    assert encoded.num_cut == sum(bool(item.overflowing) for item in plain.encodings or ())


def test_texts_are_cut_to_the_length_counted_and_not_padded(tokenizer):
    table = pa.table({"text": ["film", "the film was very dull and weak"], "label": [0, 1]})
    encoded = encode(table, tokenizer, max_length=5)
    assert encoded.lengths.tolist() == [3, 5]
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


@pytest.mark.parametrize("rows", [1, 1000], ids=["cached", "in memory"])
def test_chunks_make_no_difference(tokenizer, tiny, monkeypatch, cache, rows):
    monkeypatch.setattr(module, "CACHED_ROWS", 1000)
    table = pa.table({"text": [text for text, _ in tiny.make_rows(11)]})
    whole = encode(table, tokenizer, max_length=8)
    monkeypatch.setattr(module, "CACHED_ROWS", rows)
    monkeypatch.setattr(module, "MANY_ROWS", rows)
    monkeypatch.setattr(module, "CHUNK", 3)
    monkeypatch.setattr(module, "WORD_CHUNK", 3)
    monkeypatch.setattr(module, "BATCH_TOKENS", 10)
    done = []
    parts = encode(table, tokenizer, max_length=8, progress=done.append)
    assert parts.lengths.tolist() == whole.lengths.tolist()
    assert parts.dataset["input_ids"][:] == whole.dataset["input_ids"][:]
    assert done == [3, 3, 3, 2]


def test_a_large_table_is_tokenised_once(tokenizer, cache, monkeypatch):
    table = pa.table({"text": TEXTS, "label": [0, 1, 1, 0, 1]})
    first = encode(table, tokenizer, max_length=6)
    assert first.dataset.cache_files[0]["filename"] == str(next(cache.iterdir()))
    monkeypatch.setattr(module, "_encode_chunks", None)
    chunked = pa.concat_tables([table.slice(0, 2), table.slice(2)])
    again = encode(chunked, tokenizer, max_length=6)
    assert again.dataset[:] == first.dataset[:]
    assert (again.lengths.tolist(), again.num_cut, again.zeros) == (first.lengths.tolist(), first.num_cut, first.zeros)


def test_other_texts_labels_lengths_and_tokenizers_have_other_files(tokenizer, cache):
    table = pa.table({"text": ["a film", "b"], "label": [0, 1]})
    encode(table, tokenizer, max_length=6)
    encode(table, tokenizer, max_length=5)
    encode(pa.table({"text": ["a fil", "mb"], "label": [0, 1]}), tokenizer, max_length=6)
    encode(pa.table({"text": ["a film", "b"], "label": [1, 1]}), tokenizer, max_length=6)
    encode(pa.table({"text": ["a film", "b"], "label": [0.0, 1.0]}), tokenizer, max_length=6)
    encode(pa.table({"text": ["a", " film"], "text_pair": ["b", ""], "label": [0, 1]}), tokenizer, max_length=6)
    tokenizer.add_tokens("film")
    encode(table, tokenizer, max_length=6)
    assert len(list(cache.iterdir())) == 7
    encode(table, tokenizer, max_length=6)
    assert len(list(cache.iterdir())) == 7


def test_a_cache_that_cannot_be_written_is_named_with_the_way_to_move_it(tokenizer, cache):
    cache.write_text("a file where the folder should be")
    with pytest.raises(
        RunError, match=r"plankwise, where large .* cannot be written .*set HF_DATASETS_CACHE to a folder"
    ):
        encode(pa.table({"text": TEXTS}), tokenizer, max_length=6)
