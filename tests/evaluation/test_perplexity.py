import math

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    BatchEncoding,
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    CamembertConfig,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    GPT2Config,
    ModernBertConfig,
    RobertaConfig,
)

from plankwise.data.masking import IGNORED, PAIR
from plankwise.errors import RunError
from plankwise.evaluation.perplexity import (
    language_loss,
    measure_perplexity,
    measure_tokens,
    perplexity,
    unigram_losses,
    wanted_tokens,
)
from plankwise.runtimes.torch import TorchPredictor

SIZES = {"vocab_size": 12, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
CONFIGS = [
    BertConfig(**SIZES),
    RobertaConfig(**SIZES, pad_token_id=1),
    CamembertConfig(**SIZES, pad_token_id=1),
    DistilBertConfig(vocab_size=12, dim=16, n_layers=2, n_heads=2, hidden_dim=32),
    ElectraConfig(**SIZES, embedding_size=16),
    DebertaV2Config(**SIZES),
    ModernBertConfig(**SIZES, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2),
]


def make_batch(*, pairs=False):
    ids = torch.tensor([[2, 5, 4, 7, 3], [2, 4, 6, 3, 0]])
    labels = torch.full_like(ids, IGNORED)
    labels[0, 2], labels[1, 1], labels[1, 2] = 6, 5, 6
    batch = {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": labels}
    if pairs:
        batch[PAIR] = torch.tensor([0, 1])
    return BatchEncoding(batch)


def answering(shares):
    """A BERT that gives every token the same shares, whatever it reads."""
    model = BertForMaskedLM(BertConfig(**SIZES))
    with torch.no_grad():
        model.cls.predictions.decoder.weight.zero_()
        model.cls.predictions.decoder.bias.copy_(torch.tensor(shares).log())
    return model


def test_perplexity_is_e_to_the_mean_loss_over_the_predicted_tokens_worked_out_by_hand():
    shares = [0.05] * 12
    shares[5], shares[6] = 0.2, 0.3
    found = measure_perplexity(TorchPredictor(answering(shares)), [make_batch()], "mlm").metrics()
    mean = -(math.log(0.3) + math.log(0.2) + math.log(0.3)) / 3
    assert found["loss"] == pytest.approx(mean, abs=1e-6)
    assert found["perplexity"] == pytest.approx((1 / (0.3 * 0.2 * 0.3)) ** (1 / 3), rel=1e-6)
    assert found["score"] == pytest.approx(1 / found["perplexity"], rel=1e-6)


def test_a_model_that_knows_nothing_has_the_vocabulary_as_its_perplexity():
    assert measure_perplexity(TorchPredictor(answering([1 / 12] * 12)), [make_batch()], "mlm").metrics()[
        "perplexity"
    ] == pytest.approx(12)


def test_tokens_count_alike_whatever_batch_they_are_in():
    torch.manual_seed(0)
    model = BertForMaskedLM(BertConfig(**SIZES))
    whole = make_batch()
    rows = [BatchEncoding({name: value[index : index + 1] for name, value in whole.items()}) for index in range(2)]
    assert measure_perplexity(TorchPredictor(model), rows, "mlm").metrics()["loss"] == pytest.approx(
        measure_perplexity(TorchPredictor(model), [whole], "mlm").metrics()["loss"], abs=1e-6
    )


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.model_type)
def test_the_head_on_predicted_tokens_alone_gives_the_models_own_loss_and_gradients(config):
    torch.manual_seed(0)
    model = AutoModelForMaskedLM.from_config(config).eval()
    batch = dict(make_batch())
    own = model(**batch).loss
    own.backward()
    wanted = {
        name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None
    }
    model.zero_grad()
    loss = language_loss("mlm")(model, batch, torch.arange(2))
    loss.backward()
    assert loss.item() == pytest.approx(own.item(), rel=1e-5)
    for name, gradient in wanted.items():
        torch.testing.assert_close(model.get_parameter(name).grad, gradient, rtol=1e-4, atol=1e-6)
    assert model(**batch).logits.shape[:2] == (2, 5)  # nothing is left behind


def test_pairs_add_their_own_loss_and_accuracy():
    torch.manual_seed(0)
    model = BertForPreTraining(BertConfig(**SIZES)).eval()
    batch = make_batch(pairs=True)
    own = model(**batch).loss
    assert language_loss("mlm+nsp")(model, dict(batch), torch.arange(2)).item() == pytest.approx(own.item(), rel=1e-5)
    found = measure_perplexity(TorchPredictor(model), [batch], "mlm+nsp").metrics()
    assert found["pair_accuracy"] in (0.0, 0.5, 1.0)
    guesses = model(**{k: v for k, v in batch.items() if k not in ("labels", PAIR)}).seq_relationship_logits.argmax(-1)
    assert found["pair_accuracy"] == (guesses == batch[PAIR]).float().mean().item()


def test_a_causal_models_perplexity_is_e_to_its_own_loss():
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(GPT2Config(vocab_size=12, n_embd=16, n_layer=2, n_head=2)).eval()
    ids = torch.tensor([[1, 5, 4, 7, 3]])
    batch = BatchEncoding({"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids})
    own = model(**batch).loss.item()
    assert measure_perplexity(TorchPredictor(model), [batch], "clm").metrics()["perplexity"] == pytest.approx(
        math.exp(own), rel=1e-5
    )


def test_a_loss_that_is_no_number_is_an_error():
    with pytest.raises(RunError, match="held-out text is nan"):
        measure_perplexity(TorchPredictor(answering([float("nan")] * 12)), [make_batch()], "mlm").metrics()


def test_a_loss_too_large_for_its_power_is_infinite_perplexity():
    assert perplexity(1000.0) == math.inf


@pytest.mark.parametrize("objective", ["mlm", "clm"])
def test_losses_are_told_apart_by_sequence(objective):
    torch.manual_seed(0)
    model = BertForMaskedLM(BertConfig(**SIZES))
    whole = make_batch()
    if objective == "clm":
        whole["labels"] = torch.where(whole["attention_mask"] == 1, whole["input_ids"], IGNORED)
    rows = [BatchEncoding({name: value[index : index + 1] for name, value in whole.items()}) for index in range(2)]
    found = measure_perplexity(TorchPredictor(model), [whole], objective)
    alone = [measure_perplexity(TorchPredictor(model), [row], objective) for row in rows]
    assert (
        found.tokens.tolist() == [int(one.tokens.sum()) for one in alone] == ([1, 2] if objective == "mlm" else [4, 3])
    )
    assert found.losses.tolist() == pytest.approx([float(one.losses.sum()) for one in alone], abs=1e-5)


def test_a_token_is_known_by_its_frequency_among_the_others_worked_out_by_hand():
    found = unigram_losses(lambda: [make_batch()], "mlm", 12)  # 6; 5 and 6: two others each, and two different ones
    seen, new = (1 + 2 / 12) / (2 + 2), (0 + 2 / 12) / (2 + 2)
    assert found.losses.tolist() == pytest.approx([-math.log(seen), -math.log(new) - math.log(seen)])
    assert found.tokens.tolist() == [1, 2]


def test_frequencies_of_much_text_have_the_perplexity_of_its_tokens():
    labels = torch.arange(4).repeat(2_000)[None]
    found = unigram_losses(lambda: [{"labels": labels}], "mlm", 4)
    assert found.metrics()["perplexity"] == pytest.approx(4, rel=1e-3)


@pytest.mark.parametrize("objective", ["mlm", "clm"])
def test_what_is_measured_token_by_token_sums_up_to_the_sequences(objective):
    torch.manual_seed(0)
    model = BertForMaskedLM(BertConfig(**SIZES, is_decoder=objective == "clm"))
    batch = make_batch()
    if objective == "clm":
        batch["labels"] = torch.where(batch["input_ids"] == 0, IGNORED, batch["input_ids"])
    found = measure_tokens(TorchPredictor(model), [batch], objective)
    whole = measure_perplexity(TorchPredictor(model), [batch], objective)
    wanted = wanted_tokens(batch["labels"], objective)
    assert np.bincount(wanted.rows, found.losses) == pytest.approx(whole.losses)
    assert np.bincount(wanted.rows).tolist() == whole.tokens.tolist()
    assert torch.equal(
        torch.from_numpy(wanted.ids), batch["labels"][torch.from_numpy(wanted.rows), torch.from_numpy(wanted.places)]
    )
    assert len(found.guesses) == len(found.losses) == whole.tokens.sum()


def test_the_first_guess_is_the_likeliest_token():
    shares = [0.05] * 12
    shares[6] = 0.45
    found = measure_tokens(TorchPredictor(answering(shares)), [make_batch()], "mlm")
    assert found.guesses.tolist() == [6, 6, 6]
    assert np.exp(-found.losses) == pytest.approx([0.45, 0.05, 0.45])
