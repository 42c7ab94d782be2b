"""Models that texts leave early: the whole model to the bit, batches as one by one, saved and loaded, refused with a sentence."""

import copy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.nn import functional
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    BertModel,
    DistilBertConfig,
    ElectraConfig,
    GPT2Config,
    RobertaConfig,
)

import plankwise
from plankwise.errors import ConfigError, PlanError
from plankwise.models.exits import counted_exits, describe_exits, has_exits, hurried
from plankwise.models.patience import exit_blocks
from plankwise.models.planned import with_exits

BLOCKS, PAD = 5, 1
SIZES = {"hidden_size": 32, "num_hidden_layers": BLOCKS, "num_attention_heads": 2, "intermediate_size": 64}
FAMILIES = {
    "bert": lambda **more: BertConfig(**SIZES, **more),
    "roberta": lambda **more: RobertaConfig(**SIZES, **more),
    "electra": lambda **more: ElectraConfig(**SIZES, **more),
    "distilbert": lambda **more: DistilBertConfig(dim=32, n_layers=BLOCKS, n_heads=2, hidden_dim=64, **more),
}


def make(family="bert", *, num_labels=3, config=None):
    """A classifier of 5 blocks with weights so large that texts differ."""
    torch.manual_seed(0)
    more = {"vocab_size": 60, "num_labels": num_labels, "pad_token_id": PAD}
    model = AutoModelForSequenceClassification.from_config(config or FAMILIES[family](**more)).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.data.normal_(0, 0.15)
    return model


def leaving(family="bert", patience=1, **options):
    model = with_exits(make(family, **options), patience=patience)
    torch.manual_seed(1)
    for head in model.exit_heads:
        head.weight.data.normal_()
    return model


def make_batch(texts=16, tokens=9):
    """Texts of unlike length, padded."""
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(5, 60, (texts, tokens), generator=generator)
    mask = torch.ones_like(ids)
    for row in range(texts):
        mask[row, 4 + row % 6 :] = 0
    return {"input_ids": ids.masked_fill(mask == 0, PAD), "attention_mask": mask}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("patience", [BLOCKS - 1, BLOCKS, 100])
def test_with_a_patience_of_all_blocks_it_is_the_whole_model_to_the_bit(family, patience):
    model, batch = make(family), make_batch()
    whole = model(**batch).logits
    output = with_exits(copy.deepcopy(model), patience=patience)(**batch)
    assert torch.equal(output.logits, whole)
    assert output.exits.tolist() == [BLOCKS] * 16


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("patience", [1, 2, 3])
@torch.no_grad()
def test_a_batch_with_padding_gives_what_its_texts_give_one_by_one(family, patience):
    model, batch = leaving(family, patience), make_batch()
    together = model(**batch)
    alone = [
        model(**{name: value[row : row + 1, : batch["attention_mask"][row].sum()] for name, value in batch.items()})
        for row in range(16)
    ]
    assert together.exits.tolist() == [int(one.exits) for one in alone]
    logits = torch.cat([one.logits for one in alone])
    assert torch.equal(together.logits.argmax(-1), logits.argmax(-1))
    torch.testing.assert_close(together.logits, logits, atol=1e-5, rtol=1e-4)
    assert patience > 1 or len(set(together.exits.tolist())) > 1  # texts really left after different blocks


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_texts_leave_where_the_answers_of_all_heads_say(family):
    model, batch = leaving(family), make_batch()
    by_block = model.logits_by_block(**batch)
    assert by_block.shape == (16, BLOCKS, 3)
    for patience in (1, 2, 3):
        model.patience = patience
        output = model(**batch)
        blocks = exit_blocks(by_block, patience, 0.1)
        assert output.exits.tolist() == blocks
        expected = by_block[torch.arange(16), torch.tensor(blocks) - 1]
        torch.testing.assert_close(output.logits, expected, atol=1e-5, rtol=1e-4)


def test_a_text_leaves_after_as_many_answers_like_the_one_before_as_the_patience_says():
    answers = torch.tensor([[0, 0, 0, 0, 0], [1, 0, 0, 0, 1], [0, 1, 0, 1, 1], [1, 1, 0, 0, 0]])
    logits = functional.one_hot(answers, 2).float()
    assert exit_blocks(logits, 1, 0.1) == [2, 3, 5, 2]
    assert exit_blocks(logits, 2, 0.1) == [3, 4, 5, 5]
    assert exit_blocks(logits, 3, 0.1) == [4, 5, 5, 5]
    assert exit_blocks(logits, 4, 0.1) == [5, 5, 5, 5]


