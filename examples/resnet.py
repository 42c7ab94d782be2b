"""A ResNet of one's own, compressed by a mixed plan: a block of its own kind, a smaller module of one's own, and nothing.

Of plankwise's parts only `layers` fits a convolutional block, the others are for states (B, T, D): a slot can be given a module
instead. The images are made up: stripes in one of four directions, under noise.

    python examples/resnet.py
"""

from collections import OrderedDict
from typing import Any

import torch
from torch import nn
from torch.nn import functional

import plankwise

CLASSES, WIDTH, BATCH = 4, 16, 32


class Block(nn.Module):
    """relu(x + conv(relu(conv(x)))), (B, C, H, W) to the same shape."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(x + self.second(functional.relu(self.first(x))))


def make_resnet() -> nn.Module:
    blocks = nn.Sequential(*(Block(WIDTH) for _ in range(6)))
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(WIDTH, CLASSES))
    return nn.Sequential(OrderedDict(stem=nn.Conv2d(1, WIDTH, 3, padding=1), blocks=blocks, head=head))


def make_separable() -> nn.Module:
    """The module of one's own: a kernel for each channel, then a map over channels; a tenth of a block's weights."""
    return nn.Sequential(nn.Conv2d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH), nn.Conv2d(WIDTH, WIDTH, 1), nn.ReLU())


def make_images(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images (N, 1, 8, 8) and their classes (N)."""
    generator = torch.Generator().manual_seed(seed)
    classes = torch.randint(CLASSES, (count,), generator=generator)
    rows, columns = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
    stripes = torch.stack([torch.sin(one) for one in (rows, columns, rows + columns, rows - columns)])
    return (stripes[classes] + torch.randn(count, 8, 8, generator=generator))[:, None], classes


def train(model: Any, steps: int) -> None:
    """A loop as there is one already; a hybrid is told how many steps there are, and which one comes next."""
    images, classes = make_images(BATCH * steps, seed=1)
    optimiser = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], 2e-3)
    if is_hybrid := hasattr(model, "set_step"):
        model.begin(steps)
    model.train()
    for step in range(steps):
        if is_hybrid:
            model.set_step(step)
        some = slice(BATCH * step, BATCH * (step + 1))
        functional.cross_entropy(model(images[some]), classes[some]).backward()
        optimiser.step()
        optimiser.zero_grad()


@torch.no_grad()
def score(model: nn.Module) -> float:
    images, classes = make_images(500, seed=2)
    return (model.eval()(images).argmax(1) == classes).float().mean().item()


def main(steps: int = 150) -> tuple[nn.Module, nn.Module, float, float]:
    """The hybrid, the successor, and the accuracies before and after."""
    torch.manual_seed(0)
    model = make_resnet()
    train(model, steps)
    before, size = score(model), sum(one.numel() for one in model.parameters())
    slots = [
        {"path": "blocks", "span": [0, 1], "part": "layers"},  # one block for two, which starts as the first of them
        {"path": "blocks", "span": [2, 3, 4], "module": make_separable()},
        {"path": "blocks", "span": [5], "module": nn.Identity()},
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
