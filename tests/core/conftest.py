"""Torch-only models with a chain: a residual convolutional net and a stack of recurrent layers."""

import pytest
import torch
from torch import nn


class ResidualBlock(nn.Module):
    def __init__(self, channels: int = 4) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.drop = nn.Dropout(0.1)

    def forward(self, image):
        return image + self.drop(torch.relu(self.norm(self.conv(image))))


class ResidualNet(nn.Module):
    """The chain is an `nn.Sequential`."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.blocks = nn.Sequential(*(ResidualBlock() for _ in range(6)))
        self.head = nn.Linear(4, 2)

    def forward(self, image):
        return self.head(self.blocks(self.stem(image)).mean((2, 3)))


class RecurrentStack(nn.Module):
    """The chain's blocks return a tuple, of which the loop keeps the state."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.layers = nn.ModuleList(nn.GRU(8, 8, batch_first=True) for _ in range(4))
        self.head = nn.Linear(8, 2)

    def forward(self, tokens):
        state, lasts = self.embed(tokens), []
        for layer in self.layers:
            state, last = layer(state)
            lasts.append(last)
        return self.head(state[:, -1])


def make(name: str) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    if name == "residual":
        return ResidualNet().eval(), torch.randn(3, 3, 5, 5)
    return RecurrentStack().eval(), torch.randint(0, 11, (3, 7))


@pytest.fixture(params=["residual", "recurrent"])
def model_and_input(request):
    """A trained-looking model in eval mode and a batch for it."""
    return make(request.param)


@pytest.fixture
def residual():
    return make("residual")


@pytest.fixture
def recurrent():
    return make("recurrent")