def test_numbers_are_the_same_if_they_differ_by_less_than_the_tolerance():
    numbers = torch.tensor([[1.0, 1.05, 2.0], [1.0, 1.2, 1.25], [1.0, 1.5, 2.0]]).unsqueeze(-1)
    assert exit_blocks(numbers, 1, 0.1) == [2, 3, 3]
    assert exit_blocks(numbers, 1, 0.6) == [2, 2, 2]


@torch.no_grad()
def test_a_model_for_numbers_leaves_by_the_tolerance_in_batches_as_one_by_one():
    model, batch = leaving(num_labels=1), make_batch()
    by_block = model.logits_by_block(**batch)
    steps = (by_block[:, 1:-1] - by_block[:, :-2]).abs()
    model.config.exits = {**model.config.exits, "tolerance": float(steps.median())}
    output = model(**batch)
    assert output.exits.tolist() == exit_blocks(by_block, 1, float(steps.median()))
    assert len(set(output.exits.tolist())) > 1


@torch.no_grad()
def test_the_last_text_may_leave_and_the_blocks_behind_it_do_not_run():
    model, batch = leaving(), make_batch(texts=1, tokens=5)
    for head in model.exit_heads:
        head.weight.data.zero_()
        head.bias.data.copy_(torch.tensor([0.0, 5.0, 0.0]))
    ran = []
    for block in model.bert.encoder.layer:
        block.register_forward_hook(lambda *given: ran.append(1))
    output = model(**batch)
    assert (output.exits.tolist(), len(ran)) == ([2], 2)
    assert output.logits.tolist() == [[0.0, 5.0, 0.0]]


def test_the_joint_loss_of_three_heads_is_the_sum_written_out():
    model, batch = make(), make_batch()
    model = with_exits(
        make(config=BertConfig(**{**SIZES, "num_hidden_layers": 3}, vocab_size=60, num_labels=3))
    ).train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    model.config._attn_implementation = "eager"
    labels = torch.arange(16) % 3
    first, second, third = model.logits_by_block(**batch).unbind(1)
    one, two, three = (functional.cross_entropy(logits, labels) for logits in (first, second, third))
    output = model(**batch, labels=labels)
    torch.testing.assert_close(output.loss, (1 * one + 2 * two + 3 * three) / 6)
    assert output.exits is None
    output.loss.backward()
    assert all(parameter.grad is not None for parameter in model.exit_heads.parameters())


@torch.no_grad()
def test_the_loss_of_answers_is_that_of_what_texts_left_with():
    model, batch = leaving(), make_batch()
    labels = torch.arange(16) % 3
    output = model(**batch, labels=labels)
    assert torch.equal(output.loss, functional.cross_entropy(output.logits, labels))
    as_tuple = model(**batch, labels=labels, return_dict=False)
    assert torch.equal(as_tuple[0], output.loss)
    assert torch.equal(as_tuple[1], output.logits)


def test_a_fresh_process_loads_what_was_saved(tmp_path):
    model, batch = leaving(patience=2), make_batch()
    model.save_pretrained(tmp_path / "model")
    torch.save(batch, tmp_path / "batch.pt")
    code = (
        "import sys, torch, plankwise\n"
        "from transformers import AutoModelForSequenceClassification\n"
        "batch = torch.load(sys.argv[2])\n"
        "for model in (plankwise.load(sys.argv[1]), AutoModelForSequenceClassification.from_pretrained(sys.argv[1]).eval()):\n"
        "    assert model.patience == 2\n"
        "    output = model(**batch)\n"
        "torch.save((output.logits, output.exits), sys.argv[3])\n"
    )
    files = [str(tmp_path / name) for name in ("model", "batch.pt", "found.pt")]
    subprocess.run([sys.executable, "-c", code, *files], check=True, cwd=Path(__file__).parent)
    logits, exits = torch.load(tmp_path / "found.pt")
    output = model(**batch)
    assert torch.equal(logits, output.logits)
    assert torch.equal(exits, output.exits)


