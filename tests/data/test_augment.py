"""Which words may be replaced and by what, on a toy vocabulary; copies that are drawn from that."""

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, BertTokenizer

from plankwise.data.augment import (
    Candidates,
    MaskedModel,
    draw_copies,
    find_candidates,
    masked_rows,
    replaceable,
    whole_words,
)
from plankwise.data.word_vectors import mean_of_tokens

WORDS = ["film", "great", "fine", "dull", "plot", "the", "is", "act"]
OTHERS = ["##or", "##ing", "7", "!", ".", "[unused0]", "is7"]
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *OTHERS]
TEXTS = ["the Film is great!", "dull plot.", "the actor is fine, the acting dull"]


@pytest.fixture
def masked(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(TOKENS), "utf-8")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    model = BertForMaskedLM(BertConfig(vocab_size=len(TOKENS), max_position_embeddings=32, **sizes))
    with torch.no_grad():
        model.bert.embeddings.word_embeddings.weight.normal_()
    return MaskedModel(model, BertTokenizer(vocab=str(tmp_path / "vocab.txt")), max_length=16)


def find(masked, texts=TEXTS, most=3, keep=frozenset()):
    tokens, words = masked.find_words(texts, keep)
    known = list(dict.fromkeys(text[a:b] for text in texts for a, b in replaceable(text)))

    def vectors():
        return mean_of_tokens(known, masked.tokenizer, masked.embeddings())

    return find_candidates(masked, vectors, texts, words, masked_rows(tokens, words), most)


def draw(texts, candidates, seed=0, **options):
    generator = np.random.default_rng(seed)
    return list(draw_copies(texts, range(len(texts)), candidates, generator=generator, **options))


def test_words_of_letters_alone_may_be_replaced_unless_they_are_function_words_or_to_be_kept():
    text = "The film isn't great, not for 3 U2 fans; a well-made B plot Ärger"
    found = [text[start:end] for start, end in replaceable(text, frozenset({"plot"}))]
    assert found == ["film", "great", "fans", "well", "made", "Ärger"]


def test_candidates_are_whole_words_never_pieces_special_unused_or_other_than_letters(masked):
    assert list(whole_words(masked.tokenizer).values()) == WORDS
    found = find(masked, most=50)
    assert {word.lower() for word in found.words} <= {*WORDS, "actor", "acting"}
    for number, text in enumerate(TEXTS):
        for (start, end), words in zip(*found.of(number), strict=True):
            assert words
            assert text[start:end].lower() not in words
            assert len(set(words)) == len(words)


def test_a_word_of_one_token_gets_the_likeliest_words_in_its_place_whatever_is_in_the_batch(masked):
    found = find(masked, most=3)
    for number, text in enumerate(TEXTS[:2]):
        for (start, end), words in zip(*found.of(number), strict=True):
            hidden = masked.tokenizer(text[:start] + "[MASK]" + text[end:], return_tensors="pt")
            with torch.no_grad():
                logits = masked.model(**hidden).logits[0]
            place = hidden["input_ids"][0].tolist().index(masked.tokenizer.mask_token_id)
            order = [TOKENS[one] for one in logits[place].argsort(descending=True)]
            assert words == [one for one in order if one in WORDS and one != text[start:end].lower()][:3]


def test_a_word_of_several_tokens_gets_the_nearest_by_the_mean_of_their_embeddings(masked):
    found = find(masked, most=2)
    spans, choices = found.of(2)
    words = {TEXTS[2][start:end]: near for (start, end), near in zip(spans, choices, strict=True)}
    assert list(words) == ["actor", "fine", "acting", "dull"]
    rows = dict(zip(TOKENS, masked.embeddings(), strict=True))
    known = {word.lower(): rows[word.lower()] for word in ("Film", "great", "dull", "plot", "fine")}
    known |= {"actor": (rows["act"] + rows["##or"]) / 2, "acting": (rows["act"] + rows["##ing"]) / 2}

    def likeness(one, other):
        return known[one] @ known[other] / np.linalg.norm(known[one]) / np.linalg.norm(known[other])

    for word in ("actor", "acting"):
        order = sorted(known.keys() - {word}, key=lambda other: -likeness(word, other))
        assert [one.lower() for one in words[word]] == order[:2]


def test_unknown_words_and_those_behind_what_the_model_reads_are_left_alone(masked):
    masked.max_length = 4  # two words
    found = find(masked, ["great zzz film", "great film dull plot"])
    assert [found.of(number)[0].tolist() for number in (0, 1)] == [[[0, 5]], [[0, 5], [6, 10]]]


def test_without_probability_a_copy_is_the_text_and_with_1_all_words_are_replaced_and_nothing_else(masked):
    found = find(masked)
    assert draw(TEXTS, found, copies=2, probability=0.0) == [[text, text] for text in TEXTS]
    for number, copies in enumerate(draw(TEXTS, found, copies=20, probability=1.0)):
        text, (spans, choices) = TEXTS[number], found.of(number)
        for copy in copies:
            old, new = (one.replace(",", " ,").replace("!", " !").replace(".", " .").split() for one in (text, copy))
            places = {len(text[:start].replace(",", " ,").split()) for start, _ in spans}
            assert len(old) == len(new)
            assert {place for place, pair in enumerate(zip(old, new, strict=True)) if pair[0] != pair[1]} == places
        assert len(choices) == len(spans)
        assert len(set(copies)) > 1


def test_a_capital_stays_a_capital(masked):
    (copies, *_) = draw(TEXTS, find(masked), copies=10, probability=1.0)
    assert all(copy.split()[1][0].isupper() and copy.split()[3][0].islower() for copy in copies)


def test_each_word_is_replaced_as_often_as_the_probability_says(masked):
    (copies, *_) = draw(TEXTS[1:2], find(masked, TEXTS[1:2]), copies=4000, probability=0.4)
    replaced = np.array([[copy.split()[0] != "dull", copy.split()[1] != "plot."] for copy in copies])
    assert abs(replaced.mean(0) - 0.4).max() < 0.04
    assert abs((replaced[:, 0] & replaced[:, 1]).mean() - 0.16) < 0.03


def test_the_same_seed_draws_the_same_copies_and_another_draws_others(masked):
    found = find(masked)
    options = {"copies": 5, "probability": 0.5}
    assert draw(TEXTS, found, 1, **options) == draw(TEXTS, found, 1, **options)
    assert draw(TEXTS, found, 1, **options) != draw(TEXTS, found, 2, **options)


def test_a_text_without_any_word_to_replace_is_copied_as_it_is(masked):
    found = find(masked, ["the 7!", "great"])
    assert isinstance(found, Candidates)
    assert draw(["the 7!", "great"], found, copies=2, probability=1.0)[0] == ["the 7!"] * 2
