import numpy as np
import pytest
import torch
from transformers import BertTokenizer, PreTrainedTokenizerFast

from plankwise.data.masking import IGNORED, PAIR, Batcher, Masking, pad_sequences

WORDS = [f"w{index}" for index in range(95)]
CLS, SEP, MASK = 2, 3, 4


@pytest.fixture
def tokenizer(tmp_path):
    file = tmp_path / "vocab.txt"
    file.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]))
    return BertTokenizer(vocab=str(file))


def sequence(row, ids, starts=None, **more):
    return {"row": row, "input_ids": ids, "starts": starts or [True] * len(ids), **more}


def hidden(batch, index=0):
    return (batch["labels"][index] != IGNORED).nonzero().flatten().tolist()


def batcher(tokenizer, objective="mlm", *, epoch=0, sequences=None, **masking):
    ask = None if epoch is None else lambda: epoch
    return Batcher(tokenizer, objective, Masking(**masking), 64, sequences, ask)


def test_15_percent_are_predicted_of_which_80_percent_are_masked_10_percent_random_and_10_percent_as_they_were(
    tokenizer,
):
    rng = np.random.default_rng(0)
    rows = [sequence(row, rng.integers(5, 100, 60).tolist()) for row in range(2000)]
    batch = batcher(tokenizer)(rows)
    ids = torch.tensor([row["input_ids"] for row in rows])
    given, wanted = batch["input_ids"][:, 1:-1], batch["labels"][:, 1:-1]
    chosen = wanted != IGNORED
    assert chosen.sum().item() == 2000 * 9
    assert torch.equal(wanted[chosen], ids[chosen])
    assert torch.equal(given[~chosen], ids[~chosen])
    shown = given[chosen]
    assert (shown == MASK).float().mean().item() == pytest.approx(0.8, abs=0.01)
    assert (shown == ids[chosen]).float().mean().item() == pytest.approx(0.1 + 0.1 / 95, abs=0.01)
    assert ((shown != MASK) & (shown != ids[chosen])).float().mean().item() == pytest.approx(0.1, abs=0.01)


def test_masks_depend_on_seed_epoch_and_row_alone(tokenizer):
    rows = [sequence(row, list(range(5, 45))) for row in range(4)]
    together = batcher(tokenizer)(rows)
    alone = [batcher(tokenizer)([row]) for row in reversed(rows)][::-1]
    for index, batch in enumerate(alone):
        assert torch.equal(batch["input_ids"][0], together["input_ids"][index])
        assert torch.equal(batch["labels"][0], together["labels"][index])
    others = [batcher(tokenizer, epoch=1)(rows), batcher(tokenizer, seed=1)(rows), batcher(tokenizer, epoch=None)(rows)]
    assert all(not torch.equal(other["labels"], together["labels"]) for other in others)
    assert len({tuple(hidden(together, index)) for index in range(4)}) > 1


def test_held_out_masks_are_always_the_same(tokenizer):
    rows = [sequence(row, list(range(5, 45))) for row in range(4)]
    first, second = (batcher(tokenizer, epoch=None)(rows) for _ in range(2))
    assert torch.equal(first["input_ids"], second["input_ids"])


def test_special_tokens_are_neither_hidden_nor_drawn(tokenizer):
    rows = [sequence(row, [10, SEP, 11, SEP, 12, 13]) for row in range(300)]
    batch = batcher(tokenizer, share=0.9)(rows)
    chosen = batch["labels"] != IGNORED
    assert not set(batch["labels"][chosen].tolist()) & {0, 1, CLS, SEP, MASK}
    assert set(batch["input_ids"][chosen].tolist()) & {0, 1, CLS, SEP} == set()


def test_a_text_of_one_word_has_it_predicted(tokenizer):
    batch = batcher(tokenizer)([sequence(0, [7])])
    assert batch["labels"].tolist() == [[IGNORED, 7, IGNORED]]


