import copy
import json

import pytest
import torch
import transformers
from transformers import AutoModelForSequenceClassification

import plankwise
from plankwise.core.plan import Plan, Slot
from plankwise.evaluation import inside
from plankwise.evaluation.inside import (
    Similarity,
    compare_states,
    flatten,
    linear_cka,
    look_inside,
    measure_impact,
    trace_paths,
)
from plankwise.models.plans import try_plan

SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "vocab_size": 25,
    "initializer_range": 0.3,
}
ENDS = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
HALVES = {"d_model": 16, "encoder_layers": 4, "decoder_layers": 2, "vocab_size": 25, "init_std": 0.3, **ENDS}
FAMILIES = {
    "bert": ("BertForSequenceClassification", SMALL),
    "bert, masked words": ("BertForMaskedLM", SMALL),
    "distilbert": (
        "DistilBertForSequenceClassification",
        {"dim": 16, "n_layers": 4, "n_heads": 2, "hidden_dim": 24, "vocab_size": 25, "initializer_range": 0.3},
    ),
    "deberta-v2": (
        "DebertaV2ForSequenceClassification",
        {**SMALL, "relative_attention": True, "pos_att_type": ["c2p"], "conv_kernel_size": 3, "conv_act": "gelu"},
    ),
    "modernbert": ("ModernBertForSequenceClassification", {**SMALL, **ENDS, "cls_token_id": 2, "sep_token_id": 3}),
    "xlnet": (
        "XLNetForSequenceClassification",
        {"vocab_size": 25, "d_model": 16, "n_layer": 4, "n_head": 2, "d_inner": 24, "initializer_range": 0.3},
    ),
    "gpt2": ("GPT2ForSequenceClassification", {"n_embd": 16, "n_layer": 4, "n_head": 2, "vocab_size": 25, **ENDS}),
    "bart": ("BartForSequenceClassification", {**HALVES, "forced_eos_token_id": None}),
    "marian": ("MarianMTModel", {**HALVES, "decoder_start_token_id": 0, "forced_eos_token_id": None}),
}
SENTENCE = "the film is fine"
CUT = ["[CLS]", "the", "film", "is", "[SEP]"]


def make(name):
    """A predecessor of a family, its successor with other blocks, and the plan between them."""
    class_name, options = FAMILIES[name]
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(name.split(",")[0], **options)
    predecessor = getattr(transformers, class_name)(config).eval()
    ship = plankwise.hybrid(copy.deepcopy(predecessor), init="random", seed=1)
    return predecessor, ship.collapse(), ship.plan


def batch(*rows, length=None, **others):
    """Rows of token ids, padded at the end."""
    length = length or max(map(len, rows))
    ids = torch.tensor([[*row, *[0] * (length - len(row))] for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in rows])
    return {"input_ids": ids, "attention_mask": mask, **others}


ROWS = ([2, 5, 9, 14, 3], [2, 7, 8, 16, 3])
BATCH = batch(*ROWS)


def total(model):
    """A score that any change in the logits changes."""
    model.eval()
    with torch.no_grad():
        return {"score": float(model(**BATCH).logits.double().square().sum())}


@pytest.fixture
def cloud():
    torch.manual_seed(0)
    return torch.randn(50, 6, dtype=torch.float64), torch.randn(50, 4, dtype=torch.float64)


def test_a_model_is_like_itself_and_like_itself_turned_stretched_and_moved(cloud):
    x, _ = cloud
    turned = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64)).Q
    assert linear_cka(x, x) == pytest.approx(1, abs=1e-12)
    assert linear_cka(x, -3 * x @ turned + 7) == pytest.approx(1, abs=1e-12)
    assert linear_cka(x, x * torch.arange(1, 7)) < 0.999  # each feature by its own factor is another thing


def test_linear_cka_is_that_of_the_centred_gram_matrices(cloud):
    x, y = cloud
    centre = torch.eye(50, dtype=torch.float64) - 1 / 50
    k, m = (centre @ states @ states.T @ centre for states in cloud)
    assert linear_cka(x, y) == pytest.approx(float((k * m).sum() / (k.norm() * m.norm())), abs=1e-12)
    assert linear_cka(x, y) == pytest.approx(linear_cka(y, x), abs=1e-12)


