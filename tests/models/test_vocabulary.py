import json
import subprocess
import sys

import pytest
import torch
import transformers

from plankwise.errors import ConfigError
from plankwise.models.vocabulary import reading, trim
from vocabularies import CORPUS, DOMAIN, make_byte_bpe, make_unigram, make_word_piece, random_texts

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
T5 = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2, "dropout_rate": 0.0}


def make(kind: str, tokenizer, *, more: int = 0, **changes):
    """An untrained model of a class for a tokenizer, with `more` rows than that has tokens."""
    torch.manual_seed(0)
    cls = getattr(transformers, kind)
    sizes = T5 if cls.config_class.model_type == "t5" else SMALL
    if cls.config_class.model_type == "gpt2":
        sizes = {"n_embd": 32, "n_layer": 2, "n_head": 2}
    if cls.config_class.model_type == "albert":
        sizes = {**SMALL, "embedding_size": 16}
    ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id", None) for name in ("pad", "bos", "eos")}
    config = cls.config_class(**{**sizes, "vocab_size": len(tokenizer) + more, **ids, **changes})
    model = cls(config).eval()
    for parameter in model.parameters():  # biases are zero in a new model
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, std=0.1)
    return model


def outputs(model, tokenizer, texts=DOMAIN, **more):
    with torch.inference_mode():
        return model(**tokenizer(texts, padding=True, return_tensors="pt"), **more)


ENCODERS = {
    "BertForSequenceClassification": make_word_piece,
    "RobertaForSequenceClassification": make_byte_bpe,
    "XLMRobertaForSequenceClassification": make_unigram,
    "AlbertForSequenceClassification": lambda: make_unigram("AlbertTokenizer"),
    "GPT2ForSequenceClassification": lambda: make_byte_bpe("GPT2Tokenizer"),
}


@pytest.mark.parametrize("kind", ENCODERS)
def test_logits_on_the_domains_texts_are_the_same_bits(kind):
    tokenizer = ENCODERS[kind]()
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    model = make(kind, tokenizer, max_position_embeddings=64, num_labels=3)
    found = trim(model, tokenizer, DOMAIN)
    assert torch.equal(outputs(model, tokenizer).logits, outputs(found.model, found.tokenizer).logits)
    assert found.model.config.vocab_size == len(found.tokenizer) < model.config.vocab_size
    assert type(found.model) is type(model)
    assert outputs(found.model, found.tokenizer, random_texts(50)).logits.isfinite().all()


def test_a_masked_language_models_head_and_biases_keep_the_rows():
    tokenizer = make_word_piece()
    model = make("BertForMaskedLM", tokenizer)
    found = trim(model, tokenizer, DOMAIN)
    kept, new = list(found.kept), found.model
    assert torch.equal(new.cls.predictions.bias, model.cls.predictions.bias[kept])
    assert torch.equal(new.cls.predictions.decoder.bias, model.cls.predictions.bias[kept])
    assert new.get_output_embeddings().weight is new.get_input_embeddings().weight  # tied as before
    assert torch.equal(new.get_input_embeddings().weight, model.get_input_embeddings().weight[kept])
    logits = outputs(model, tokenizer).logits[..., kept]
    # a product with fewer columns may be added up in another order
    torch.testing.assert_close(outputs(new, found.tokenizer).logits, logits, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["RobertaForMaskedLM", "RobertaForCausalLM"])
