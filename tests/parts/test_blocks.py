"""Parts that replace blocks by something else: families, decoders, padding, what is solved, known identities, refusals."""

import copy

import pytest
import torch
import transformers
from torch import nn

import plankwise
from plankwise.config import validate_part
from plankwise.core.chain import find_chains
from plankwise.core.hybrid import install
from plankwise.core.plan import Plan, even_plan, listed_plan
from plankwise.core.schedule import Constant
from plankwise.errors import ConfigError, PlanError, RunError
from plankwise.kinds import list_kinds, load_kind
from plankwise.models.plans import assemble, build_successors, take_out
from plankwise.models.saving import save
from plankwise.parts import Span
from plankwise.parts._blocks import find_form
from plankwise.parts._blocks_modules import find_real
from plankwise.solving.solve import solve

SMALL = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 24}
TEXTS = {**SMALL, "vocab_size": 50, "max_position_embeddings": 32, "initializer_range": 0.2, "pad_token_id": 0}
MODELS = {
    "bert": ("BertForSequenceClassification", TEXTS),
    "gpt2": (
        "GPT2LMHeadModel",
        {"n_embd": 16, "n_layer": 4, "n_head": 4, "vocab_size": 50, "initializer_range": 0.2, "eos_token_id": 2},
    ),
    "llama": ("LlamaForCausalLM", {**TEXTS, "num_key_value_heads": 2, "bos_token_id": 1, "eos_token_id": 2}),
    "vit": ("ViTForImageClassification", {**SMALL, "image_size": 16, "patch_size": 4}),
}
OTHERS = {
    "mpnet": ("MPNetForSequenceClassification", TEXTS),
    "deberta-v2": (
        "DebertaV2ForSequenceClassification",
        {**TEXTS, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    ),
    "modernbert": ("ModernBertForSequenceClassification", {**TEXTS, "cls_token_id": 1, "sep_token_id": 2}),
    "t5": (
        "T5ForConditionalGeneration",
        {"vocab_size": 50, "d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_heads": 4},
    ),
    "bart": (
        "BartModel",
        {"d_model": 16, "vocab_size": 50, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 24}
        | {"decoder_ffn_dim": 24, "encoder_attention_heads": 4, "decoder_attention_heads": 4},
    ),
    "bloom": ("BloomModel", {"hidden_size": 16, "n_layer": 2, "n_head": 4, "vocab_size": 50}),
}
# Those that are blocks of the family's own are tested apart, and so is what stands in a block.
OWN = ("layers", "shared", "thin")
PARTS = [
    name
    for name in list_kinds("parts")
    if load_kind("parts", name, key="plan.part").REPLACES == "blocks" and name not in OWN
]
SOLVED = [name for name in PARTS if name != "identity"]
EVERY_PART = pytest.mark.parametrize("part", PARTS)


def make(name, **more):
    torch.manual_seed(0)
    class_name, options = (MODELS | OTHERS)[name]
    return getattr(transformers, class_name)(transformers.AutoConfig.for_model(name, **options, **more)).eval()


def make_batches(count, rows=12, seed=0):
    generator = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(count):
        mask = (torch.arange(8) < torch.randint(3, 9, (rows, 1), generator=generator)).long()
        found.append({"input_ids": torch.randint(3, 50, (rows, 8), generator=generator) * mask, "attention_mask": mask})
    return found


def successor_of(model, part, init="lower", **options):
    plan = even_plan(find_chains(model), 2, part, options)
    return take_out(assemble(copy.deepcopy(model), plan, build_successors(model, plan, init=init, seed=0)))


def span_of(model, part, path="", index=0):
    path = path or find_chains(model)[0].path
    plan = listed_plan(find_chains(model, [path]), [[0, 1]], part, {})
    return Span(plan.slots[0], model.get_submodule(path)[index], model.config, 0, 1)


@torch.no_grad()
def logits(model, **inputs):
    return model(**inputs).logits


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "vit", "mpnet", "deberta-v2", "modernbert", "bart"])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_whether_a_block_ends_in_a_norm_is_seen_by_running_it_without_values(name, device):
    model = make(name).to(device)
    form = find_form(span_of(model, "linear"), validate_part("linear", {}))
    assert (form.post, form.width) == (name in ("bert", "mpnet", "deberta-v2", "bart"), 16)
    assert form.causal == (name in ("gpt2", "llama"))
    assert {one.device.type for one in model.parameters()} == {device}


