"""Thin blocks: taking heads and channels out is masking them, which are kept, shares and numbers, saving, and what is refused."""

import copy

import pytest
import torch
import transformers

import plankwise
from plankwise.config import validate_config, validate_part
from plankwise.core.chain import find_chains
from plankwise.core.plan import Plan, Slot, even_plan, listed_plan
from plankwise.errors import ConfigError, PlanError
from plankwise.models.plans import assemble, build_successors, make_plan, take_out
from plankwise.models.saving import save
from plankwise.parts._units import find_units, keep_units

WIDTH = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}
SMALL = {**WIDTH, "vocab_size": 30, "max_position_embeddings": 32, "initializer_range": 0.3, "pad_token_id": 0}
CAUSAL = {**SMALL, "num_key_value_heads": 2, "head_dim": 4, "bos_token_id": 1, "eos_token_id": 2}
DISTIL = {"dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 24, "vocab_size": 30, "initializer_range": 0.3}
SIDES = {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in
         {"layers": 2, "attention_heads": 4, "ffn_dim": 24}.items()}  # fmt: skip
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
MODELS = {
    "bert": ("BertForSequenceClassification", SMALL),
    "roberta": ("RobertaForSequenceClassification", SMALL),
    "electra": ("ElectraForSequenceClassification", {**SMALL, "embedding_size": 8}),
    "mpnet": ("MPNetForSequenceClassification", SMALL),
    "distilbert": ("DistilBertForSequenceClassification", DISTIL),
    "deberta-v2": (
        "DebertaV2ForSequenceClassification",
        {**SMALL, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    ),
    "modernbert": ("ModernBertForSequenceClassification", {**SMALL, "cls_token_id": 1, "sep_token_id": 2}),
    "gpt2": ("GPT2LMHeadModel", {"n_embd": 16, "n_layer": 2, "n_head": 4, "vocab_size": 30, "initializer_range": 0.3}),
    "llama": ("LlamaForCausalLM", CAUSAL),
    "qwen3": ("Qwen3ForCausalLM", CAUSAL),
    "olmo2": ("Olmo2ForCausalLM", CAUSAL),
    "mixtral": ("MixtralForCausalLM", CAUSAL),
    "bart": (
        "BartForConditionalGeneration",
        {"d_model": 16, **SIDES, **TOKENS, "vocab_size": 30, "init_std": 0.3, "forced_eos_token_id": None},
    ),
    "t5": (
        "T5ForConditionalGeneration",
        {"vocab_size": 30, "d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_heads": 4},
    ),
    "gpt_neox": ("GPTNeoXForCausalLM", {**SMALL, "bos_token_id": 1, "eos_token_id": 2}),
}
NO_HEADS = {
    "mpnet": "made outside of the block",
    "t5": "relative_attention_bias.weight has 32 x 4 weights",
    "olmo2": r"q_norm.weight has 16 weights",
    "gpt_neox": "no module in it says how wide a head is",
}
NO_FFN = {"mixtral": "it has 0 linear maps", "gpt_neox": "not those of one feed-forward network"}


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


def make(name="bert", **more):
    torch.manual_seed(0)
    class_name, options = MODELS[name]
    return getattr(transformers, class_name)(transformers.AutoConfig.for_model(name, **{**options, **more})).eval()


def make_inputs(model):
    """Two texts; the second has three tokens of padding."""
    ids = torch.randint(3, 30, (2, 7), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    ids[1, 4:] = mask[1, 4:] = 0
    more = {"decoder_input_ids": ids} if model.config.is_encoder_decoder else {}
    return {"input_ids": ids, "attention_mask": mask, **more}


def logits(model):
    return model(**make_inputs(model)).logits


def thin_plan(model, count=2, **options) -> Plan:
    return even_plan(find_chains(model), count, "thin", options)


def successor_of(model, plan, init="lower"):
    """The successor by itself, with the weights that it starts from."""
    model = copy.deepcopy(model)
    return take_out(assemble(model, plan, build_successors(model, plan, init=init, seed=0)))


def mask_units(block, units, kept):
    """Multiplies by 0 what all units but the kept ones give."""
    mask = torch.zeros(units.count, 1)
    mask[kept] = 1

    def silence(_, args):
        return ((args[0].unflatten(-1, (units.count, units.size)) * mask).flatten(-2),)

    block.get_submodule(units.output).register_forward_pre_hook(silence)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        *((name, "heads") for name in MODELS if name not in NO_HEADS),
        *((name, "ffn") for name in MODELS if name not in NO_FFN),
    ],
)
def test_taking_units_out_gives_what_masking_them_gives(name, what):
    model = make(name)
    masked, cut = copy.deepcopy(model), copy.deepcopy(model)
    for chain in find_chains(model):
        for index in range(2):
            found = find_units(model.get_submodule(chain.path)[index])
            for units in found.heads if what == "heads" else [found.ffn]:
                kept = torch.arange(units.count)[1:]
                mask_units(masked.get_submodule(chain.path)[index], units, kept)
                keep_units(cut.get_submodule(chain.path)[index], units, kept)
    assert (logits(masked) - logits(model)).abs().max() > 1e-4
    torch.testing.assert_close(logits(cut), logits(masked), atol=1e-5, rtol=1e-4)
    assert sum(one.numel() for one in cut.parameters()) < sum(one.numel() for one in model.parameters())


@pytest.mark.parametrize(
    ("name", "key", "reason"),
    [*((name, "heads", why) for name, why in NO_HEADS.items()), *((name, "ffn", why) for name, why in NO_FFN.items())],
)
def test_what_cannot_be_taken_out_is_refused_with_the_reason_and_what_to_give(name, key, reason):
    model = make(name)
    plan = thin_plan(model, **{"ffn": 1.0, key: 0.5})
    with pytest.raises(PlanError, match=rf"plan\.options\.{key} is 0\.5, but slot .*{reason}.*give {key} = 1\.0"):
        build_successors(model, plan, init="lower", seed=0)


@pytest.mark.parametrize("init", ["lower", "upper", "mean"])
def test_a_share_of_one_gives_what_a_whole_block_gives_to_the_bit(init):
    model = make()
    plan = thin_plan(model, 1, ffn=1.0, heads=1)
    thin, whole = (successor_of(model, one, init) for one in (plan, even_plan(find_chains(model), 1, "layers", {})))
    assert torch.equal(logits(thin), logits(whole))
    assert thin.config.to_dict() == whole.config.to_dict()


@pytest.mark.parametrize(
    ("options", "heads", "ffn"),
    [
        ({}, 4, 12),
        ({"ffn": 0.25, "heads": 0.75}, 3, 6),
        ({"ffn": 1e-9, "heads": 1e-9}, 1, 1),
        ({"ffn": 10, "heads": 2}, 2, 10),
    ],
)
def test_options_up_to_one_are_shares_and_above_one_numbers(options, heads, ffn):
    model = make()
    for block in build_successors(model, thin_plan(model, **options), init="lower", seed=0):
        assert block.intermediate.dense.out_features == block.output.dense.in_features == ffn
        assert block.attention.self.num_attention_heads == heads
        assert block.attention.self.all_head_size == block.attention.self.query.out_features == heads * 4


def test_options_that_keep_nothing_or_a_part_of_a_unit_are_refused():
    for value in (0, -1):
        with pytest.raises(ConfigError, match=rf"plan\.options\.heads is {value}"):
            validate_part("thin", {"heads": value})
    with pytest.raises(ConfigError, match=r"plan\.options\.ffn: 1\.5 is neither a share nor a number; give a share"):
        validate_part("thin", {"ffn": 1.5})


@pytest.mark.parametrize(("options", "most"), [({"heads": 5}, 4), ({"ffn": 25}, 24)])
def test_more_than_a_block_has_is_refused(options, most):
    model = make()
    with pytest.raises(PlanError, match=rf"holds a BertLayer with {most} of them in .* or a number up to {most}"):
        build_successors(model, thin_plan(model, **options), init="lower", seed=0)


def test_without_texts_the_weightiest_channels_and_heads_are_kept_in_their_order():
    model = make()
    block = model.bert.encoder.layer[0]
    kept, heads = [3, 7, 20], [1, 3]
    block.output.dense.weight[:, kept] *= 100
    for head in heads:
        block.attention.output.dense.weight[:, 4 * head : 4 * head + 4] *= 100
    thin = build_successors(model, thin_plan(model, ffn=3, heads=2), init="lower", seed=0)[0]
    rows = [4 * head + place for head in heads for place in range(4)]
    assert torch.equal(thin.output.dense.weight, block.output.dense.weight[:, kept])
    assert torch.equal(thin.intermediate.dense.bias, block.intermediate.dense.bias[kept])
    assert torch.equal(thin.attention.self.value.weight, block.attention.self.value.weight[rows])
    assert torch.equal(thin.output.LayerNorm.weight, block.output.LayerNorm.weight)


@pytest.mark.parametrize("name", ["bert", "distilbert", "modernbert", "gpt2", "llama", "t5", "bart"])
def test_thinner_feed_forward_networks_alone_are_a_plain_checkpoint(name, tmp_path):
    model = make(name)
    successor = successor_of(model, thin_plan(model, 1, ffn=0.5))
    assert type(successor) is type(model)
    assert successor.config.model_type == model.config.model_type
    successor.save_pretrained(tmp_path / "thin")
    loaded = type(model).from_pretrained(tmp_path / "thin").eval()
    torch.testing.assert_close(logits(loaded), logits(successor), atol=1e-6, rtol=1e-6)


def test_thin_blocks_start_from_a_checkpoint_that_is_as_thin_with_its_own_weights(tmp_path):
    model = make()
    plan = thin_plan(model, ffn=0.25)
    trained = successor_of(model, plan)
    for parameter in trained.parameters():
        parameter.add_(0.1)
    save(trained, tmp_path / "thin", None)
    again = successor_of(model, plan, init=str(tmp_path / "thin"))
    for block, expected in zip(again.bert.encoder.layer, trained.bert.encoder.layer, strict=True):
        assert all(torch.equal(*pair) for pair in zip(block.parameters(), expected.parameters(), strict=True))


def test_a_checkpoint_of_yet_another_width_is_refused(tmp_path):
    model = make()
    save(successor_of(model, thin_plan(model, ffn=0.5)), tmp_path / "wider", None)
    with pytest.raises(PlanError, match=r"plan\.init is .*intermediate\.dense\.weight is \(12, 16\) there"):
        successor_of(model, thin_plan(model, ffn=0.25), init=str(tmp_path / "wider"))


@pytest.mark.parametrize("name", ["bert", "distilbert", "deberta-v2", "gpt2", "llama", "bart"])
def test_fewer_heads_are_saved_with_the_plan_and_loaded_with_equal_outputs(name, tmp_path):
    model = make(name)
    successor = successor_of(model, thin_plan(model, 1, ffn=0.5, heads=0.5))
    assert successor.config.model_type == "plankwise"
    save(successor, tmp_path / "thin")
    loaded = plankwise.load(tmp_path / "thin").eval()
    assert all(torch.equal(value, loaded.state_dict()[key]) for key, value in successor.state_dict().items())
    torch.testing.assert_close(logits(loaded), logits(successor), atol=1e-6, rtol=1e-6)


def test_blocks_of_several_widths_are_saved_with_the_plan(tmp_path):
    model = make()
    plan = listed_plan(find_chains(model), [[1]], "thin", {"ffn": 0.5})  # the first block stays as it is
    successor = successor_of(model, plan)
    widths = [block.intermediate.dense.out_features for block in successor.bert.encoder.layer]
    assert (widths, successor.config.model_type) == ([24, 12], "plankwise")
    save(successor, tmp_path / "thin")
    assert torch.equal(logits(plankwise.load(tmp_path / "thin").eval()), logits(copy.deepcopy(successor)))


def test_successors_start_from_a_checkpoint_of_the_same_plan(tmp_path):
    model = make(num_hidden_layers=6)
    solved = successor_of(model, tapered(model))
    solved.bert.encoder.layer[5].intermediate.dense.weight.mul_(2)
    save(solved, tmp_path / "solved")
    again = successor_of(model, tapered(model), init=str(tmp_path / "solved"))
    assert torch.equal(logits(again), logits(solved))
    assert not torch.equal(logits(again), logits(successor_of(model, tapered(model))))


def test_a_module_inside_a_block_is_not_thinned():
    model = make()
    plan = Plan((Slot("bert.encoder.layer.0.attention", part="thin"),))
    with pytest.raises(PlanError, match=r"which replaces blocks, but slot .* holds a BertAttention"):
        build_successors(model, plan, init="lower", seed=0)


def tapered(model, **options) -> Plan:
    return make_plan(model, validate_config({"plan": {"cut": "tapered", "options": options}}).plan)


def test_tapered_blocks_get_thinner_from_below_and_are_half_of_the_work():
    whole = 2 * 16 * 64, 4 * 16 * 16  # weights of a block's feed-forward network, and of its attention
    for num_layers in (6, 12):
        model = make(num_hidden_layers=num_layers, intermediate_size=64)
        blocks = successor_of(model, tapered(model)).bert.encoder.layer
        channels = [block.intermediate.dense.out_features for block in blocks]
        heads = [block.attention.self.query.out_features // 4 for block in blocks]
        each = num_layers // 6
        assert channels == [n for n in (64, 32, 16, 8, 8, 8) for _ in range(each)]
        assert heads == [n for n in (4, 4, 4, 2, 2, 2) for _ in range(each)]
        assert [slot.span[0] for slot in tapered(model).slots] == list(range(each, num_layers))
        shares = [whole[0] * c / 64 + whole[1] * h / 4 for c, h in zip(channels, heads, strict=True)]
        assert 0.48 < sum(shares) / (num_layers * sum(whole)) < 0.5


def test_an_option_of_a_tapered_plan_holds_for_every_block():
    assert {slot.options["heads"] for slot in tapered(make(), heads=1.0).slots} == {1.0}


@pytest.mark.parametrize("name", sorted(MODELS.keys() - NO_FFN.keys()))
def test_families_whose_heads_cannot_be_taken_out_keep_them_in_a_tapered_plan(name):
    model = make(name)
    plan = tapered(model)
    assert {slot.options["heads"] for slot in plan.slots} == ({1.0} if name in NO_HEADS else {0.5})
    build_successors(model, plan, init="lower", seed=0)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"successors": 3}, r"cut is 'tapered', which gives each block a successor, but successors is given too"),
        ({"part": "layers"}, r"cut is 'tapered', which is of thin blocks, but part is 'layers'; leave part out"),
    ],
)
def test_a_tapered_plan_is_of_thin_blocks_alone(plan, message):
    with pytest.raises(ConfigError, match=message):
        validate_config({"plan": {"cut": "tapered", **plan}})