def test_whole_words_are_hidden_together_and_no_more_than_the_share_allows(tokenizer):
    starts = [True, False, False] * 20
    for row in range(50):
        chosen = hidden(batcher(tokenizer, whole_words=True)([sequence(row, list(range(5, 65)), starts)]))
        words = {(position - 1) // 3 for position in chosen}
        assert sorted(chosen) == sorted(1 + 3 * word + offset for word in words for offset in range(3))
        assert len(chosen) == 9


def test_texts_are_padded_and_padding_is_not_predicted(tokenizer):
    batch = batcher(tokenizer)([sequence(0, [5, 6, 7]), sequence(1, [8])])
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]
    assert batch["input_ids"][1, 3:].tolist() == [0, 0]
    assert batch["labels"][1, 3:].tolist() == [IGNORED, IGNORED]
    assert batch["token_type_ids"].tolist() == [[0] * 5] * 2


def test_sentence_order_swaps_the_parts_of_half_the_texts(tokenizer):
    rows = [sequence(row, [10, 11, 20, 21, 22], cut=2, text=row) for row in range(400)]
    batch = batcher(tokenizer, "mlm+sop", share=1e-9)(rows)
    restored = torch.where(batch["labels"] == IGNORED, batch["input_ids"], batch["labels"])
    swapped = batch[PAIR].bool()
    assert 160 < swapped.sum() < 240
    assert set(map(tuple, restored[~swapped].tolist())) == {(CLS, 10, 11, SEP, 20, 21, 22, SEP)}
    assert set(map(tuple, restored[swapped].tolist())) == {(CLS, 20, 21, 22, SEP, 10, 11, SEP)}
    assert batch["token_type_ids"][~swapped][0].tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


def test_the_next_sentence_of_half_the_texts_comes_from_another_text(tokenizer):
    rows = [sequence(row, [10 + row, 30 + row], cut=1, text=row) for row in range(20)]
    batch = batcher(tokenizer, "mlm+nsp", sequences=rows, share=1e-9)(rows * 20)
    restored = torch.where(batch["labels"] == IGNORED, batch["input_ids"], batch["labels"])
    follows = restored[:, 1] + 20 == restored[:, 3]
    assert torch.equal(follows, batch[PAIR] == 0)
    assert {0, 1} == set(batch[PAIR].tolist())
    assert ((restored[:, 3] >= 30) & (restored[:, 3] < 50)).all()


def test_a_foreign_second_part_is_cut_to_the_length(tokenizer):
    rows = [sequence(0, [10] * 58 + [11], cut=58, text=0), sequence(1, [12] + [13] * 50, cut=1, text=1)]
    batch = batcher(tokenizer, "mlm+nsp", sequences=rows)([{**rows[0], "row": row} for row in range(40)])
    assert batch[PAIR].sum() > 0
    assert batch["input_ids"].shape[1] == 64


def test_a_causal_model_predicts_every_token_and_nothing_is_hidden():
    from tokenizers import Tokenizer, models

    plain = Tokenizer(models.WordLevel({"<end>": 0, "a": 1, "b": 2, "the": 3}, unk_token="<end>"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, eos_token="<end>", pad_token="<end>")
    batch = batcher(tokenizer, "clm")([sequence(0, [1, 2, 0, 2]), sequence(1, [2])])
    assert batch["input_ids"].tolist() == [[1, 2, 0, 2], [2, 0, 0, 0]]
    assert batch["labels"].tolist() == [[1, 2, 0, 2], [2, IGNORED, IGNORED, IGNORED]]


def test_sequences_as_they_are_have_their_special_tokens_and_no_labels(tokenizer):
    plain = batcher(tokenizer)
    batch = pad_sequences(tokenizer, plain.frame, [sequence(0, [5, 6]), sequence(1, [7, 8, 9], cut=1)])
    assert batch["input_ids"].tolist() == [[CLS, 5, 6, SEP, 0, 0], [CLS, 7, SEP, 8, 9, SEP]]
    assert "labels" not in batch