def test_its_encoder_alone_has_the_weights_under_the_familys_names(tmp_path):
    from transformers import AutoModel

    model = leaving()
    model.save_pretrained(tmp_path)
    encoder = AutoModel.from_pretrained(tmp_path)
    assert not has_exits(encoder)
    assert all(torch.equal(value, model.bert.state_dict()[name]) for name, value in encoder.state_dict().items())


@torch.no_grad()
def test_a_copy_leaves_on_its_own():
    model, batch = leaving(), make_batch()
    before = model(**batch).logits
    other = copy.deepcopy(model)
    for parameter in model.parameters():
        parameter.zero_()
    assert torch.equal(other(**batch).logits, before)


@torch.no_grad()
def test_the_histogram_adds_up_to_all_texts():
    model, batch = leaving(), make_batch()
    with counted_exits() as counts:
        exits = [*model(**batch).exits.tolist(), *model(**make_batch(7)).exits.tolist()]
    found = describe_exits(model, counts)
    assert sum(found["blocks"]) == 23
    assert found["blocks"] == [exits.count(block) for block in range(1, BLOCKS + 1)]
    assert found["mean_block"] == pytest.approx(sum(exits) / 23)
    model(**batch)
    assert sum(counts.values()) == 23  # counted only while it was open


@torch.no_grad()
def test_in_a_hurry_every_text_leaves_as_early_as_any_can():
    model, batch = leaving(patience=2), make_batch()
    with hurried():
        assert model(**batch).exits.tolist() == [3] * 16
    assert model(**batch).exits.tolist() != [3] * 16


def test_states_of_all_layers_are_refused_where_texts_leave_and_given_where_they_do_not():
    model, batch = leaving(), make_batch()
    with pytest.raises(ConfigError, match=r"output_hidden_states is asked for.*model.patience = 4"):
        model(**batch, output_hidden_states=True)
    model.patience = 4
    assert len(model(**batch, output_hidden_states=True).hidden_states) == BLOCKS + 1


@pytest.mark.parametrize("patience", [0, -1, 1.5, True, "two"])
def test_a_patience_that_does_not_count_is_refused(patience):
    with pytest.raises(ConfigError, match="give a whole number of 1 or more"):
        with_exits(make(), patience=patience)


def test_models_that_texts_cannot_leave_are_refused_with_a_sentence():
    with pytest.raises(PlanError, match="a BertModel is not a model that gives each text a class or a number"):
        with_exits(BertModel(BertConfig(**SIZES)))
    gpt = GPT2Config(n_embd=32, n_layer=3, n_head=2, vocab_size=60, pad_token_id=PAD)
    with pytest.raises(PlanError, match="has a head whose form is not known"):
        with_exits(make(config=gpt))
    with pytest.raises(PlanError, match="has early exits already"):
        with_exits(leaving())
    short = BertConfig(**{**SIZES, "num_hidden_layers": 1}, vocab_size=60)
    with pytest.raises(PlanError, match="the model has none of two or more blocks"):
        with_exits(make(config=short))
    several = BertConfig(**SIZES, vocab_size=60, problem_type="multi_label_classification")
    with pytest.raises(PlanError, match="compare one class or one number"):
        with_exits(make(config=several))


def test_what_blocks_compute_beyond_the_head_is_found_by_trying(monkeypatch):
    model = make()
    monkeypatch.setattr(model.bert.pooler, "forward", lambda states: states[:, 1])  # not the first token's
    original = type(model).forward
    monkeypatch.setattr(type(model), "forward", lambda self, **inputs: _shifted(original(self, **inputs)))
    with pytest.raises(PlanError, match="computes more between blocks and head"):
        with_exits(model)


def _shifted(output):
    output.logits = output.logits + 1
    return output


def test_a_run_does_not_begin_from_a_model_with_exits():
    from plankwise.families import chains_of

    with pytest.raises(PlanError, match="has early exits, and is not compressed a second time"):
        chains_of(leaving())


def test_the_public_door_loads_it(tmp_path):
    leaving(patience=3).save_pretrained(tmp_path)
    model = plankwise.load(tmp_path)
    assert has_exits(model)
    assert (model.patience, model.num_blocks, model.leaves_early) == (3, BLOCKS, True)
