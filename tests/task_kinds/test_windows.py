"""Windows of texts: every token of a text is in one, answers are where they should be, and the best over windows is taken."""

import numpy as np
import pytest
import torch

from plankwise.data.squad import Question
from plankwise.errors import ConfigError
from plankwise.models.loading import Loader
from plankwise.task_kinds._windows import as_windows, choose_answers, encode_windows, find_spans, find_stride

CONTEXT = "the film is fine and the plot was dull a scene and the music very lovely"  # 16 words, a token each


@pytest.fixture(scope="module")
def tokenizer(tiny_model_folder):
    return Loader().tokenizer(str(tiny_model_folder))


def question(answer, context=CONTEXT, asked="the actor"):
    return Question("1", "", context, asked, (answer,), (context.index(answer),))


def test_windows_share_the_stride_and_hold_all_of_the_text(tokenizer):
    found = encode_windows([question("fine")], tokenizer, max_length=12, stride=2)  # 3 special, 2 asked: 7 of the text
    texts = [[CONTEXT[a:b] for a, b in place if a >= 0] for place in found.places]
    words = CONTEXT.split()
    assert texts == [words[0:7], words[5:12], words[10:16]]
    assert found.encoded.lengths.tolist() == [12, 12, 11]


def test_an_answer_is_labelled_in_the_windows_that_hold_it_whole_and_the_first_token_elsewhere(tokenizer):
    # [CLS] the actor [SEP] takes 4 places, so that a window's text begins at 4.
    labels = encode_windows([question("the plot")], tokenizer, 12, 2).encoded.dataset["labels"]
    assert list(labels) == [[4 + 5, 4 + 6], [4, 5], [0, 0]]
    labels = encode_windows([question("plot was")], tokenizer, 12, 2).encoded.dataset["labels"]
    assert list(labels) == [[0, 0], [5, 6], [0, 0]]


def test_a_long_question_is_cut_to_half_of_the_length_and_counted(tokenizer):
    found = encode_windows([question("fine", asked="the film " * 5)], tokenizer, 16, 2)
    assert found.encoded.num_cut == 1
    assert all((place[:, 0] < 0).sum() <= 3 + 8 for place in found.places)


def test_a_stride_that_leaves_no_room_is_refused(tokenizer):
    assert find_stride(None, tokenizer, 128) == 32
    with pytest.raises(ConfigError, match=r"task\.stride is 61, but .* have room for 61"):
        find_stride(61, tokenizer, 128)
    with pytest.raises(ConfigError, match=r"training\.max_length is 8, which is too short"):
        find_stride(None, tokenizer, 8)


def pointing(tokenizer, word, *, nothing=0.0):
    """A model that gives 3 to each place of a word, and `nothing` to the first token."""
    wanted = tokenizer.convert_tokens_to_ids(word)

    def predict(batch):
        logits = (batch["input_ids"] == wanted).float() * 3
        logits[:, 0] = nothing
        return {"start_logits": logits, "end_logits": logits}

    return predict


def test_the_answer_is_the_best_over_all_windows_and_never_of_the_question(tokenizer):
    asked = [question("fine"), question("fine", asked="the dull")]
    windows = encode_windows(asked, tokenizer, 12, 2)
    spans = find_spans(pointing(tokenizer, "dull"), windows, tokenizer, 2, longest=3)
    answers, scores = choose_answers(spans, windows, asked, may_be_none=False)
    assert answers == ["dull", "dull"]
    assert scores.tolist() == [6, 6]
    assert np.flatnonzero(spans[:, 2] == 6_000_000).tolist() == [1, 4]


def test_nothing_is_answered_if_every_window_scores_it_higher(tokenizer):
    asked = [question("fine")]
    windows = encode_windows(asked, tokenizer, 12, 2)
    spans = find_spans(pointing(tokenizer, "dull", nothing=4.0), windows, tokenizer, 2, longest=3)
    assert choose_answers(spans, windows, asked, may_be_none=True)[0] == [""]
    assert choose_answers(spans, windows, asked, may_be_none=False)[0] == ["dull"]
    spans[1, 3] = 0  # one window in which nothing scores low
    assert choose_answers(spans, windows, asked, may_be_none=True)[0] == ["dull"]


def test_what_was_found_in_windows_of_other_tokens_gives_the_same_answers_in_the_tasks(tokenizer):
    asked = [question("fine"), question("fine", asked="the dull"), question("end", context="the end")]
    own, other = encode_windows(asked, tokenizer, 12, 2), encode_windows(asked, tokenizer, 16, 4)
    for word, nothing in (("dull", 0.0), ("dull", 4.0), ("lovely", 2.0)):
        spans = find_spans(pointing(tokenizer, word, nothing=nothing), own, tokenizer, 2, longest=3)
        found = as_windows(spans, own, other)
        assert found.shape == (len(other.places), 4) != spans.shape
        for may_be_none in (False, True):
            expected = choose_answers(spans, own, asked, may_be_none=may_be_none)
            answers, scores = choose_answers(found, other, asked, may_be_none=may_be_none)
            assert answers == expected[0]
            assert scores.tolist() == expected[1].tolist()


def test_padding_on_the_left_changes_no_answer(tokenizer, tiny_model_folder):
    left = Loader().tokenizer(str(tiny_model_folder))
    left.padding_side = "left"
    asked = [question("fine")]
    windows = encode_windows(asked, left, 12, 2)

    def predict(batch):
        found = pointing(tokenizer, "lovely")(batch)["start_logits"]
        return {"start_logits": found, "end_logits": torch.where(batch["attention_mask"] == 1, found, 9.0)}

    spans = find_spans(predict, windows, left, 3, longest=3)
    assert choose_answers(spans, windows, asked, may_be_none=False)[0] == ["lovely"]
