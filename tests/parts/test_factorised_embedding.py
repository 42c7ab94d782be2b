"""A factorised embedding: the whole width is the table, a narrower one the nearest; padding, and tables that are shared."""

import pytest
import torch
import transformers

import plankwise
from plankwise.errors import PlanError
from plankwise.models.plans import build_successors
from plankwise.models.saving import save
from plankwise.models.vocabulary import trim
from sublayers import SMALL, logits, make, plan_of, successor_of
from vocabularies import DOMAIN, make_word_piece

WORDS = {
    "bert": "bert.embeddings.word_embeddings",
    "roberta": "roberta.embeddings.word_embeddings",
    "llama": "model.embed_tokens",
}


@pytest.mark.parametrize("name", WORDS)
def test_the_whole_width_gives_what_the_table_gives_and_a_part_of_it_is_saved_and_loaded(name, tmp_path):
    model = make(name)
    whole = successor_of(model, plan_of(model, "factorised_embedding", WORDS[name], width=1.0))
    torch.testing.assert_close(logits(whole), logits(model), atol=1e-4, rtol=1e-4)
    half = successor_of(model, plan_of(model, "factorised_embedding", WORDS[name], width=0.5))
    saved = 30 * 16 - (30 * 8 + 8 * 16)
    assert sum(one.numel() for one in model.parameters()) - sum(one.numel() for one in half.parameters()) == saved
    save(half, tmp_path / "half")
    torch.testing.assert_close(logits(plankwise.load(tmp_path / "half")), logits(half), atol=1e-6, rtol=1e-6)


def test_a_narrow_table_misses_what_the_smaller_singular_values_hold_and_no_more():
    model = make()
    found = build_successors(
        model, plan_of(model, "factorised_embedding", WORDS["bert"], width=5), init="lower", seed=0
    )[0]
    table = model.bert.embeddings.word_embeddings.weight.detach()
    expected = torch.linalg.svdvals(table)[5:].square().sum()
    torch.testing.assert_close((found.weight.detach() - table).square().sum(), expected, atol=1e-4, rtol=1e-4)


def test_the_row_of_padding_is_kept_and_gets_no_gradient():
    model = make()
    with torch.no_grad():
        model.bert.embeddings.word_embeddings.weight[0] = 1.0  # trained models have rows there that are not zero
    found = build_successors(
        model, plan_of(model, "factorised_embedding", WORDS["bert"], width=1.0), init="lower", seed=0
    )[0]
    ids = torch.tensor([[0, 3]])
    torch.testing.assert_close(found(ids)[0, 0], torch.ones(16), atol=1e-5, rtol=1e-5)
    found(ids).square().sum().backward()
    assert not found.table.weight.grad[0].any()
    assert found.table.weight.grad[3].any()


def test_a_table_with_fewer_rows_than_its_width_is_factorised_too():
    model = make()
    path = "bert.embeddings.token_type_embeddings"
    found = build_successors(model, plan_of(model, "factorised_embedding", path, width=0.5), init="lower", seed=0)[0]
    torch.testing.assert_close(found.weight, model.get_submodule(path).weight, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "path", "other"),
    [("gpt2", "transformer.wte", "lm_head.weight"), ("t5", "shared", "encoder.embed_tokens.weight")],
)
def test_a_table_that_the_output_shares_is_refused(name, path, other):
    model = make(name)
    with pytest.raises(PlanError, match=rf"the table of slot {path} is also {other}.*plan\.vocabulary"):
        build_successors(model, plan_of(model, "factorised_embedding", path), init="lower", seed=0)


def test_embeddings_that_do_more_than_look_up_rows_and_wider_ones_are_refused():
    torch.manual_seed(0)
    config = transformers.RoFormerConfig(**SMALL)
    model = transformers.RoFormerForSequenceClassification(config)
    path = "roformer.encoder.embed_positions"
    with pytest.raises(PlanError, match="holds a RoFormerSinusoidalPositionalEmbedding, which does more"):
        build_successors(model, plan_of(model, "factorised_embedding", path), init="lower", seed=0)
    model = make()
    with pytest.raises(PlanError, match=r"plan\.options\.width is 17, but .* allows 16 at most"):
        build_successors(model, plan_of(model, "factorised_embedding", WORDS["bert"], width=17), init="lower", seed=0)


@torch.no_grad()
def test_its_vocabulary_is_trimmed_like_any_other():
    tokenizer = make_word_piece()
    model = make(vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id)
    successor = successor_of(model, plan_of(model, "factorised_embedding", WORDS["bert"]))
    trimmed = trim(successor, tokenizer, DOMAIN)
    assert trimmed.model.get_submodule(WORDS["bert"]).table.num_embeddings == len(trimmed.kept) < len(tokenizer)
    before, after = (
        one(**own(DOMAIN, padding=True, return_tensors="pt")).logits
        for one, own in ((successor, tokenizer), (trimmed.model, trimmed.tokenizer))
    )
    assert torch.equal(after, before)
