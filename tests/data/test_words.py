import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer, BertTokenizer

from plankwise.data._words import find_words

PIECES = [
    "film",
    "Film",
    "unknown",
    "dull,",
    "  ",
    "\t",
    "\n",
    "é",
    "e\u0301",
    "\u0301",
    "Σ",
    "ΑΣ",
    "中文",
    "[MASK]",
    "x[SEP]y",
]
ODD = ["\u00a0", "\u200b", "İ", "##s", "a", "…"]
WORDS = st.sampled_from(PIECES + ODD) | st.text(max_size=4)
TEXTS = st.lists(st.lists(WORDS, max_size=9).map(" ".join), min_size=1, max_size=8)
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "f", "##i", "a", "Σ", "σ", "ς", "é", "e", "中"]


@pytest.fixture(scope="module")
def bert(tiny_model_folder):
    return AutoTokenizer.from_pretrained(tiny_model_folder)


def words_of(tokenizer, max_length):
    probe = tokenizer(["a"], truncation=True, max_length=max_length)
    return find_words(tokenizer.backend_tokenizer, max_length, probe.encodings[0])


def check(tokenizer, texts, max_length):
    ids, cut = words_of(tokenizer, max_length).encode(pa.array(["x", *texts], pa.string()).slice(1))
    plain = tokenizer(texts, truncation=True, max_length=max_length)
    assert ids.to_pylist() == plain["input_ids"]
    assert cut.tolist() == [bool(item.overflowing) for item in plain.encodings]


@settings(deadline=None)
@given(TEXTS, st.integers(3, 12))
def test_words_give_what_their_texts_give(bert, texts, max_length):
    check(bert, texts, max_length)


@settings(deadline=None)
@given(TEXTS, st.booleans(), st.sampled_from([None, True, False]))
def test_so_they_do_with_every_setting_of_berts_normaliser(texts, lowercase, strip_accents):
    vocabulary = {word: index for index, word in enumerate(VOCABULARY)}
    tokenizer = BertTokenizer(vocab=vocabulary, do_lower_case=lowercase, strip_accents=strip_accents)
    check(tokenizer, texts, 8)


@pytest.mark.parametrize(
    "change",
    [
        lambda tokenizer: setattr(tokenizer, "truncation_side", "left"),
        lambda tokenizer: tokenizer.add_tokens("a film"),
        lambda tokenizer: tokenizer.add_tokens(AddedToken("film", lstrip=True)),
        lambda tokenizer: tokenizer.add_tokens(AddedToken("film", single_word=True)),
        lambda tokenizer: setattr(tokenizer.backend_tokenizer, "normalizer", normalizers.Prepend("_")),
        lambda tokenizer: setattr(tokenizer.backend_tokenizer, "pre_tokenizer", pre_tokenizers.ByteLevel()),
        lambda tokenizer: setattr(tokenizer.backend_tokenizer, "model", models.Unigram([("a", 0.0)], unk_id=0)),
    ],
)
def test_a_tokenizer_that_looks_beyond_a_word_is_not_taken_for_one_that_does_not(tiny_model_folder, change):
    tokenizer = AutoTokenizer.from_pretrained(tiny_model_folder)
    assert words_of(tokenizer, 8) is not None
    change(tokenizer)
    assert words_of(tokenizer, 8) is None


def test_special_tokens_must_leave_room(bert):
    assert words_of(bert, 3).room == 1
    assert words_of(bert, 2) is None
