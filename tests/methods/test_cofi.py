"""Joint structured pruning: gates and their price written out, what stays, a smaller model that loads, and what is refused."""

import math

import pytest
import torch
from torch import nn

import plankwise
from plankwise.core.chain import find_chains
from plankwise.core.plan import Plan, Slot, even_plan
from plankwise.errors import PlanError
from plankwise.methods import cofi, finetune, kd
from plankwise.training.gates import Choice, Gates, GatesCallback, Row, attach, open_probability, stretch
from stages import make_bert

TWO = [[Row("heads", 2, 4, 30), Row("channels", 4, 1, 10)]] * 2  # two blocks of 60 + 40 multiply-adds


@pytest.fixture
def job(make_job):
    """4 blocks to 4, of 4 heads each."""

    def make(**options):
        model = make_bert(num_attention_heads=4, initializer_range=0.3).eval()
        return make_job(model, even_plan(find_chains(model), 4), init="lower", **options)

    return make


def test_a_gate_is_a_stretched_sigmoid_held_between_0_and_1_and_open_with_the_probability_of_its_formula():
    u, a = torch.tensor([0.01, 0.5, 0.6, 0.99]), torch.tensor(0.3)
    expected = [min(1, max(0, 1.2 / (1 + math.exp(-(math.log(x / (1 - x)) + 0.3) * 1.5)) - 0.1)) for x in u.tolist()]
    assert stretch(u, a).tolist() == pytest.approx(expected)
    assert (stretch(torch.linspace(1e-5, 1 - 1e-5, 100_001), a) > 0).float().mean().item() == pytest.approx(
        1 / (1 + math.exp(-(0.3 - 2 / 3 * math.log(1 / 11)))), abs=1e-4
    )
    assert open_probability(a).item() == pytest.approx(1 / (1 + math.exp(-(0.3 - 2 / 3 * math.log(1 / 11)))))


def test_the_price_is_that_of_the_expected_share_less_the_one_aimed_at_and_rises_while_it_is_missed():
    gates = Gates(TWO, final=0.5, speed=10.0)
    gates.left = 0.7
    with torch.no_grad():
        gates.prices.copy_(torch.tensor([-0.2, -0.3]))  # times minus the speed: 2 and 3
    distance = 0.95 * (60 * 0.95 + 40 * 0.95) * 2 / 200 - 0.7
    penalty = gates.penalty()
    assert penalty.item() == pytest.approx(2 * distance + 3 * distance**2, rel=1e-4)
    penalty.backward()
    assert gates.prices.grad.tolist() == pytest.approx(
        [distance, distance**2], rel=1e-4
    )  # Adam moves them down: prices up
    (gradient,) = torch.autograd.grad(gates.share([open_probability(a) for a in gates.logits()]), gates.blocks)
    assert gradient.tolist() == pytest.approx([0.5 * 0.95 * 0.95 * 0.05] * 2, rel=1e-3)  # of the logits: no factor 10


def test_the_share_aimed_at_falls_in_a_line():
    gates = Gates(TWO, final=0.4, speed=1.0)
    shares = []
    for step in range(7):
        GatesCallback(gates, 0.5).on_step_begin(None, type("State", (), {"global_step": step, "max_steps": 8}), None)
        shares.append(gates.left)
    assert shares == pytest.approx([1, 0.85, 0.7, 0.55, 0.4, 0.4, 0.4])


def test_the_most_closed_go_until_the_share_is_left_but_one_unit_of_a_row_and_one_block_stay():
    gates = Gates(TWO, final=0.75, speed=1.0)
    with torch.no_grad():
        gates.units[0].copy_(torch.tensor([-3.0, -4.0]))
        gates.units[3].copy_(torch.tensor([0.0, -1.0, 0.0, -2.0]))
    told = [(one.stays, [units.tolist() for units in one.units]) for one in gates.choose()]
    assert told == [(True, [[0], [0, 1, 2, 3]]), (True, [[0, 1], [0, 2]])]  # 200 less 30 less 10 less 10
    with torch.no_grad():
        gates.blocks.copy_(torch.tensor([-9.0, -8.0]))
    assert [one.stays for one in gates.choose()] == [False, True]
    assert gates.eval().share(gates.values()).item() == 0.5