def test_a_norm_in_front_or_behind_is_told_apart_in_torchs_own_block_too():
    for first in (False, True):
        block = nn.TransformerEncoderLayer(16, 4, 24, norm_first=first, batch_first=True)
        span = Span(even_plan(find_chains(nn.Sequential(block, block)), 1).slots[0], block, None, 0, 1)
        form = find_form(span, validate_part("convolution", {"causal": True}))
        assert (form.post, form.causal) == (not first, True)


def test_real_tokens_are_found_in_every_kind_of_mask():
    real = torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0]])
    state, tril = torch.zeros(2, 4, 3), torch.ones(4, 4).tril()
    square = (real[:, None, None] * tril).bool()
    added = torch.where(square, 0.0, torch.finfo(torch.float32).min)
    masks = [
        real,
        real.bool(),
        square,
        added,
        added.half(),
        real[:, None, None],
        (real[:, None] * real[..., None])[:, None],
    ]
    for mask in masks:
        assert find_real({"attention_mask": mask}, state).tolist() == real.bool().tolist()
    cached = find_real({"attention_mask": square[:, :, -2:]}, state[:, 2:])  # two tokens behind two that a cache has
    assert cached.tolist() == real[:, 2:].bool().tolist()
    assert find_real({"src_key_padding_mask": ~real.bool()}, state).tolist() == real.bool().tolist()
    assert find_real({"attention_mask": None}, state) is None


@EVERY_PART
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_a_decoders_successor_looks_left_only_and_generates_the_same_with_a_cache_as_without(part, name):
    successor = successor_of(make(name), part)
    ids = make_batches(1, rows=2)[0]["input_ids"].clamp(min=3)
    other = ids.clone()
    other[:, 5:] = 7
    assert torch.equal(logits(successor, input_ids=ids)[:, :5], logits(successor, input_ids=other)[:, :5])
    # The second text is padded on its left.
    inputs = {"input_ids": ids, "attention_mask": (torch.arange(8) >= torch.tensor([[0], [3]])).long()}
    how = {"max_new_tokens": 3, "min_new_tokens": 3, "do_sample": False, "pad_token_id": 0}
    cached, plain = (successor.generate(**inputs, **how, use_cache=cache) for cache in (True, False))
    assert torch.equal(cached, plain)
    alone = successor.generate(input_ids=ids[1:, 3:], **how)
    assert torch.equal(cached[1, 8:], alone[0, 5:])


@EVERY_PART
@pytest.mark.parametrize("name", ["llama", "vit"])
def test_a_pre_ln_successor_is_collapsed_and_loaded_with_equal_outputs(part, name, tmp_path):
    model = make(name)
    plan = even_plan(find_chains(model), 2, part, {})
    ship = assemble(model, plan, build_successors(model, plan, init="mean", seed=0))
    successor = take_out(ship)
    inputs = {"pixel_values": torch.randn(2, 3, 16, 16)} if name == "vit" else make_batches(1)[0]
    if part == "linear":  # both slots' maps are one map now
        torch.testing.assert_close(logits(successor, **inputs), logits(ship, **inputs), atol=1e-5, rtol=1e-4)
    else:
        assert torch.equal(logits(successor, **inputs), logits(ship, **inputs))
    save(successor, tmp_path / "saved")
    loaded = copy.deepcopy(plankwise.load(tmp_path / "saved")).eval()
    assert torch.equal(logits(loaded, **inputs), logits(successor, **inputs))


@pytest.mark.parametrize("part", SOLVED)
@pytest.mark.parametrize("name", ["bert", "llama"])
def test_the_map_that_a_part_ends_in_is_solved(part, name, tmp_path):
    model, batches = make(name), make_batches(8, rows=24)
    plan = even_plan(find_chains(model), 2, part, {})
    built = build_successors(model, plan, init="lower", seed=0)

    def build(init):
        return build_successors(model, plan, init=init, seed=0)

    solution = solve(model, plan, build, lambda: iter(batches[:-2]), batches[-2:], tmp_path)
    assert solution.to_json()["effect"] < solution.effect_before
    for before, after, slot in zip(built, solution.successors, solution.slots, strict=True):
        changed = [key for key, value in after.state_dict().items() if not torch.equal(value, before.state_dict()[key])]
        assert slot["maps"] == 1
        assert {key for key in changed if not key.startswith("norm.")} <= {"output.weight", "output.bias"}
        assert "output.weight" in changed