def test_heads_of_other_families_keep_the_rows(kind):
    tokenizer = make_byte_bpe()
    model = make(kind, tokenizer, max_position_embeddings=64, is_decoder=kind.endswith("CausalLM"))
    found = trim(model, tokenizer, DOMAIN)
    logits = outputs(model, tokenizer).logits[..., list(found.kept)]
    torch.testing.assert_close(outputs(found.model, found.tokenizer).logits, logits, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("tied", [True, False])
def test_an_encoder_and_decoder_shrink_together(tied):
    tokenizer = make_unigram("T5Tokenizer")
    model = make("T5ForConditionalGeneration", tokenizer, more=28, tie_word_embeddings=tied, decoder_start_token_id=0)
    found = trim(model, tokenizer, DOMAIN)
    start = torch.zeros(len(DOMAIN), 1, dtype=torch.long)
    states = outputs(model, tokenizer, decoder_input_ids=start).encoder_last_hidden_state
    after = outputs(found.model, found.tokenizer, decoder_input_ids=start)
    assert torch.equal(after.encoder_last_hidden_state, states)
    shares = found.model.lm_head.weight is found.model.shared.weight
    assert shares == (model.lm_head.weight is model.shared.weight)
    assert after.logits.shape[-1] == len(found.kept) == len(found.tokenizer)  # rows beyond the tokenizer are gone


def test_ids_in_the_configs_are_the_new_ones():
    tokenizer = make_word_piece()
    model = make("BertForMaskedLM", tokenizer, sep_token_id=4, eos_token_id=[4, 3])
    model.generation_config = transformers.GenerationConfig(eos_token_id=[4, 3], suppress_tokens=[5, -1])
    found = trim(model, tokenizer, DOMAIN)
    new = {index: place for place, index in enumerate(found.kept)}
    assert tokenizer.convert_ids_to_tokens([1, 5]) == ["thethe", "[MASK]"]
    assert 1 not in new
    config, generation = found.model.config, found.model.generation_config
    assert (config.pad_token_id, config.sep_token_id) == (found.tokenizer.pad_token_id, found.tokenizer.sep_token_id)
    assert config.eos_token_id == generation.eos_token_id == [new[4], new[3]] == [3, 2]
    assert generation.suppress_tokens == [found.tokenizer.mask_token_id, -1]
    assert (model.config.eos_token_id, model.config.vocab_size) == ([4, 3], len(tokenizer))  # as they were


def test_a_row_that_only_the_config_knows_of_stays():
    tokenizer = make_word_piece()
    padding = len(tokenizer) + 3
    model = make("BertModel", tokenizer, more=8, pad_token_id=padding)
    found = trim(model, tokenizer, DOMAIN)
    assert found.kept[-1] == padding
    assert found.model.config.pad_token_id == len(found.kept) - 1
    assert found.model.get_input_embeddings().padding_idx == len(found.kept) - 1


def test_positions_that_begin_at_the_paddings_id_do_not_move():
    tokenizer = make_byte_bpe()
    tokenizer.pad_token = "Ġthe"  # some token in the middle
    at = tokenizer.pad_token_id
    assert at > 100
    model = make("RobertaModel", tokenizer, max_position_embeddings=at + 64)
    found = trim(model, tokenizer, DOMAIN)
    assert found.tokenizer.pad_token_id == found.model.config.pad_token_id == at
    before, after = outputs(model, tokenizer), outputs(found.model, found.tokenizer)
    assert torch.equal(before.last_hidden_state, after.last_hidden_state)


def test_what_is_saved_is_told():
    tokenizer = make_word_piece()
    model = make("BertModel", tokenizer)
    found = trim(model, tokenizer, DOMAIN)
    rows = len(tokenizer) - len(found.kept)
    assert found.to_json() == {
        "tokens_before": len(tokenizer),
        "tokens": len(found.kept),
        "saved_mb": rows * 32 * 4 / 1e6,
    }


def test_everything_kept_changes_nothing():
    tokenizer = make_byte_bpe()
    model = make("RobertaModel", tokenizer, max_position_embeddings=64)
    whole = " ".join(CORPUS[:9])
    found = trim(trim(model, tokenizer, [whole]).model, trim(model, tokenizer, [whole]).tokenizer, [whole])
    assert found.kept == tuple(range(len(found.tokenizer)))


FRESH = """
import sys, torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
folder, text = sys.argv[1:]
model, tokenizer = AutoModelForSequenceClassification.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
with torch.inference_mode():
    print(model(**tokenizer(text, return_tensors="pt")).logits.double().tolist())
print(type(model).__module__, type(tokenizer).__name__)
"""


@pytest.mark.parametrize("kind", list(ENCODERS)[:3])
def test_a_fresh_process_loads_it_with_plain_transformers(kind, tmp_path):
    tokenizer = ENCODERS[kind]()
    model = make(kind, tokenizer, max_position_embeddings=64)
    found = trim(model, tokenizer, DOMAIN)
    found.model.save_pretrained(tmp_path)
    found.tokenizer.save_pretrained(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", FRESH, str(tmp_path), DOMAIN[0]], capture_output=True, text=True, check=True
    )
    logits, names = done.stdout.splitlines()
    # Not to the bit: on some CPUs products depend on where a process has its memory.
    expected = outputs(model, tokenizer, [DOMAIN[0]]).logits.double()
    assert torch.allclose(torch.tensor(json.loads(logits), dtype=torch.float64), expected, rtol=1e-5)
    assert names == f"{type(model).__module__} {type(tokenizer).__name__}"


def test_a_successor_that_only_a_plan_describes_is_trimmed_too(tmp_path):
    import plankwise
    from plankwise.core.slot import Place
    from plankwise.models.planned_config import PlannedConfig

    tokenizer = make_word_piece()
    model = make("BertForSequenceClassification", tokenizer, num_hidden_layers=4)
    ship = plankwise.hybrid(model, successors=2)
    places = [module for module in ship.modules() if isinstance(module, Place)]
    first, second = (place.successor for place in places if place.successor is not None)
    for name, _ in list(second.named_parameters()):  # one block's weights in both places, which no config of BERT says
        path, _, last = name.rpartition(".")
        setattr(second.get_submodule(path), last, first.get_parameter(name))
    successor = ship.collapse()
    assert isinstance(successor.config, PlannedConfig)
    found = trim(successor, tokenizer, DOMAIN)
    expected = outputs(successor, tokenizer).logits
    assert torch.equal(outputs(found.model, found.tokenizer).logits, expected)
    found.model.save_pretrained(tmp_path)
    assert torch.equal(outputs(plankwise.load(tmp_path), found.tokenizer).logits, expected)


def test_a_model_reads_the_ids_of_a_smaller_tokenizer():
    tokenizer = make_word_piece()
    model = make("BertModel", tokenizer)
    found = trim(model, tokenizer, DOMAIN)
    expected = outputs(model, tokenizer).last_hidden_state
    with reading(model, tokenizer, found.tokenizer):
        assert torch.equal(outputs(model, found.tokenizer).last_hidden_state, expected)
    assert torch.equal(outputs(model, tokenizer).last_hidden_state, expected)


def test_what_is_not_a_language_model_is_refused():
    with pytest.raises(ConfigError, match="the model is a Linear, whose vocabulary cannot be trimmed"):
        trim(torch.nn.Linear(2, 2), make_word_piece(), DOMAIN)
    vision = transformers.ViTModel(transformers.ViTConfig(**SMALL, image_size=16, patch_size=8))
    with pytest.raises(ConfigError, match="the model is a ViTModel"):
        trim(vision, make_word_piece(), DOMAIN)


def test_a_token_without_a_row_is_refused():
    tokenizer = make_word_piece()
    model = make("BertModel", tokenizer)
    tokenizer.add_tokens(["shipwright"])
    with pytest.raises(ConfigError, match=f"'shipwright' with the id {len(tokenizer) - 1}, but the model's embedding"):
        trim(model, tokenizer, DOMAIN)
