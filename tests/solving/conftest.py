"""Solves plans of tiny models, and the toys that are solved."""

import copy
import gc
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from plankwise.core.chain import find_chains
from plankwise.core.plan import even_plan
from plankwise.models.plans import assemble, build_successors
from plankwise.solving.solve import solve


class LinearBlock(nn.Module):
    """x + Wx + b."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        return state + self.linear(state)


class LinearNet(nn.Module):
    """A chain of residual linear blocks."""

    def __init__(self, num_blocks: int = 4, width: int = 8) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(LinearBlock(width) for _ in range(num_blocks))

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            state = block(state)
        return state


def make_linear_net() -> LinearNet:
    torch.manual_seed(0)
    return LinearNet().eval()


def repeat(batches: list, times: int) -> list:
    """The batches but for the last two, which are held out, so many times, then those two."""
    return [*batches[:-2] * times, *batches[-2:]]


def make_states(count: int = 16, *, rows: int = 12, width: int = 8, seed: int = 0) -> list[dict[str, torch.Tensor]]:
    """Batches of states (B, T, D) for the linear net."""
    generator = torch.Generator().manual_seed(seed)
    return [{"state": torch.randn(rows, 3, width, generator=generator)} for _ in range(count)]


def make_tokens(
    count: int = 10, *, rows: int = 8, vocabulary: int = 99, seed: int = 0
) -> list[dict[str, torch.Tensor]]:
    """Batches of token ids from 3 on, padded with 0 behind the text."""
    generator = torch.Generator().manual_seed(seed)
    batches = []
    for _ in range(count):
        ids = torch.randint(3, vocabulary, (rows, 10), generator=generator)
        lengths = torch.randint(4, 11, (rows, 1), generator=generator)
        mask = (torch.arange(10) < lengths).long()
        batches.append({"input_ids": ids * mask, "attention_mask": mask})
    return batches


@pytest.fixture
def toys():
    return SimpleNamespace(
        make_linear_net=make_linear_net,
        make_states=make_states,
        make_tokens=make_tokens,
        repeat=repeat,
        live_bytes=live_bytes,
        copy=copy.deepcopy,
    )


def live_bytes() -> int:
    """Of all tensors that are alive, each storage counted once."""
    storages = {}
    for one in gc.get_objects():
        if type(one) in (torch.Tensor, nn.Parameter):
            storage = one.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


@pytest.fixture
def solved(tmp_path):
    """Solves a plan, half the blocks of each chain unless another is given; the last two batches are held out.

    `watch(folder)` is called behind the last batch of each pass.
    """

    def run(model, batches, plan=None, watch=lambda folder: None):
        plan = plan or even_plan(find_chains(model))
        folder = Path(tempfile.mkdtemp(dir=tmp_path))

        def given():
            yield from batches[:-2]
            watch(folder)

        solution = solve(
            model,
            plan,
            lambda init: build_successors(model, plan, init=init, seed=0),
            given,
            batches[-2:],
            folder,
        )
        return SimpleNamespace(
            solution=solution, plan=plan, effect=solution.to_json()["effect"], successors=solution.successors
        )

    run.assemble = assemble
    return run
