"""A plan of several parts in three lines: trained, collapsed, saved and loaded, and its checkpoints on the way."""

import copy

import pytest
import torch

import plankwise
from plankwise.errors import ConfigError, PlanError
from sublayers import logits, make, make_inputs

MIXED = [
    {"path": "bert.encoder.layer.0.intermediate.dense", "part": "low_rank", "options": {"rank": 0.5}},
    {"path": "bert.encoder.layer.0.attention", "part": "fixed_attention"},
    {"path": "bert.embeddings.word_embeddings", "part": "factorised_embedding", "options": {"width": 0.5}},
    {"path": "bert.embeddings.position_embeddings", "part": "define"},
    {"path": "bert.encoder.layer.1.attention", "part": "no_attention"},
    {"path": "bert.encoder.layer", "span": [2, 3], "part": "thin", "options": {"ffn": 0.5, "heads": 0.5}},
]


@pytest.fixture
def ship():
    return plankwise.hybrid(make(num_hidden_layers=4), slots=MIXED, schedule=plankwise.Constant(rate=1))


def test_a_mixed_plan_is_trained_collapsed_saved_and_loaded(ship, tmp_path):
    assert [slot.part for slot in ship.plan.slots] == [
        "factorised_embedding", "define", "fixed_attention", "low_rank", "no_attention", "thin",
    ]  # fmt: skip
    parameters = ship.successor_parameters()
    before = {name: value.detach().clone() for name, value in parameters.items()}
    optimiser = torch.optim.SGD(parameters.values(), lr=0.1)
    ship.begin(2)
    ship.train()
    ship(**make_inputs(ship), labels=torch.tensor([0, 1])).loss.backward()
    optimiser.step()
    # Attention is unchanged by what is added to all keys alike.
    assert not [k for k, v in parameters.items() if torch.equal(v, before[k]) and not k.endswith("key.bias")]
    ship.eval()
    successor = ship.collapse()
    assert torch.equal(logits(successor), logits(ship))
    assert sum(one.numel() for one in successor.parameters()) < sum(
        one.numel() for one in make(num_hidden_layers=4).parameters()
    )
    successor.save_pretrained(tmp_path / "successor")
    torch.testing.assert_close(logits(plankwise.load(tmp_path / "successor")), logits(ship), atol=1e-6, rtol=1e-6)
    ship.save_pretrained(tmp_path / "checkpoint")
    torch.testing.assert_close(logits(plankwise.load(tmp_path / "checkpoint")), logits(ship), atol=1e-6, rtol=1e-6)


def test_slots_that_are_listed_are_checked_as_a_recipes_are():
    with pytest.raises(ConfigError, match=r"plan\.slots.*prat: there is no such key"):
        plankwise.hybrid(make(), slots=[{"path": "bert.embeddings.word_embeddings", "prat": "define"}])
    with pytest.raises(PlanError, match=r"slots .* overlap at bert\.encoder\.layer\.0"):
        plankwise.hybrid(
            make(),
            slots=[
                {"path": "bert.encoder.layer.0.attention", "part": "no_attention"},
                {"path": "bert.encoder.layer", "span": [0, 1]},
            ],
        )


def test_a_model_in_half_precision_gets_successors_in_half_precision():
    ship = plankwise.hybrid(make(num_hidden_layers=4).to(torch.bfloat16), slots=MIXED)
    assert {value.dtype for value in ship.parameters()} == {torch.bfloat16}
    assert logits(ship.eval()).isfinite().all()


def test_modules_of_ones_own_stand_beside_parts_in_one_plan_and_for_spans():
    model = make(num_hidden_layers=4)
    block = copy.deepcopy(model.bert.encoder.layer[0])
    slots = [
        {"path": "bert.encoder.layer", "span": [2, 3], "module": block},
        {"path": "bert.encoder.layer", "span": [1], "part": "linear"},
    ]
    ship = plankwise.hybrid(model, slots=slots).eval()
    assert [(slot.span, slot.part) for slot in ship.plan.slots] == [((1,), "linear"), ((2, 3), "own")]
    successor = ship.collapse()
    assert len(successor.bert.encoder.layer) == 3
    assert torch.equal(successor.bert.encoder.layer[2].output.dense.weight, block.output.dense.weight)
    assert torch.equal(logits(successor), logits(ship))


@pytest.mark.parametrize(
    "entry",
    [
        {"path": "bert.encoder.layer", "span": [0], "module": "thin"},
        {"span": [0], "module": torch.nn.Identity()},
        {"path": "bert.encoder.layer", "span": [0], "module": torch.nn.Identity(), "part": "linear"},
    ],
)
def test_an_entry_with_a_module_has_a_path_and_no_part(entry):
    with pytest.raises(ConfigError, match=r"slots has the entry .* has the keys path, module \(an nn\.Module\)"):
        plankwise.hybrid(make(), slots=[entry])
