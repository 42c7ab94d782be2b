import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from plankwise.core.chain import Chain, find_chains
from plankwise.core.plan import (
    Plan,
    Slot,
    checked_plan,
    each_plan,
    even_plan,
    graded_plan,
    late_plan,
    listed_plan,
    match_paths,
)
from plankwise.errors import PlanError

TWELVE = [Chain("encoder.layer", 12, "Block")]


@pytest.mark.parametrize("successors", [6, 4, 3, 2, 1])
def test_twelve_blocks_divide_evenly(successors):
    plan = even_plan(TWELVE, successors)
    assert [len(slot.span) for slot in plan.slots] == [12 // successors] * successors
    assert [index for slot in plan.slots for index in slot.span] == list(range(12))


def test_half_the_blocks_are_kept_when_nothing_is_said():
    assert len(even_plan(TWELVE).slots) == 6


def test_successors_that_do_not_divide_are_refused_with_those_that_do():
    with pytest.raises(PlanError) as caught:
        even_plan(TWELVE, 5)
    assert str(caught.value) == (
        "plan.successors is 5, but 12 blocks (encoder.layer) do not divide into 5 equal spans; "
        "choose 1, 2, 3, 4, 6 or 12, or list plan.spans"
    )


@pytest.mark.parametrize(
    ("successors", "sizes"),
    [(1, [12]), (2, [1, 11]), (3, [1, 5, 6]), (5, [1, 2, 3, 3, 3]), (6, [1, 2, 2, 2, 2, 3]), (12, [1] * 12)],
)
def test_late_spans_begin_with_one_block_and_end_with_the_longest(successors, sizes):
    plan = late_plan(TWELVE, successors)
    assert [len(slot.span) for slot in plan.slots] == sizes
    assert [index for slot in plan.slots for index in slot.span] == list(range(12))


def test_more_late_spans_than_blocks_are_refused():
    assert len(late_plan(TWELVE).slots) == 6
    with pytest.raises(
        PlanError, match=r"plan\.successors is 13, but there are 12 blocks \(encoder\.layer\); choose 1 to 12"
    ):
        late_plan(TWELVE, 13)


def test_each_block_gets_a_slot_of_its_own():
    plan = each_plan(TWELVE, "thin", {"ffn": 0.5})
    assert [slot.span for slot in plan.slots] == [(block,) for block in range(12)]
    assert {(slot.part, slot.options["ffn"]) for slot in plan.slots} == {("thin", 0.5)}


def test_grades_are_laid_evenly_over_the_blocks():
    grades = [None, {"ffn": 0.5}, {"ffn": 0.25}]
    plan = graded_plan(TWELVE, "thin", grades)
    assert [(slot.span, slot.options["ffn"]) for slot in plan.slots] == [
        ((block,), 0.5 if block < 8 else 0.25) for block in range(4, 12)
    ]
    with pytest.raises(PlanError, match=r"leaves the lowest block alone, and encoder\.layer has no other"):
        graded_plan([Chain("encoder.layer", 1, "Block")], "thin", grades)


def test_spans_may_be_uneven_and_leave_blocks_alone():
    plan = listed_plan(TWELVE, [[5, 6, 7], [0, 1]])
    assert [slot.span for slot in plan.slots] == [(0, 1), (5, 6, 7)]


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([], "plan.spans is empty"),
        ([[]], "is empty"),
        ([[0, 2]], "not consecutive"),
        ([[1, 0]], "not consecutive"),
        ([[10, 11, 12]], "lies outside encoder.layer, whose blocks are 0 to 11"),
        ([[-1, 0]], "lies outside"),
        ([[0, 1], [1, 2]], "overlap at encoder.layer.1"),
    ],
)
def test_bad_spans_are_refused(spans, message):
    with pytest.raises(PlanError, match=message):
        listed_plan(TWELVE, spans)


def test_a_slot_inside_another_is_refused():
    with pytest.raises(PlanError, match="overlap"):
        checked_plan([Slot("encoder.layer", (0, 1)), Slot("encoder.layer.1.attention")], TWELVE)


def test_a_span_of_what_is_not_a_chain_is_refused():
    with pytest.raises(PlanError, match="head is not a chain"):
        checked_plan([Slot("head", (0,))], TWELVE)


@given(st.sets(st.integers(0, 11), min_size=1))
def test_a_plan_is_read_back_from_json(cuts):
    bounds = [0, *sorted(cuts - {0}), 12]
    spans = [list(range(a, b)) for a, b in itertools.pairwise(bounds)]
    plan = listed_plan(TWELVE, spans)
    assert Plan.from_json(plan.to_json()) == plan
    assert [index for slot in plan.slots for index in slot.span] == list(range(12))


def test_chains_are_found_outermost_first_and_lists_of_linear_maps_are_not():
    block = lambda: nn.Sequential(nn.Linear(2, 2), nn.ReLU())  # noqa: E731
    model = nn.Module()
    model.blocks = nn.ModuleList(nn.ModuleDict({"inner": nn.ModuleList([block(), block()])}) for _ in range(3))
    model.heads = nn.ModuleList(nn.Linear(2, 2) for _ in range(4))
    model.norms = nn.ModuleList(nn.LayerNorm(2) for _ in range(4))
    model.recurrent = nn.ModuleList(nn.LSTM(2, 2) for _ in range(2))
    assert [(chain.path, chain.length) for chain in find_chains(model)] == [("blocks", 3), ("recurrent", 2)]
    assert [chain.path for chain in find_chains(model, ["recurrent"])] == ["recurrent"]
    with pytest.raises(PlanError, match="Did you mean 'blocks'"):
        find_chains(model, ["block"])


def test_a_model_without_a_chain_is_refused():
    with pytest.raises(PlanError, match=r"Linear has no chain.*plan.slots"):
        find_chains(nn.Linear(2, 2))


def test_a_star_stands_for_any_index(residual):
    model, _ = residual
    assert match_paths(model, "blocks.*.conv") == [f"blocks.{index}.conv" for index in range(6)]
    with pytest.raises(PlanError, match=r"no module at 'block.0'"):
        match_paths(model, "block.0")
