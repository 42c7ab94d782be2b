"""Dropping blocks by how alike the states before and after them are: the cosines by hand, the choice, and what is left."""

import pytest
import torch
from torch import nn

from plankwise.core.plan import Plan, Slot
from plankwise.errors import PlanError
from plankwise.methods import drop

PATH = "bert.encoder.layer"


class Turn(nn.Module):
    """Turns states of two numbers by some degrees."""

    def __init__(self, degrees: float) -> None:
        super().__init__()
        angle = torch.deg2rad(torch.tensor(degrees))
        self.turn = nn.Linear(2, 2, bias=False)
        with torch.no_grad():
            self.turn.weight.copy_(torch.tensor([[angle.cos(), -angle.sin()], [angle.sin(), angle.cos()]]))

    def forward(self, state):
        return self.turn(state)


class Turning(nn.Module):
    def __init__(self, *degrees: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Turn(one) for one in degrees)

    def forward(self, states, attention_mask):
        for layer in self.layers:
            states = layer(states)
        return states


def test_cosines_are_those_of_the_angles_between_the_states():
    angles = (30.0, 60.0, 10.0)
    states = torch.randn(2, 5, 2, generator=torch.Generator().manual_seed(0))
    batches = [{"states": states, "attention_mask": torch.ones(2, 5)}] * 2
    found = torch.tensor(drop.compare_states(Turning(*angles), ["layers"], batches)["layers"])
    turned = torch.tensor([0.0, 30.0, 90.0, 100.0])
    torch.testing.assert_close(found, torch.deg2rad(turned[None] - turned[:, None]).cos(), atol=1e-6, rtol=0)


def test_padding_is_not_counted():
    model = Turning(20.0, 20.0)
    model.layers[1] = nn.ReLU()  # turns each token by another angle
    states = torch.randn(2, 4, 2, generator=torch.Generator().manual_seed(1))
    mask = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0]])
    found = drop.compare_states(model, ["layers"], [{"states": states, "attention_mask": mask}])["layers"][1][2]
    turned = model.layers[0](states).detach()
    cosines = nn.functional.cosine_similarity(turned, turned.relu(), dim=-1)
    assert found == pytest.approx((cosines * mask).sum().item() / 5, abs=1e-6)


COSINES = {
    "layers": [
        [1.0, 0.9, 0.5, 0.5, 0.5, 0.5],
        [0.0, 1.0, 0.3, 0.6, 0.1, 0.1],  # blocks 1 and 2 together: 0.6
        [0.0, 0.0, 1.0, 0.8, 0.7, 0.1],  # block 2 alone: 0.8; blocks 2 and 3 together: 0.7
        [0.0, 0.0, 0.0, 1.0, 0.2, 0.4],
        [0.0, 0.0, 0.0, 0.0, 1.0, 0.9],  # block 4 alone: 0.9
        [0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
    ]
}


@pytest.mark.parametrize(
    ("blocks", "count", "expected"),
    [("neighbours", 1, (4,)), ("neighbours", 2, (2, 3)), ("any", 2, (2, 4)), ("neighbours", 4, (1, 2, 3, 4))],
)
def test_those_go_whose_states_before_and_after_are_most_alike_but_never_the_first(blocks, count, expected):
    assert drop.choose(COSINES, {"layers": count}, blocks) == {"layers": expected}


def test_a_dropped_block_belongs_to_the_span_of_the_kept_one_before_it():
    plan = drop.make_plan({"a": (2, 4, 5), "b": (1,)})
    assert [(slot.path, slot.span) for slot in plan.slots] == [("a", (1, 2)), ("a", (3, 4, 5)), ("b", (0, 1))]
    assert plan.kept("a", 6) == [0, 1, 3]


def test_what_is_left_are_the_predecessors_own_blocks_in_their_order(make_job):
    job = make_job(training={"learning_rate": 1e-12})
    with torch.no_grad():  # blocks 1 and 2 give what they are given, but for their norms
        for index in (1, 2):
            for module in (
                job.predecessor.get_submodule(f"{PATH}.{index}.{name}.dense") for name in ("attention.output", "output")
            ):
                module.weight.zero_()
                module.bias.zero_()
    before = {name: value.clone() for name, value in job.predecessor.state_dict().items()}
    outcome = drop.compress(job, drop.Options(tokens=100))
    assert outcome.notes["dropped"] == {PATH: [1, 2]}
    assert outcome.plan == Plan((Slot(PATH, (0, 1, 2)),))
    assert list(outcome.stages) == ["healing"]
    after = outcome.successor.state_dict()
    for ours, theirs in ((0, 0), (1, 3)):
        name = "output.dense.weight"
        torch.testing.assert_close(after[f"{PATH}.{ours}.{name}"], before[f"{PATH}.{theirs}.{name}"])


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (
            Plan((Slot(f"{PATH}.0.attention"),)),
            "asks for another kind of successor; give plan.successors or plan.spans",
        ),
        (Plan((Slot(PATH, (0, 1), "linear"),)), "part 'linear' asks for another kind"),
        (Plan(tuple(Slot(PATH, (index,)) for index in range(4))), "keeps all of them; give fewer plan.successors"),
    ],
)
def test_a_plan_that_leaves_no_blocks_out_is_refused(plan, said):
    with pytest.raises(PlanError, match=said):
        drop.count_dropped(plan)
