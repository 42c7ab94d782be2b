"""Words and their pieces."""

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertTokenizer, PreTrainedTokenizerFast

from plankwise.data.masking import IGNORED
from plankwise.task_kinds._words import encode_words, tag_words

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ship", "##s", "sail", "a"]


class Echo:
    """A predictor whose class for a token is its id."""

    def __call__(self, batch):
        return {"logits": torch.nn.functional.one_hot(batch["input_ids"], len(VOCABULARY)).float()}


@pytest.fixture(params=["right", "left"])
def tokenizer(request, tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY))
    return BertTokenizer(vocab=str(tmp_path / "vocab.txt"), padding_side=request.param)


def test_a_words_tag_stands_at_its_first_piece(tokenizer):
    pieces = encode_words([["a", "ships", "sail"], ["ships"]], [[1, 2, 3], [4]], tokenizer, max_length=16)
    rows = pieces.encoded.dataset
    assert tokenizer.convert_ids_to_tokens(rows[0]["input_ids"]) == ["[CLS]", "a", "ship", "##s", "sail", "[SEP]"]
    assert rows[0]["labels"] == [IGNORED, 1, 2, IGNORED, 3, IGNORED]
    assert rows[1]["labels"] == [IGNORED, 4, IGNORED, IGNORED]
    assert pieces.encoded.num_cut == 0


def test_each_word_is_given_what_its_first_piece_says(tokenizer):
    texts = [["ships"], ["a", "", "ships", "sail"], ["sail", "a", "a", "a"]]  # of the empty word there is no piece
    pieces = encode_words(texts, [[0] * len(words) for words in texts], tokenizer, max_length=5)
    assert pieces.encoded.num_cut == 2
    found = tag_words(Echo(), pieces, tokenizer, 2, otherwise=-1)
    ship, sail, a = (VOCABULARY.index(word) for word in ("ship", "sail", "a"))
    assert found.tolist() == [[ship, *[IGNORED] * 3], [a, -1, ship, -1], [sail, a, a, -1]]
    assert found.dtype == np.int64


def test_a_tokenizer_of_bytes_sees_a_blank_before_each_word():
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE({letter: index for index, letter in enumerate(alphabet)}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner)
    pieces = encode_words([["a", "b"]], [[1, 2]], tokenizer, max_length=16)
    assert tokenizer.convert_ids_to_tokens(pieces.encoded.dataset[0]["input_ids"]) == ["Ġ", "a", "Ġ", "b"]
    assert pieces.encoded.dataset[0]["labels"] == [1, IGNORED, 2, IGNORED]