def test_a_block_that_goes_belongs_to_the_span_before_it_or_else_after_it():
    gates = Gates(TWO * 2, final=0.5, speed=1.0)
    whole, half = (torch.arange(2), torch.arange(4)), (torch.arange(1), torch.arange(4))
    chosen = [Choice(stays, units) for stays, units in [(False, whole), (True, half), (False, whole), (True, whole)]]
    plan = cofi.merged(tuple(Slot("chain", (2 * n, 2 * n + 1)) for n in range(4)), gates, chosen)
    assert [(slot.span, slot.part, slot.options) for slot in plan.slots] == [
        ((0, 1, 2, 3, 4, 5), "thin", {"heads": 0.5, "ffn": 1.0}),
        ((6, 7), "layers", {}),
    ]


def test_what_is_cut_answers_as_the_model_with_shut_gates_does():
    model = make_bert(num_attention_heads=4, initializer_range=0.3).eval()
    paths = [f"bert.encoder.layer.{index}" for index in range(4)]
    blocks = [model.get_submodule(path) for path in paths]
    gates = Gates([cofi.rows_of(block) for block in blocks], 0.6, 1.0).eval()
    assert [(row.count, row.cost) for row in gates.rows[0]] == [(4, 4 * 16 * 4), (32, 2 * 16)]
    torch.manual_seed(1)
    with torch.no_grad():
        for one in gates.units:
            one.normal_()
        gates.blocks[1] = -9
    ids = torch.arange(5, 25).view(2, 10)
    handles = attach(gates, blocks)
    with torch.no_grad():
        masked = model(ids).logits
        for handle in handles:
            handle.remove()
        whole = model(ids).logits
        cofi.cut(model, paths, gates.choose())
        torch.testing.assert_close(model(ids).logits, masked)
    assert len(model.bert.encoder.layer) == 3
    assert not torch.allclose(whole, masked)


@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_with_nothing_to_leave_out_it_is_fine_tuning_or_distillation_to_the_bit(alpha, make_job):
    other = kd.Options(alpha=alpha, T=2.0) if alpha else finetune.Options()
    plain = (kd if alpha else finetune).compress(make_job(init="lower"), other).successor.state_dict()
    ours = cofi.compress(make_job(init="lower"), cofi.Options(target=1, alpha=alpha)).successor.state_dict()
    assert all(torch.equal(value, ours[name]) for name, value in plain.items())


def test_the_successor_is_smaller_and_loads_with_the_same_answers(job, tmp_path):
    outcome = cofi.compress(job(), cofi.Options(target=2.0))
    model = outcome.successor
    maps = [one for one in model.bert.encoder.modules() if isinstance(one, nn.Linear)]
    before = 4 * (4 * 16 * 16 + 2 * 16 * 32)
    assert 0.3 < sum(one.weight.numel() for one in maps) / before <= 0.5
    assert outcome.notes["gates"]["left"] == pytest.approx(sum(one.weight.numel() for one in maps) / before)
    assert [(stage.name, stage.steps) for stage in outcome.stages.values()] == [("gates", 3), ("cofi", 3)]
    assert not [name for name in model.state_dict() if "gates" in name]
    assert sorted(index for slot in outcome.plan.slots for index in slot.span) == [0, 1, 2, 3]
    model.save_pretrained(tmp_path / "saved")
    ids = torch.arange(5, 25).view(2, 10)
    with torch.no_grad():
        assert torch.equal(plankwise.load(tmp_path / "saved")(ids).logits, model.eval()(ids).logits)


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (lambda chains: even_plan(chains, 2, "linear"), "holds the part 'linear'; set plan.part = 'layers'"),
        (lambda chains: Plan((Slot(chains[0].path, (0, 1)),)), "slots for 2 of 4 blocks of bert.encoder.layer"),
    ],
)
def test_plans_of_other_parts_or_of_some_blocks_are_refused(make_job, plan, why):
    with pytest.raises(PlanError, match=why):
        cofi.compress(make_job(plan=plan(find_chains(make_job().predecessor))), cofi.Options())
