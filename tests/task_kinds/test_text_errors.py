"""The error view of language models, on losses written by hand."""

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import BertTokenizer

from plankwise.data.masking import IGNORED
from plankwise.evaluation.perplexity import TokenLosses
from plankwise.task_kinds._text_errors import compare_losses

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ship", "plank", "##s", "7", "!")
PAD, _, CLS, SEP, MASK, SHIP, PLANK, S, SEVEN, SIGN = range(10)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("words") / "vocab.txt"
    path.write_text("\n".join(WORDS), "utf-8")
    return BertTokenizer(vocab=str(path))


def make_sequences(*texts):
    """Each text as ids; all tokens but `##s` begin a word."""
    return Dataset.from_dict(
        {"input_ids": [list(ids) for ids in texts], "starts": [[one != S for one in ids] for ids in texts]}
    )


def make_batch(ids, labels):
    ids = torch.tensor(ids)
    return {"input_ids": ids, "attention_mask": (ids != PAD).long(), "labels": torch.tensor(labels)}


def losses(shares, guesses):
    return TokenLosses(-np.log(np.array(shares, dtype=np.float32)), np.array(guesses))


@pytest.fixture
def masked(tokenizer):
    """Of three hidden tokens one is a ship, which stands in the text eleven times."""
    sequences = make_sequences([SHIP, S, SIGN], [SHIP, PLANK, SEVEN, S], [SHIP] * 9)
    x = IGNORED
    batches = [
        make_batch([[CLS, MASK, S, SIGN, SEP]], [[x, SHIP, x, x, x]]),
        make_batch([[CLS, SHIP, MASK, SEVEN, MASK, SEP, PAD]], [[x, x, PLANK, x, S, x, x]]),
    ]
    before = losses([1 / 2, 1 / 4, 1 / 4], [SHIP, SHIP, S])
    after = losses([1 / 8, 1 / 4, 1], [PLANK, PLANK, S])
    return compare_losses(sequences, lambda: batches, "mlm", tokenizer, before, after).to_json()


def test_perplexity_by_frequency_and_by_kind_of_a_hand_made_case(masked):
    assert masked["examples"] == 3
    assert masked["cells"] == {"both_right": 1, "lost": 1, "gained": 1, "both_wrong": 0}
    by_frequency, by_kind = (
        {row["name"]: (row["of"], *row["before"], *row["after"]) for row in table["rows"]} for table in masked["tables"]
    )
    third = 32 ** (1 / 3)
    assert by_frequency == {
        "all": (3, pytest.approx(third), 2 / 3, pytest.approx(third), 2 / 3),
        "1–9": (2, pytest.approx(4), 1 / 2, pytest.approx(2), 1),
        "10–99": (1, pytest.approx(2), 1, pytest.approx(8), 0),
    }
    assert by_kind == {
        "begins a word": (2, pytest.approx(8**0.5), 1 / 2, pytest.approx(32**0.5), 1 / 2),
        "goes on with a word": (1, pytest.approx(4), 1, pytest.approx(1), 1),
    }


def test_tokens_whose_loss_rose_are_shown_in_what_the_model_read(masked):
    assert masked["cases_total"] == 1
    assert masked["cases"] == [
        {
            "row": 0,
            "title": "“ship”: loss 0.69 → 2.08",
            "fields": [["text", "⟦ship⟧ ##s!"]],
            "before": ["probability 50.00%, first guess “ship”"],
            "after": ["probability 12.50%, first guess “plank”"],
        }
    ]


def test_a_model_that_writes_from_left_to_right_is_shown_what_stood_before(tokenizer):
    ids = [[SHIP, PLANK, SEVEN, SIGN], [PLANK, SEVEN, SEP, PAD]]
    labels = [[IGNORED if one == PAD else one for one in row] for row in ids]
    wanted = [PLANK, SEVEN, SIGN, SEVEN, SEP]
    before, after = losses([1 / 2] * 5, wanted), losses([1 / 2, 1 / 4, 1 / 2, 1 / 8, 1 / 2], wanted)
    sequences = make_sequences([SHIP, PLANK, SEVEN, SIGN], [PLANK, SEVEN])
    view = compare_losses(sequences, lambda: [make_batch(ids, labels)], "clm", tokenizer, before, after)
    assert [(case.row, dict(case.fields)["text"]) for case in view.cases] == [(1, "plank ⟦7⟧"), (0, "ship plank ⟦7⟧")]
    assert {row.name: row.of for row in view.tables[1].rows} == {
        "begins a word": 1,
        "with a digit": 2,
        "sign": 1,
        "special token": 1,
    }