def test_states_that_have_nothing_in_common_are_at_0_and_so_are_states_that_do_not_vary():
    x = torch.tensor([[1.0], [-1.0], [1.0], [-1.0]])
    y = torch.tensor([[1.0], [1.0], [-1.0], [-1.0]])
    assert linear_cka(x, y) == 0
    assert linear_cka(x, torch.full((4, 3), 0.1)) == 0


def test_batch_by_batch_is_the_same_as_at_once_also_far_from_the_origin(cloud, monkeypatch):
    x, y = cloud
    monkeypatch.setattr(inside, "CHUNK", 8)
    similarity = Similarity()
    for start in range(0, 50, 20):
        part = slice(start, start + 20)
        similarity.add([x[part] + 1e6, x[part]], [y[part]])
    monkeypatch.undo()
    assert similarity.tokens == 50
    assert similarity.cka() == [[pytest.approx(linear_cka(x, y), abs=1e-9)]] * 2


@pytest.mark.parametrize("name", FAMILIES)
def test_each_layer_is_most_like_itself_and_layers_of_the_successor_are_others(name):
    predecessor, successor, _ = make(name)
    others = {"labels": BATCH["input_ids"]} if name == "marian" else {}
    inputs = batch(*ROWS, length=7, **others) if name not in ("bart", "marian") else {**BATCH, **others}
    own = compare_states(predecessor, predecessor, [inputs])
    assert own["tokens"] == 10
    assert [own["values"][index][index] for index in range(5)] == [pytest.approx(1, abs=1e-12)] * 5
    assert all(value < 0.9999 for index in range(5) for value in own["values"][index][:index])
    both = compare_states(predecessor, successor, [inputs])
    assert both["values"][0][0] == pytest.approx(1, abs=1e-12)  # the embeddings are the predecessor's
    assert all(value < 0.9999 for value in both["values"][-1])
    assert [len(row) for row in both["values"]] == [3] * 5


def test_layers_are_named_and_of_several_chains_the_first_with_its_path():
    found = compare_states(*make("bert")[:2], [BATCH])
    assert found["rows"] == ["predecessor: embeddings", "block 1", "block 2", "block 3", "block 4"]
    assert found["columns"] == ["successor: embeddings", "block 1", "block 2"]
    path = "model.encoder.layers"
    found = compare_states(*make("bart")[:2], [BATCH])
    assert found["columns"] == [f"successor: {path}: embeddings", f"{path}: block 1", f"{path}: block 2"]


@pytest.mark.parametrize("name", ["bert", "xlnet"])
def test_neither_padding_nor_the_shape_of_batches_changes_the_similarity(name):
    models = make(name)[:2]
    rows = [[2, 5, 3], [2, 3], [2, 11, 3], [2, 13, 16]]
    apart = compare_states(*models, [batch(row) for row in rows])
    square = compare_states(*models, [batch(*rows[:3]), batch(rows[3])])  # 3 texts of up to 3 tokens
    padded = compare_states(*models, [batch(*rows, length=6)])
    for found in (square, padded):
        assert found["tokens"] == apart["tokens"] == 11
        for row, wanted in zip(found["values"], apart["values"], strict=True):
            assert row == pytest.approx(wanted, abs=1e-4)


def test_a_successor_of_one_block_and_rows_of_the_data_are_taken_too():
    predecessor, _, _ = make("bert")
    successor = plankwise.hybrid(copy.deepcopy(predecessor), successors=1).collapse()
    found = compare_states(predecessor, successor, [{**BATCH, "row": torch.tensor([0, 1])}])
    assert found["columns"] == ["successor: embeddings", "block 1"]


def test_a_model_without_a_chain_and_no_batches_give_no_similarity(tokenizer):
    albert = transformers.AlbertForSequenceClassification(transformers.AlbertConfig(**SMALL, embedding_size=8))
    assert compare_states(albert, albert, [BATCH]) is None
    assert trace_paths(albert, albert, tokenizer, SENTENCE, 8) is None
    assert compare_states(*make("bert")[:2], []) is None


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "marian"])
def test_each_token_has_a_place_in_every_layer_of_both_models(name, tokenizer):
    predecessor, successor, _ = make(name)
    found = trace_paths(predecessor, successor, tokenizer, SENTENCE, 5)
    assert found["sentence"] == SENTENCE
    assert found["tokens"] == CUT
    assert torch.tensor(found["predecessor"]).shape == (5, 5, 2)
    assert torch.tensor(found["successor"]).shape == (3, 5, 2)