def test_slots_without_weights_are_left_as_they_are_when_the_others_are_solved(tmp_path):
    model, batches = make("bert"), make_batches(12, rows=24)
    chain = find_chains(model)
    plans = [listed_plan(chain, [[index]], part, {}) for index, part in ((1, "identity"), (2, "linear"))]
    plan = Plan(tuple(slot for one in plans for slot in one.slots))

    def build(init):
        return build_successors(model, plan, init=init, seed=0)

    solution = solve(model, plan, build, lambda: iter(batches[:-2]), batches[-2:], tmp_path)
    assert [slot["maps"] for slot in solution.slots] == [0, 1]
    assert solution.slots[1]["effect"] < solution.slots[0]["effect"]


def test_steps_that_replace_only_what_has_no_weights_train_nothing():
    model = make("bert")
    plan = listed_plan(find_chains(model), [[1]], "identity", {})
    ship = install(model, plan, build_successors(model, plan, init="lower", seed=0), Constant(rate=1)).train()
    ship.begin(4)
    assert ship.mask == (True,)
    assert ship.trains_nothing
    assert ship.count_skipped(4) == 4
    ship(**make_batches(1)[0], labels=torch.zeros(12, dtype=torch.long)).loss.backward()
    assert all(one.grad is None for one in ship.parameters())


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_nothing_hands_states_through_and_an_affine_map_starts_as_the_last_norm_of_its_span(name):
    model, inputs = make(name), make_batches(1)[0]
    for part in ("identity", "linear"):
        plan = even_plan(find_chains(model), 2, part, {})
        ship = assemble(copy.deepcopy(model), plan, build_successors(model, plan, init="lower", seed=0))
        with ship.paired() as slots, torch.no_grad():
            ship(**inputs)
            for slot, last in zip(slots, (1, 3), strict=True):
                norm = model.bert.encoder.layer[last].output.LayerNorm if name == "bert" and part == "linear" else None
                expected = slot.pair.before if norm is None else norm(slot.pair.before)
                assert torch.equal(slot.pair.successor, expected)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_a_narrow_block_of_full_width_is_the_block(name):
    model, inputs = make(name), make_batches(1)[0]
    plan = even_plan(find_chains(model), 4, "narrow", {"width": 1.0})
    ship = assemble(copy.deepcopy(model), plan, build_successors(model, plan, init="lower", seed=0))
    torch.testing.assert_close(logits(ship, **inputs), logits(model, **inputs), atol=1e-5, rtol=1e-4)


def test_a_narrow_block_has_its_share_of_everything_and_reads_the_weightiest_directions():
    model = make("bert")
    for layer in model.bert.encoder.layer:
        for one in (
            layer.attention.self.query,
            layer.attention.self.key,
            layer.attention.self.value,
            layer.intermediate.dense,
        ):
            one.weight.data[:, :8] *= 100
    narrow = build_successors(model, even_plan(find_chains(model), 2, "narrow", {"width": 8}), init="lower", seed=0)[0]
    assert (narrow.inner.attention.self.num_attention_heads, narrow.inner.intermediate.dense.out_features) == (2, 12)
    assert narrow.inner.attention.output.LayerNorm.normalized_shape == (8,)
    torch.testing.assert_close(narrow.enter.weight @ narrow.enter.weight.T, torch.eye(8), atol=1e-5, rtol=0)
    assert narrow.enter.weight[:, 8:].abs().max() < 0.05
    assert torch.equal(narrow.output.weight, narrow.enter.weight.T)


def test_a_convolution_starts_as_the_donors_feed_forward_network():
    model = make("bert")
    plan = even_plan(find_chains(model), 2, "convolution", {"channels": 24})
    successor = build_successors(model, plan, init="lower", seed=0)[0].eval()
    donor, last = model.bert.encoder.layer[0], model.bert.encoder.layer[1]
    state = torch.randn(2, 5, 16)
    expected = last.output.LayerNorm(state + donor.output.dense(donor.intermediate(state)))
    torch.testing.assert_close(successor(state), expected)


