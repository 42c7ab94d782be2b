"""The contract of every family, on tiny random models: 14 that are promised and two more that hand blocks arguments by index."""

import json
import subprocess
import sys

import pytest
import torch
import transformers

import plankwise
from plankwise.errors import PlanError
from plankwise.families import chains_of

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": 99,
    "max_position_embeddings": 64,
}
GROUPED = {**SMALL, "num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SEQ2SEQ = {
    "vocab_size": 99,
    "d_model": 32,
    "encoder_layers": 4,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "eos_token_id": 2,
    "forced_eos_token_id": None,
}
FAMILIES = {
    "bert": ("BertForSequenceClassification", SMALL),
    "roberta": ("RobertaForSequenceClassification", {**SMALL, "pad_token_id": 1}),
    "electra": ("ElectraForSequenceClassification", {**SMALL, "embedding_size": 16}),
    "mpnet": ("MPNetForSequenceClassification", SMALL),
    "deberta-v2": (
        "DebertaV2ForSequenceClassification",
        {
            **SMALL,
            "relative_attention": True,
            "pos_att_type": ["p2c", "c2p"],
            "conv_kernel_size": 3,
            "conv_act": "gelu",
        },
    ),
    "distilbert": (
        "DistilBertForSequenceClassification",
        {"dim": 32, "n_layers": 4, "n_heads": 4, "hidden_dim": 48, "vocab_size": 99, "max_position_embeddings": 64},
    ),
    "xlnet": (
        "XLNetForSequenceClassification",
        {"vocab_size": 99, "d_model": 32, "n_layer": 4, "n_head": 4, "d_inner": 48},
    ),
    "modernbert": (
        "ModernBertForSequenceClassification",
        {
            **SMALL,
            "global_attn_every_n_layers": 3,
            "local_attention": 4,
            "pad_token_id": 0,
            "cls_token_id": 1,
            "sep_token_id": 2,
        },
    ),
    "gpt2": (
        "GPT2LMHeadModel",
        {"n_embd": 32, "n_layer": 4, "n_head": 4, "vocab_size": 99, "n_positions": 64, "eos_token_id": 2},
    ),
    "llama": ("LlamaForCausalLM", GROUPED),
    "qwen3": ("Qwen3ForCausalLM", GROUPED),
    "gemma3_text": (
        "Gemma3ForCausalLM",
        {**GROUPED, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"] * 2},
    ),
    "bart": ("BartForSequenceClassification", {**SEQ2SEQ, "encoder_layerdrop": 0.5, "decoder_layerdrop": 0.5}),
    "t5": (
        "T5ForConditionalGeneration",
        {
            "vocab_size": 99,
            "d_model": 32,
            "d_kv": 8,
            "d_ff": 48,
            "num_layers": 4,
            "num_decoder_layers": 2,
            "num_heads": 4,
        },
    ),
    "marian": ("MarianMTModel", {**SEQ2SEQ, "decoder_start_token_id": 0}),
    "vit": (
        "ViTForImageClassification",
        {**{key: SMALL[key] for key in list(SMALL)[:4]}, "image_size": 16, "patch_size": 4},
    ),
}
GENERATING = ("gpt2", "llama", "qwen3", "gemma3_text", "t5", "marian")


def make(name):
    class_name, options = FAMILIES[name]
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(name, **options)
    if name == "t5":
        config.decoder_start_token_id = 0
    if name == "vit":
        inputs = {"pixel_values": torch.randn(2, 3, 16, 16), "labels": torch.tensor([0, 1])}
    else:
        ids = torch.randint(3, 99, (2, 12))
        ids[:, -1] = 2
        padding = torch.ones_like(ids)
        if name != "bart":  # its head reads the last end token
            padding[0, 9:] = 0
        labels = ids if name in GENERATING else torch.tensor([0, 1])
        inputs = {"input_ids": ids, "attention_mask": padding, "labels": labels}
    return getattr(transformers, class_name)(config).eval(), inputs


@torch.no_grad()
def logits(model, inputs):
    return model(**inputs).logits


def train_a_little(ship, inputs, steps=4):
    optimiser = torch.optim.SGD([p for p in ship.parameters() if p.requires_grad], lr=0.5)
    ship.begin(steps)
    ship.train()
    for step in range(steps):
        ship.set_step(step)
        ship(**inputs).loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    return ship.eval()


@pytest.mark.parametrize("name", FAMILIES)
def test_installing_slots_changes_no_output_bit(name):
    model, inputs = make(name)
    before = logits(model, inputs)
    ship = plankwise.hybrid(model)
    with ship.masked(False):
        assert torch.equal(logits(ship, inputs), before)


@pytest.mark.parametrize("name", FAMILIES)
def test_successors_that_run_beside_their_spans_change_no_output_bit_and_copies_of_one_block_give_equal_states(name):
    model, inputs = make(name)
    before = logits(model, inputs)
    ship = plankwise.hybrid(model, spans=[[0], [1]], chains=[chains_of(model)[0].path])
    with ship.paired() as slots:
        assert torch.equal(logits(ship, inputs), before)
        assert all(torch.equal(slot.pair.span, slot.pair.successor) for slot in slots)


@pytest.mark.parametrize("init", ["first", "lower", "upper", "spread", "mean", "random"])
@pytest.mark.parametrize("name", ["modernbert", "t5", "gemma3_text", "deberta-v2"])
def test_families_that_treat_blocks_by_index_collapse_exactly_from_every_start(name, init):
    model, inputs = make(name)
    ship = plankwise.hybrid(model, init=init).eval()
    assert torch.equal(logits(ship, inputs), logits(ship.collapse(), inputs))


@pytest.mark.parametrize("name", ["modernbert", "gemma3_text", "t5", "bert"])
def test_uneven_spans_with_blocks_left_alone_collapse_exactly(name):
    model, inputs = make(name)
    paths = ["encoder.block"] if name == "t5" else None
    ship = train_a_little(plankwise.hybrid(model, spans=[[1, 2]], chains=paths), inputs)
    assert torch.equal(logits(ship, inputs), logits(ship.collapse(), inputs))


LOADER = """
import json, sys, torch, transformers
sys.modules["plankwise"] = None  # importing it fails from here on
transformers.utils.logging.set_verbosity_error()
for folder, class_name, generates in json.load(open(sys.argv[1])):
    model = getattr(transformers, class_name).from_pretrained(folder).eval()
    inputs = torch.load(folder + "/inputs.pt")
    with torch.no_grad():
        found = {"logits": model(**inputs).logits}
    if generates:
        ask = {"inputs": inputs["input_ids"][1:], "max_new_tokens": 6, "do_sample": False}
        found["cached"] = model.generate(**ask)
        found["uncached"] = model.generate(**ask, use_cache=False)
    torch.save(found, folder + "/found.pt")
"""


def test_successors_reload_in_a_process_without_plankwise_with_equal_outputs(tmp_path):
    expected, jobs = {}, []
    for name in FAMILIES:
        model, inputs = make(name)
        ship = train_a_little(plankwise.hybrid(model), inputs)
        successor = ship.collapse()
        expected[name] = {"logits": logits(ship, inputs)}
        assert torch.equal(logits(successor, inputs), expected[name]["logits"]), name
        if name in GENERATING:
            ask = {"inputs": inputs["input_ids"][1:], "max_new_tokens": 6, "do_sample": False}
            expected[name] |= {"cached": ship.generate(**ask), "uncached": successor.generate(**ask)}
        folder = tmp_path / name
        successor.save_pretrained(folder)
        torch.save(inputs, folder / "inputs.pt")
        jobs.append((str(folder), FAMILIES[name][0], name in GENERATING))
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    subprocess.run(
        [sys.executable, "-c", LOADER, str(tmp_path / "jobs.json")], check=True, capture_output=True, text=True
    )
    for name, tensors in expected.items():
        found = torch.load(tmp_path / name / "found.pt")
        for key, tensor in tensors.items():
            assert torch.equal(found[key], tensor), f"{name}: {key}"


def test_the_successors_config_says_its_depth_for_each_chain():
    model, _ = make("bart")
    config = plankwise.hybrid(model, chains=["model.encoder.layers"], successors=1).collapse().config
    assert (config.encoder_layers, config.decoder_layers) == (1, 2)
    model, _ = make("modernbert")
    kept = [model.config.layer_types[0], model.config.layer_types[2]]
    assert plankwise.hybrid(model).collapse().config.layer_types == kept


def test_albert_is_refused_with_the_reason_and_a_way_out():
    config = transformers.AlbertConfig(**{**SMALL, "embedding_size": 16})
    with pytest.raises(PlanError, match=r"one shared block 4 times.*num_hidden_layers.*BERT or RoBERTa"):
        plankwise.hybrid(transformers.AlbertForSequenceClassification(config))


@pytest.mark.parametrize("name", ["bert", "gpt2", "vit", "t5"])
@pytest.mark.parametrize(("unfreeze", "trained"), [("head", "head"), ("embeddings", "embeddings"), ("all", None)])
def test_unfreezing_takes_embeddings_or_head(name, unfreeze, trained):
    model, _ = make(name)
    embedding = model.get_input_embeddings()
    head = {
        "bert": "classifier.bias",
        "gpt2": "transformer.ln_f.weight",
        "vit": "classifier.bias",
        "t5": "encoder.final_layer_norm.weight",
    }
    ship = plankwise.hybrid(model, unfreeze=unfreeze, schedule=plankwise.Constant(rate=1.0))
    ship.begin(1)
    weight = next(embedding.parameters())
    assert weight.requires_grad == (trained in ("embeddings", None))  # tied to the head or not
    assert ship.get_parameter(head[name]).requires_grad == (trained in ("head", None))
    chain = ship.get_submodule(ship.plan.slots[0].path)
    assert not any(parameter.requires_grad for parameter in chain[0].block.parameters())
