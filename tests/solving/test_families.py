"""Every promised family, tiny and random: half the blocks, solved, are nearer to the predecessor than copies are."""

import pytest
import torch
import transformers

from plankwise.core.chain import find_chains
from plankwise.core.plan import even_plan
from plankwise.errors import PlanError
from plankwise.models.plans import take_out

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": 99,
    "max_position_embeddings": 64,
    "initializer_range": 0.2,  # so that a block does something
}
GROUPED = {**SMALL, "num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
MODERN = {"global_attn_every_n_layers": 3, "local_attention": 4, "bos_token_id": 1, "eos_token_id": 2}
FAMILIES = {
    "bert": ("BertForSequenceClassification", SMALL),
    "roberta": ("RobertaForSequenceClassification", {**SMALL, "pad_token_id": 0}),
    "mpnet": ("MPNetForSequenceClassification", {**SMALL, "pad_token_id": 0}),
    "deberta-v2": (
        "DebertaV2ForSequenceClassification",
        {**SMALL, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "conv_kernel_size": 3},
    ),
    "deberta-v3": (  # whose queries and keys read relative positions too
        "DebertaV2ForSequenceClassification",
        {**SMALL, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "share_att_key": True},
    ),
    "electra": ("ElectraForSequenceClassification", {**SMALL, "embedding_size": 16}),
    "modernbert": (
        "ModernBertForSequenceClassification",
        {**SMALL, **MODERN, "pad_token_id": 0, "cls_token_id": 1, "sep_token_id": 2},
    ),
    "gpt2": (
        "GPT2LMHeadModel",
        {
            "n_embd": 32,
            "n_layer": 4,
            "n_head": 4,
            "vocab_size": 99,
            "n_positions": 64,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "initializer_range": 0.2,
        },
    ),
    "llama": ("LlamaForCausalLM", GROUPED),
    "t5": (
        "T5ForConditionalGeneration",
        {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 4, "num_heads": 4},
    ),
    "vit": (
        "ViTForImageClassification",
        {**{key: SMALL[key] for key in list(SMALL)[:4]}, "image_size": 16, "patch_size": 4, "initializer_range": 0.2},
    ),
}


def make(name, toys):
    """A model and batches for it."""
    class_name, options = FAMILIES[name]
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(name.replace("deberta-v3", "deberta-v2"), **options)
    model = getattr(transformers, class_name)(config).eval()
    if name == "vit":
        return model, [{"pixel_values": torch.randn(16, 3, 16, 16)} for _ in range(10)]
    batches = toys.make_tokens(rows=24)
    if name == "t5":
        for batch, other in zip(batches, toys.make_tokens(rows=24, seed=1), strict=True):
            batch |= {f"decoder_{key}": value for key, value in other.items()}
    return model, batches


@pytest.mark.parametrize("name", FAMILIES)
def test_half_the_blocks_solved_are_nearer_to_the_predecessor_than_copies(name, toys, solved):
    model, batches = make(name, toys)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    found = solved(model, batches)
    assert len(found.solution.slots) == (4 if name == "t5" else 2)
    assert 0 < found.effect < found.solution.effect_before
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())  # it is only read
    successor = take_out(solved.assemble(model, found.plan, found.successors))
    assert all(torch.isfinite(value).all() for value in successor.state_dict().values())
    assert successor(**batches[0]).logits.shape[0] == len(next(iter(batches[0].values())))


def test_maps_that_run_twice_stay_as_they_were(toys, solved):
    model, batches = make("deberta-v3", toys)
    found = solved(model, batches)
    for slot, successor, donors in zip(found.solution.slots, found.successors, ((0, 1), (2, 3)), strict=True):
        donor = model.deberta.encoder.layer[donors[slot["start"] == "upper"]]
        for name in ("query_proj", "key_proj"):
            path = f"attention.self.{name}.weight"
            assert torch.equal(successor.state_dict()[path], donor.state_dict()[path])
        assert slot["maps"] == (4 if slot["start"] == "upper" else 1)


def test_of_t5_each_chain_alone_is_solved(toys, solved):
    model, batches = make("t5", toys)
    for chain in find_chains(model):
        found = solved(model, batches, even_plan([chain]))
        assert 0 < found.effect < found.solution.effect_before


def test_a_block_that_ends_in_a_norm_of_its_last_map_is_refused_by_the_name_of_its_slot(toys, solved):
    config = transformers.Gemma2Config(**GROUPED)
    model = transformers.Gemma2ForCausalLM(config).eval()
    with pytest.raises(PlanError, match=r"slot model\.layers 0-1, a Gemma2DecoderLayer, .* choose another plan\.init"):
        solved(model, toys.make_tokens(4))
