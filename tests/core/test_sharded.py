"""A hybrid whose parameters FSDP has divided among two processes (gloo), in a loop of one's own."""

import pytest
import torch

from workers import free_port, join_ranks, make_sharded_hybrid, train_in_a_loop, train_sharded, wait


@pytest.fixture(scope="module")
def gathered(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sharded")
    assert [wait(rank) for rank in join_ranks(train_sharded, 2, free_port(), str(folder))] == [0, 0]
    return torch.load(folder / "gathered.pt", weights_only=True)


def test_each_rank_keeps_half_of_the_parameters(gathered):
    assert gathered["own"] * 2 == gathered["whole"]


def test_sharded_it_learns_what_one_process_learns_and_collapses_to_the_same_successor(gathered):
    alone = make_sharded_hybrid()
    start = {name: value.clone() for name, value in alone.state_dict().items()}
    _, masks = train_in_a_loop(alone, 0, 1)
    assert masks == gathered["masks"]
    assert any(any(mask) and not all(mask) for mask in masks)
    moved = max((value - start[name]).abs().max() for name, value in alone.state_dict().items())
    assert moved > 1e-3
    whole = make_sharded_hybrid()
    whole.load_state_dict(gathered["weights"])
    found, expected = whole.collapse().state_dict(), alone.collapse().state_dict()
    assert list(found) == list(expected)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, atol=1e-9, rtol=0)
