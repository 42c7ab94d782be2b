"""Fixed attention: the seven patterns by hand, padding on both sides, learned heads as before, and what is refused."""

from fractions import Fraction

import pytest
import torch

import plankwise
from plankwise.errors import PlanError
from plankwise.models.plans import build_successors
from plankwise.models.saving import save
from plankwise.parts import fixed_attention
from plankwise.parts._sublayers_attention import PATTERNS, attend, patterns_of
from sublayers import logits, make, plan_of, successor_of

ATTENTION = "bert.encoder.layer.*.attention"
# Row i of each: the weights with which token i of five looks at tokens 0 to 4, over a common denominator.
BY_HAND = {
    "current": ([[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]], [1] * 5),
    "previous": ([[0, 0, 0, 0, 0], [1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0]], [1] * 5),
    "next": ([[0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]], [1] * 5),
    "left": ([[0, 0, 0, 0, 0], [0, 0, 0, 0, 0], [1, 0, 0, 0, 0], [1, 8, 0, 0, 0], [1, 8, 27, 0, 0]], [1, 1, 1, 9, 36]),
    "right": ([[0, 0, 27, 8, 1], [0, 0, 0, 8, 1], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]], [36, 9, 1, 1, 1]),
    "end": ([[1, 8, 27, 64, 125]] * 5, [225] * 5),
    "start": ([[125, 64, 27, 8, 1]] * 5, [225] * 5),
}


def by_hand(pattern):
    rows, totals = BY_HAND[pattern]
    return torch.tensor([[float(Fraction(one, total)) for one in row] for row, total in zip(rows, totals, strict=True)])


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize(("before", "behind"), [(0, 0), (0, 3), (2, 0), (1, 2)])
def test_a_pattern_is_the_formula_for_five_tokens_wherever_the_padding_is(pattern, before, behind):
    """Values that are the rows of a unit matrix give the weights themselves."""
    length = before + 5 + behind
    real = torch.zeros(1, length, dtype=torch.bool)
    real[:, before : before + 5] = True
    values = torch.full((1, 1, length, 5), 1000.0)
    values[0, 0, before : before + 5] = torch.eye(5)
    found = attend(pattern, values, real)[0, 0]
    assert found.isfinite().all()
    torch.testing.assert_close(found[before : before + 5], by_hand(pattern), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_text_of_one_token_and_half_precision_are_no_trouble(pattern):
    one = attend(pattern, torch.ones(1, 1, 1, 2), torch.ones(1, 1, dtype=torch.bool))
    assert torch.equal(one, torch.full((1, 1, 1, 2), float(pattern in ("current", "end", "start"))))
    long = attend(pattern, torch.ones(1, 1, 600, 2, dtype=torch.float16), torch.ones(1, 600, dtype=torch.bool))
    assert long.dtype == torch.float16
    torch.testing.assert_close(long[0, 0, 300], torch.ones(2, dtype=torch.float16))


def test_patterns_are_dealt_out_in_turn_and_stand_together():
    assert patterns_of(7) == list(PATTERNS)
    assert patterns_of(1) == ["current"]
    assert patterns_of(9) == ["current", "current", "previous", "previous", *PATTERNS[2:]]


@pytest.mark.parametrize("name", ["bert", "roberta"])
@pytest.mark.parametrize("learned", [0, 2])
def test_a_successor_has_no_queries_and_keys_for_fixed_heads_and_is_saved_with_the_plan(name, learned, tmp_path):
    model = make(name)
    successor = successor_of(
        model, plan_of(model, "fixed_attention", ATTENTION.replace("bert", name, 1), learned_heads=learned)
    )
    gone = 2 * 2 * (4 - learned) * (16 * 4 + 4)  # two blocks, queries and keys, heads of width 4 with their biases
    assert sum(one.numel() for one in model.parameters()) - sum(one.numel() for one in successor.parameters()) == gone
    save(successor, tmp_path / "fixed")
    torch.testing.assert_close(logits(plankwise.load(tmp_path / "fixed")), logits(successor), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_learned_heads_give_what_they_gave(implementation):
    model = make(attn_implementation=implementation)
    for block in model.bert.encoder.layer:
        torch.nn.init.zeros_(block.attention.output.dense.weight[:, :8].detach())
    plan = plan_of(model, "fixed_attention", ATTENTION, learned_heads=2)
    torch.testing.assert_close(logits(successor_of(model, plan)), logits(model), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_texts_say_which_head_takes_which_pattern():
    """The value maps are the donor's, so that a head whose queries and keys do what a pattern does fits that pattern."""
    model = make()
    sublayer = model.bert.encoder.layer[0].attention
    (successor,) = build_successors(
        model,
        plan_of(model, "fixed_attention", "bert.encoder.layer.0.attention", learned_heads=1),
        init="lower",
        seed=0,
    )
    assert successor.self.patterns == ["current", "previous", "next"]
    order = ["next", "learned", "previous", "current"]  # what the donor's heads do
    state = torch.randn(2, 6, 16, generator=torch.Generator().manual_seed(0))
    real = torch.ones(2, 6, dtype=torch.bool)

    def attention(state, attention_mask=None, **others):
        values = successor.self.divide(sublayer.self.value(state))
        mean = values.mean(2, keepdim=True).expand_as(values)
        heads = [mean[:, [place]] if name == "learned" else attend(name, values[:, [place]], real)
                 for place, name in enumerate(order)]  # fmt: skip
        return torch.cat(heads, 1).transpose(1, 2).flatten(2), None

    sublayer.self.forward = attention

    def runs():
        sublayer(state)
        yield None

    rows = fixed_attention.choose(successor, sublayer, runs, None)
    heads = [3, 2, 0, 1]
    places = [4 * head + place for head in heads for place in range(4)]
    assert rows["self.value"].tolist() == places
    assert rows["self.query"].tolist() == rows["self.key"].tolist() == places[12:]
    assert torch.equal(successor.self.query.weight, sublayer.self.query.weight[places[12:]])
    fixed = successor(state)[0]
    sublayer.output.dense.weight[:, 4:8] = successor.output.dense.weight[:, 12:] = 0
    torch.testing.assert_close(successor(state)[0], sublayer(state)[0], atol=1e-5, rtol=1e-5)
    assert (fixed - successor(state)[0]).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("name", "path", "kind", "reason"),
    [
        ("bert", "bert.encoder.layer.*.attention.self", "BertSelfAttention", "built otherwise"),
        ("distilbert", "distilbert.transformer.layer.*.attention", "DistilBertSelfAttention", "built otherwise"),
        ("gpt2", "transformer.h.*.attn", "GPT2Attention", "may not see later ones"),
        ("llama", "model.layers.*.self_attn", "LlamaAttention", "may not see later ones"),
    ],
)
def test_attention_of_another_form_is_refused(name, path, kind, reason):
    model = make(name)
    with pytest.raises(PlanError, match=rf"BERT's form.*holds a {kind}, .*{reason}.*plan\.slots"):
        build_successors(model, plan_of(model, "fixed_attention", path), init="lower", seed=0)


def test_a_decoder_of_berts_form_and_too_many_learned_heads_are_refused():
    model = make(is_decoder=True)
    with pytest.raises(PlanError, match="holds a BertAttention, whose tokens may not see later ones"):
        build_successors(model, plan_of(model, "fixed_attention", ATTENTION), init="lower", seed=0)
    model = make()
    with pytest.raises(PlanError, match=r"plan\.options\.learned_heads is 4, but slot .* has 4 heads.*choose 0 to 3"):
        build_successors(model, plan_of(model, "fixed_attention", ATTENTION, learned_heads=4), init="lower", seed=0)
