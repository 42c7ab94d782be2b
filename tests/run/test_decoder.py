"""Decoders on the next token, from text to a successor that writes: GPT-2's shape and Llama's, trained here from nothing."""

import json

import pytest
import torch
from rich.console import Console
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    pipeline,
)

from plankwise.config import load_config
from plankwise.run.compress import compress
from plankwise.run.inference import evaluate

LINE = (
    "the ship leaves the harbour",
    "a sailor repairs the plank",
    "the plank carries a sailor",
    "a ship finds the harbour",
)


def save_tokenizer(folder, text):
    """Words of the text, learnt on the spot."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator([text], trainers.WordLevelTrainer(special_tokens=["<unk>", "<end>"]))
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", eos_token="<end>", pad_token="<end>", model_max_length=64
    )
    fast.save_pretrained(folder)
    return len(fast)


def make_gpt2(size):
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=size, n_embd=16, n_layer=4, n_head=2, n_positions=64, eos_token_id=1, bos_token_id=1)
    )


def make_llama(size):
    sizes = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2, "num_key_value_heads": 1}
    return LlamaForCausalLM(
        LlamaConfig(**sizes, intermediate_size=32, vocab_size=size, max_position_embeddings=64, eos_token_id=1)
    )


@pytest.fixture
def recipe(tmp_path):
    """Makes the recipe for a decoder of 4 blocks that is to keep 2."""

    def make(build):
        (tmp_path / "corpus.txt").write_text(
            "\n".join(f"{LINE[index % 4]} and {LINE[index // 4 % 4]} {index}" for index in range(120)), "utf-8"
        )
        torch.manual_seed(0)
        size = save_tokenizer(tmp_path / "decoder", "\n".join(LINE) + " and")
        build(size).save_pretrained(tmp_path / "decoder")
        path = tmp_path / "recipe.toml"
        path.write_text(
            f"""
            [run]
            folder = {json.dumps(str(tmp_path / "run"))}
            [predecessor]
            path = {json.dumps(str(tmp_path / "decoder"))}
            finetune = true
            training = {{ max_steps = 30, learning_rate = 1e-2, batch_size = 8 }}
            [task]
            name = "text"
            path = {json.dumps(str(tmp_path / "corpus.txt"))}
            objective = "clm"
            [plan]
            successors = 2
            [training]
            max_steps = 4
            batch_size = 8
            max_length = 16
            [evaluation]
            latency = false
            truncated = false
            """,
            "utf-8",
        )
        return path

    return make


def write(model, *, use_cache):
    """What a model writes on after a text, and the logits of each token."""
    found = model.generate(
        torch.tensor([[2, 3, 4]]),
        attention_mask=torch.ones(1, 3, dtype=torch.long),
        max_new_tokens=12,
        min_new_tokens=12,
        do_sample=False,
        use_cache=use_cache,
        output_logits=True,
        return_dict_in_generate=True,
    )
    return found.sequences, torch.cat(found.logits)


@pytest.mark.parametrize(
    ("build", "method"), [(make_gpt2, "replacing"), (make_gpt2, "drop"), (make_llama, "drop"), (make_llama, "solve")]
)
def test_a_successor_that_was_loaded_again_writes_the_same_with_and_without_a_cache(build, method, recipe, tmp_path):
    path = recipe(build)
    record = compress(load_config(path, [f"method.name={method}"]), Console(quiet=True))
    model, info = AutoModelForCausalLM.from_pretrained(tmp_path / "run" / "successor", output_loading_info=True)
    assert not info["missing_keys"]
    assert model.config.num_hidden_layers == 2
    (cached, logits), (plain, others) = write(model.eval(), use_cache=True), write(model, use_cache=False)
    assert torch.equal(cached, plain)
    torch.testing.assert_close(logits, others, atol=1e-5, rtol=1e-4)
    assert 1 < record["predecessor"]["metrics"]["perplexity"] < model.config.vocab_size
    again = load_config(path, [f"predecessor.path={tmp_path / 'run' / 'successor'}"])
    found = evaluate(again, Console(quiet=True))["perplexity"]
    assert found == pytest.approx(record["successor"]["metrics"]["perplexity"], rel=1e-5)
    if method == "drop":
        (chain,), (gone,) = record["dropped"].keys(), record["dropped"].values()
        assert record["plan"] == [{"path": chain, "span": (gone[0] - 1, *gone), "part": "layers", "options": {}}]


def test_the_pipeline_that_the_card_names_writes_on(recipe, tmp_path):
    compress(load_config(recipe(make_gpt2), ["method.name=drop", "method.blocks=any"]), Console(quiet=True))
    assert 'pipeline_tag: "text-generation"' in (tmp_path / "run" / "successor" / "README.md").read_text("utf-8")
    written = pipeline("text-generation", model=str(tmp_path / "run" / "successor"))("the ship", max_new_tokens=3)
    assert written[0]["generated_text"].startswith("the ship")
