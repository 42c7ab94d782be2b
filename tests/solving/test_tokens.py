"""Which tokens count: by the gradients of the answers, on models whose heads read one token, or all of them."""

import copy

import pytest
import torch
import transformers

from plankwise.core.chain import find_chains
from plankwise.core.plan import Plan, Slot, even_plan
from plankwise.models.plans import assemble, build_successors
from plankwise.solving.bench import Bench
from plankwise.solving.tokens import MOST, Places, find_places

BERT = {
    "hidden_size": 16,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "vocab_size": 99,
    "initializer_range": 0.2,
}
GPT2 = {"n_embd": 16, "n_layer": 4, "n_head": 2, "vocab_size": 99, "n_positions": 16, "initializer_range": 0.2}
GPT2 |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


@pytest.fixture
def places(toys, tmp_path):
    """The places of a tiny random model's slots, on batches of padded texts."""

    def find(class_name, plan=None, **options):
        torch.manual_seed(0)
        kind = getattr(transformers, class_name)
        model = kind(kind.config_class(**options)).eval()
        plan = plan or even_plan(find_chains(model))
        successors = build_successors(model, plan, init="lower", seed=0)
        batches = toys.make_tokens(3, rows=32)
        with torch.no_grad():
            bench = Bench(assemble(copy.deepcopy(model), plan, successors), batches[0], tmp_path)
            return find_places(bench, batches[len(batches) // 2])

    return find


def test_a_classifier_that_reads_the_first_token_depends_on_no_other_behind_its_last_block(places):
    assert places("BertForSequenceClassification", **BERT)[-1] == Places(first=MOST, last=1.0)


def test_a_causal_classifier_depends_on_the_last_token_that_is_not_padding(places):
    first, last = places("GPT2ForSequenceClassification", **GPT2)
    assert last == Places(first=1.0, last=MOST)
    assert first.last > 2 > first.first


@pytest.mark.parametrize(("class_name", "options"), [("GPT2LMHeadModel", GPT2), ("BertForMaskedLM", BERT)])
def test_a_language_models_tokens_count_alike(class_name, options, places):
    for place in places(class_name, **options):
        assert 1 <= place.first < 2
        assert 1 <= place.last < 2


def test_a_module_that_the_answers_do_not_depend_on_counts_all_tokens_alike(places):
    assert places("BertModel", Plan((Slot("pooler"),)), **BERT) == [Places()]


def test_padding_counts_nothing_on_either_side():
    mask = torch.tensor([[1, 1, 1, 0, 0], [0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    weights = Places(first=3.0, last=2.0).weigh(mask)
    assert weights.tolist() == [[3, 1, 2, 0, 0], [0, 0, 3, 1, 2], [3, 1, 1, 1, 2]]
    assert Places().weigh(mask).tolist() == mask.tolist()


def test_without_a_mask_there_are_no_weights():
    assert Places(first=3.0).weigh(None) is None