@pytest.mark.parametrize(
    ("part", "options"), [("convolution", {"kernel": 3}), ("recurrent", {"cell": "gru"}), ("lite", {})]
)
@pytest.mark.parametrize("causal", [True, False])
def test_an_option_says_whether_tokens_behind_are_read(part, options, causal):
    model = make("bert")
    plan = even_plan(find_chains(model), 2, part, {**options, "causal": causal})
    successor = build_successors(model, plan, init="random", seed=0)[0].eval()
    state = torch.randn(1, 6, 16)
    other = state.clone()
    other[:, 4] += 1
    kernels = [one for name, one in successor.named_parameters() if name.startswith("kernels.weight")]
    for one in kernels:  # which see each token alone at first
        nn.init.normal_(one)
    assert torch.equal(successor(state)[:, :4], successor(other)[:, :4]) == causal


@pytest.mark.parametrize("part", ["linear", "convolution", "recurrent", "lite", "narrow"])
@pytest.mark.parametrize("name", ["mpnet", "deberta-v2", "modernbert"])
def test_families_that_give_tuples_or_say_what_kind_of_block_it_is_keep_padding_out(part, name):
    model, inputs = make(name), make_batches(1)[0]
    if part == "narrow" and name != "modernbert":
        with pytest.raises(PlanError, match=r"cannot be made narrower: .*; choose the part bottleneck, or layers"):
            successor_of(model, part)
        return
    successor = successor_of(model, part)
    length = int(inputs["attention_mask"][0].sum())
    alone = {key: value[:1, :length] for key, value in inputs.items()}
    torch.testing.assert_close(logits(successor, **inputs)[:1], logits(successor, **alone), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("part", SOLVED)
def test_random_weights_are_not_the_predecessors(part):
    model = make("bert")
    plan = even_plan(find_chains(model), 2, part, {})
    for lower, drawn in zip(
        *(build_successors(model, plan, init=init, seed=0) for init in ("lower", "random")), strict=True
    ):
        assert not torch.equal(lower.output.weight, drawn.output.weight)
        assert drawn.output.weight.abs().max() > 0


@EVERY_PART
@pytest.mark.parametrize(
    ("name", "reason"), [("t5", "gives more than a state"), ("bloom", r"cannot be run on a state \(B, T, D\) alone")]
)
def test_blocks_that_no_successor_could_stand_for_are_refused_with_the_reason(part, name, reason):
    with pytest.raises(PlanError, match=rf"slot .* holds a \w+, which {reason}.*part '{part}' .*choose layers"):
        successor_of(make(name), part)


@pytest.mark.parametrize("part", ["convolution", "recurrent", "lite", "delight", "bottleneck"])
def test_a_decoder_that_reads_an_encoder_is_not_replaced_by_what_would_not(part):
    model = make("bart")
    with pytest.raises(
        PlanError, match=r"reads another sequence by encoder_attn.*name the encoder's chain in plan\.chains"
    ):
        successor_of(model, part)
    plan = even_plan(find_chains(model, ["encoder.layers"]), 1, part, {})
    assert len(build_successors(model, plan, init="lower", seed=0)) == 1


@pytest.mark.parametrize(
    ("part", "options", "message"),
    [
        (
            "bottleneck",
            {"heads": 3},
            r"heads is 3, but the bottleneck is 4 wide \(0\.25 of 16\); give a number of heads",
        ),
        ("lite", {"heads": 3}, r"heads is 3, but half of a state in slot .* is 8 wide; give a number that divides it"),
        ("delight", {"groups": 16}, r"groups is 16, but half of a state in slot .* is 8 wide; give a power of 2"),
        ("narrow", {"width": 17}, r"width is 17, but states in slot .* are 16 wide; give less"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(part, options, message):
    with pytest.raises(PlanError, match=message):
        successor_of(make("bert"), part, **options)


def test_options_that_contradict_each_other_are_refused():
    for part, options, message in (
        ("delight", {"least_layers": 5, "most_layers": 4}, "most_layers is 4, and least_layers 5"),
        ("delight", {"groups": 3}, "groups is 3; give a power of 2"),
        ("narrow", {"width": 2.5}, "2.5 is neither a share nor a number"),
    ):
        with pytest.raises(ConfigError, match=message):
            validate_part(part, options)


def test_a_cache_that_does_not_keep_all_states_is_refused():
    successor = successor_of(make("llama"), "convolution")
    cache = transformers.StaticCache(config=successor.config, max_cache_len=12)
    ids = make_batches(1, rows=2)[0]["input_ids"].clamp(min=3)
    successor(input_ids=ids, past_key_values=cache)
    with pytest.raises(RunError, match=r"needs all 9 states of a text, .*generate with use_cache=False"):
        successor(input_ids=ids[:, :1], past_key_values=cache)