def test_a_translator_which_needs_a_second_text_gives_no_paths(tokenizer):
    assert trace_paths(*make("marian")[:2], tokenizer, SENTENCE, 5) is None


def test_two_dimensions_keep_the_distances_of_what_lies_in_a_plane():
    torch.manual_seed(0)
    states = torch.randn(3, 4, 2, dtype=torch.float64) @ torch.randn(2, 6, dtype=torch.float64) + 5
    flat = flatten(states)
    torch.testing.assert_close(torch.pdist(flat.flatten(0, 1)), torch.pdist(states.flatten(0, 1)))
    variances = flat.flatten(0, 1).var(0)
    assert variances[0] > variances[1]


def test_the_largest_entry_of_a_direction_points_up():
    states = torch.tensor([[[0.0, 0.0, 0.0], [-1.0, -3.0, 0.5]]])
    x = flatten(states)[0, :, 0]
    assert x[0] > x[1]
    assert torch.equal(flatten(states.flip(1)), flatten(states).flip(1))
    assert torch.equal(flatten(states[:, :1]), torch.zeros(1, 1, 2, dtype=torch.float64))


@pytest.mark.parametrize("name", ["bert", "xlnet", "modernbert", "bart"])
def test_impact_runs_from_the_predecessors_score_slot_by_slot_to_the_successors(name):
    predecessor, successor, plan = make(name)
    found = measure_impact(predecessor, successor, plan, total)
    assert found["baseline"] == total(predecessor)["score"]
    assert found["all"] == total(successor)["score"]
    assert [slot["drop"] for slot in found["slots"]] == [found["baseline"] - slot["score"] for slot in found["slots"]]
    scores = {found["baseline"], found["all"], *(slot["score"] for slot in found["slots"])}
    assert len(scores) == len(plan.slots) + 2


def test_the_impact_of_a_single_module_is_measured_too():
    predecessor, _, _ = make("bert")
    plan = Plan((Slot("bert.encoder.layer.0.output"),))
    successor = try_plan(predecessor, plan, init="random", seed=1)
    found = measure_impact(predecessor, successor, plan, total)
    assert found["slots"] == [
        {"slot": "bert.encoder.layer.0.output", "score": found["all"], "drop": found["baseline"] - found["all"]}
    ]
    assert found["all"] == total(successor)["score"] != found["baseline"]


def test_looking_inside_puts_all_together_as_json_and_leaves_the_models_as_they_were(tokenizer, tiny_classifier_folder):
    predecessor = AutoModelForSequenceClassification.from_pretrained(tiny_classifier_folder)
    ship = plankwise.hybrid(copy.deepcopy(predecessor), init="random")
    models = [predecessor, ship.collapse()]
    kinds = [type(model) for model in models]
    weights = [copy.deepcopy(model.state_dict()) for model in models]
    answers = [total(model) for model in models]
    found = look_inside(*models, ship.plan, [BATCH], total, tokenizer, SENTENCE, 16)
    assert found.keys() == {"cka", "paths", "impact"}
    assert found["impact"]["slots"][0]["slot"] == "bert.encoder.layer[0, 1]"
    assert json.loads(json.dumps(found)) == found
    assert [type(model) for model in models] == kinds
    assert [total(model) for model in models] == answers
    for model, before in zip(models, weights, strict=True):
        assert model.state_dict().keys() == before.keys()
        assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
        assert all(parameter.requires_grad for parameter in model.parameters())
        assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_what_the_models_do_not_have_is_left_out(tokenizer):
    predecessor, successor, _ = make("bert")
    found = look_inside(
        predecessor, successor, Plan((Slot("bert.pooler"),)), [], total, tokenizer, SENTENCE, max_length=16
    )
    assert found.keys() == {"paths", "impact"}
