"""A graph network, compressed by a mixed plan: a block of its own kind, and a smaller module of one's own.

A block gets more than its state here, the graph's edges, and without them it cannot run: plankwise's parts but `layers` do not
fit, modules of one's own do, if they are called like the block. The graphs are made up: a node's class is whether it is at most
two edges away from a marked one.

    python examples/graph.py
"""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

import plankwise

NODES, WIDTH, BATCH = 12, 32, 16


class Block(nn.Module):
    """x + W·relu(V·x + U·A·x): states (B, N, D), edges A (B, N, N)."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.others, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        return x + self.out(functional.relu(self.own(x) + self.others(edges @ x)))


class Messages(nn.Module):
    """A module of one's own: x + W·relu(A·x); a third of a block's weights."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        return x + self.out(functional.relu(edges @ x))


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(1, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(5))
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, marks: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        x = self.enter(marks)
        for block in self.blocks:
            x = block(x, edges)
        return self.head(x)


def make_graphs(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Marks (B, N, 1), edges (B, N, N) without direction, and the classes of nodes (B, N)."""
    generator = torch.Generator().manual_seed(seed)
    half = (torch.rand(count, NODES, NODES, generator=generator) < 0.12).float().triu(1)
    edges, marks = half + half.mT, (torch.rand(count, NODES, 1, generator=generator) < 0.12).float()
    near = marks + edges @ marks + edges @ (edges @ marks)
    return marks, edges, (near[..., 0] > 0).long()


def train(model: Any, steps: int) -> None:
    """A loop as there is one already; a hybrid is told how many steps there are, and which one comes next."""
    optimiser = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], 3e-3)
    if is_hybrid := hasattr(model, "set_step"):
        model.begin(steps)
    model.train()
    for step in range(steps):
        if is_hybrid:
            model.set_step(step)
        marks, edges, classes = make_graphs(BATCH, seed=step)
        functional.cross_entropy(model(marks, edges).flatten(0, 1), classes.flatten()).backward()
        optimiser.step()
        optimiser.zero_grad()


@torch.no_grad()
def score(model: nn.Module) -> float:
    marks, edges, classes = make_graphs(200, seed=-1)
    return (model.eval()(marks, edges).argmax(-1) == classes).float().mean().item()


def main(steps: int = 200) -> tuple[nn.Module, nn.Module, float, float]:
    """The hybrid, the successor, and the accuracies before and after."""
    torch.manual_seed(0)
    model = Network()
    train(model, steps)
    before, size = score(model), sum(one.numel() for one in model.parameters())
    slots = [
        {"path": "blocks", "span": [0, 1], "part": "layers"},
        {"path": "blocks", "span": [2, 3], "module": Messages()},
    ]  # block 4 stays as it is
    ship = plankwise.hybrid(model, slots=slots)
    train(ship, steps)
    successor = ship.collapse()
    after, small = score(successor), sum(one.numel() for one in successor.parameters())
    print(f"predecessor: accuracy {before:.3f}, {size:,} parameters")
    print(f"successor: accuracy {after:.3f}, {small:,} parameters")
    return ship, successor, before, after


if __name__ == "__main__":
    main()
