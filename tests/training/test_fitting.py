"""The fitted start: its error on numbers worked out by hand, what it trains, and what it must not read."""

import copy

import pyarrow as pa
import pytest
import torch
from transformers import BartConfig, BartModel

from plankwise.config import FitOptions
from plankwise.core.chain import find_chains
from plankwise.core.plan import Plan, Slot, even_plan, listed_plan
from plankwise.core.slot import Pair
from plankwise.data.batch import sorted_batches, without_labels
from plankwise.data.encode import encode
from plankwise.errors import DataError
from plankwise.models.plans import build_successors
from plankwise.training.fitting import add_texts, fit, mask_name, read_texts, relative_error, squares


def error(pair, mask=None):
    return relative_error(*squares(pair, None if mask is None else torch.tensor(mask))).item()


def test_the_error_is_what_the_successor_misses_over_what_the_span_moves():
    before = torch.tensor([[[0.0, 0.0], [1.0, 1.0]]])
    span = torch.tensor([[[3.0, 4.0], [1.0, 2.0]]])
    successor = torch.tensor([[[3.0, 3.0], [4.0, 2.0]]])
    pair = Pair(before, span, successor)
    assert error(pair) == pytest.approx((1 + 9) / (25 + 1))
    assert error(pair, [[1, 0]]) == pytest.approx(1 / 25)  # the second token is padding


def test_handing_the_state_through_has_error_1_and_the_span_itself_0():
    before, span = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    assert error(Pair(before, span, before)) == pytest.approx(1.0)
    assert error(Pair(before, span, span)) == 0.0


def test_where_no_state_goes_in_the_error_is_over_what_comes_out():
    ids, span = torch.tensor([[3, 4]]), torch.tensor([[[3.0, 4.0], [0.0, 5.0]]])
    successor = torch.tensor([[[3.0, 3.0], [0.0, 5.0]]])
    assert error(Pair(ids, span, successor)) == pytest.approx(1 / 50)


@pytest.fixture
def fitted(bert, texts):
    """Fits two successors of a BERT of 4 layers; gives what came out and the models."""

    def run(train=None, plan=None, **options):
        plan = plan or even_plan(find_chains(bert), 2)
        successors = build_successors(bert, plan, init="lower", seed=0)
        options = FitOptions(
            **{"max_steps": 60, "batch_size": 8, "learning_rate": 3e-3, "evaluate_every": 60, **options}
        )
        stage = texts.make_stage("fitting", options, train)
        return fit(bert, plan, successors, stage, texts.train), successors

    return run


def test_fitting_lowers_every_successors_error_and_leaves_the_predecessor_as_it_was(fitted, bert):
    before = copy.deepcopy(bert.state_dict())
    result, _ = fitted()
    assert all(after < 0.5 * start for after, start in zip(result.after, result.before, strict=True))
    assert all(torch.equal(value, before[name]) for name, value in bert.state_dict().items())
    assert result.stage.best_score == pytest.approx(-sum(result.after) / 2)


def test_copies_of_spans_of_one_block_have_error_0_before_any_step(fitted, bert):
    result, _ = fitted(plan=listed_plan(find_chains(bert), [[0], [1]]), max_steps=1)
    assert result.before == [0.0, 0.0]


def test_embeddings_can_be_fitted_too(fitted):
    result, _ = fitted(plan=Plan((Slot("bert.embeddings"), Slot("bert.encoder.layer", (2, 3)))), max_steps=20)
    assert result.before[0] == 0.0  # a copy
    assert result.after[1] < result.before[1]


def test_a_decoders_states_are_not_masked_by_the_encoders_mask(texts):
    sizes = {"d_model": 16, "vocab_size": 50, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2}
    sizes |= {"decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24}
    model = BartModel(BartConfig(**sizes, pad_token_id=0, bos_token_id=1, eos_token_id=2, forced_eos_token_id=None))
    plan = listed_plan(find_chains(model), [[0, 1]])
    mask = {"attention_mask": torch.tensor([[1, 1, 0]]), "decoder_attention_mask": torch.tensor([[1, 0, 0]])}
    found = {slot.path: mask[mask_name(model, slot.path)].sum().item() for slot in plan.slots}
    assert found == {"encoder.layers": 2, "decoder.layers": 1}


def test_no_label_is_read(fitted, texts):
    _, with_them = fitted(max_steps=3)
    texts.forget()
    _, without = fitted(train=without_labels(texts.train), max_steps=3)
    for ours, theirs in zip(with_them, without, strict=True):
        assert all(torch.equal(value, theirs.state_dict()[name]) for name, value in ours.state_dict().items())


def test_more_texts_join_the_training_texts(texts, tmp_path):
    path = tmp_path / "more.txt"
    path.write_text("11 12\n\n  13 \n", "utf-8")
    joined = add_texts(texts.train, read_texts(str(path)), texts.tokenizer, max_length=16)
    assert joined.lengths.tolist() == [*texts.train.lengths, 4, 3]  # with [CLS] and [SEP]
    assert "labels" not in joined.dataset.column_names
    assert len(joined.dataset) == len(joined.lengths)


@pytest.mark.parametrize("columns", [["text"], ["text", "text_pair"]], ids=["single", "pair"])
def test_texts_that_join_pairs_or_single_texts_are_padded_with_them(texts, columns):
    table = pa.table({"text": ["11 12"], "text_pair": ["14"], "label": [1]}).select([*columns, "label"])
    train = encode(table, texts.tokenizer, 16)
    joined = add_texts(train, ["13"], texts.tokenizer, max_length=16)
    rows, batch = next(sorted_batches(joined, texts.tokenizer, 2))
    first = texts.tokenizer(*(table[name].to_pylist() for name in columns))
    second = texts.tokenizer(["13"])
    expected = texts.tokenizer.pad(
        {name: [*values, *second[name]] for name, values in first.items()}, return_tensors="pt"
    )
    assert rows.tolist() == [0, 1]
    assert set(batch) == set(expected)
    assert all(torch.equal(batch[name], value) for name, value in expected.items())


@pytest.mark.parametrize(
    ("content", "why"), [(None, "cannot be read"), (b"\xff\xfe", "cannot be read"), (b"\n \n", "no texts")]
)
def test_a_file_without_texts_is_named(tmp_path, content, why):
    path = tmp_path / "more.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=f"plan.fitting.texts is .*more.txt, which .*{why}.*one text a line"):
        read_texts(str(path))
