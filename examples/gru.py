"""A stack of GRUs, compressed by a mixed plan: a block of its own kind, a narrower recurrent layer, an affine map, and nothing.

A block that gives a state (B, T, D) of the shape that it is given, and nothing else, is all that plankwise's parts ask for. The
sequences are made up: the class is the symbol that stands behind the mark.

    python examples/gru.py
"""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

import plankwise

SYMBOLS, WIDTH, LENGTH, BATCH = 4, 32, 10, 32


class Block(nn.Module):
    """x + W·GRU(norm(x)), (B, T, D) to the same shape."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.gru = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.out(self.gru(self.norm(x))[0])


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(SYMBOLS + 1, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(5))
        self.head = nn.Linear(WIDTH, SYMBOLS)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x[:, -1])


def make_sequences(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences (N, T) and their classes (N); the mark is the last symbol of all."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(SYMBOLS, (count, LENGTH), generator=generator)
    places = torch.randint(LENGTH - 1, (count, 1), generator=generator)
    return ids.scatter(1, places, SYMBOLS), ids.gather(1, places + 1)[:, 0]


def train(model: Any, steps: int) -> None:
    """A loop as there is one already; a hybrid is told how many steps there are, and which one comes next."""
    ids, classes = make_sequences(BATCH * steps, seed=1)
    optimiser = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], 3e-3)
    if is_hybrid := hasattr(model, "set_step"):
        model.begin(steps)
    model.train()
    for step in range(steps):
        if is_hybrid:
            model.set_step(step)
        some = slice(BATCH * step, BATCH * (step + 1))
        functional.cross_entropy(model(ids[some]), classes[some]).backward()
        optimiser.step()
        optimiser.zero_grad()


@torch.no_grad()
def score(model: nn.Module) -> float:
    ids, classes = make_sequences(500, seed=2)
    return (model.eval()(ids).argmax(1) == classes).float().mean().item()


def main(steps: int = 150) -> tuple[nn.Module, nn.Module, float, float]:
    """The hybrid, the successor, and the accuracies before and after."""
    torch.manual_seed(0)
    model = Stack()
    train(model, steps)
    before, size = score(model), sum(one.numel() for one in model.parameters())
    narrower = {"cell": "gru", "width": 8, "causal": True}  # a GRU reads from left to right
    slots = [
        {"path": "blocks", "span": [0, 1], "part": "layers"},
        {"path": "blocks", "span": [2], "part": "recurrent", "options": narrower},
        {"path": "blocks", "span": [3], "part": "linear"},
        {"path": "blocks", "span": [4], "part": "identity"},
    ]
    ship = plankwise.hybrid(model, slots=slots)
    train(ship, steps)
    successor = ship.collapse()
    after, small = score(successor), sum(one.numel() for one in successor.parameters())
    print(f"predecessor: accuracy {before:.3f}, {size:,} parameters")
    print(f"successor: accuracy {after:.3f}, {small:,} parameters")
    return ship, successor, before, after


if __name__ == "__main__":
    main()
