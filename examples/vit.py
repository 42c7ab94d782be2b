"""A vision transformer, compressed by a mixed plan: a block of its own kind, Lite Transformer's block, an affine map, and nothing.

It is a model of transformers, so that its successor is saved with its plan and loaded by `plankwise.load`. The images are made up:
stripes in one of four directions, under noise.

    python examples/vit.py --out runs/vit
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import ViTConfig, ViTForImageClassification

import plankwise

CLASSES, SIDE, BATCH = 4, 8, 32


def make_vit() -> Any:
    sizes = {"hidden_size": 32, "num_hidden_layers": 6, "num_attention_heads": 4, "intermediate_size": 64}
    return ViTForImageClassification(
        ViTConfig(**sizes, image_size=SIDE, patch_size=2, num_channels=1, num_labels=CLASSES)
    )


def make_images(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images (N, 1, 8, 8) and their classes (N)."""
    generator = torch.Generator().manual_seed(seed)
    classes = torch.randint(CLASSES, (count,), generator=generator)
    rows, columns = torch.meshgrid(torch.arange(float(SIDE)), torch.arange(float(SIDE)), indexing="ij")
    stripes = torch.stack([torch.sin(one) for one in (rows, columns, rows + columns, rows - columns)])
    return (stripes[classes] + 0.5 * torch.randn(count, SIDE, SIDE, generator=generator))[:, None], classes


def train(model: Any, steps: int) -> None:
    """A loop as there is one already; a hybrid is told how many steps there are, and which one comes next."""
    images, classes = make_images(BATCH * steps, seed=1)
    optimiser = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], 1e-3)
    if is_hybrid := hasattr(model, "set_step"):
        model.begin(steps)
    model.train()
    for step in range(steps):
        if is_hybrid:
            model.set_step(step)
        some = slice(BATCH * step, BATCH * (step + 1))
        model(pixel_values=images[some], labels=classes[some]).loss.backward()
        optimiser.step()
        optimiser.zero_grad()


@torch.no_grad()
def score(model: Any) -> float:
    images, classes = make_images(500, seed=2)
    return (model.eval()(pixel_values=images).logits.argmax(1) == classes).float().mean().item()


def main(out: Path, steps: int = 150) -> tuple[nn.Module, nn.Module, float, float]:
    """The hybrid, the successor as it was loaded again, and the accuracies before and after."""
    torch.manual_seed(0)
    model = make_vit()
    train(model, steps)
    before, size = score(model), model.num_parameters()
    slots = [
        {"path": "vit.layers", "span": [0, 1], "part": "layers"},
        {"path": "vit.layers", "span": [2, 3], "part": "lite", "options": {"kernels": [3]}},
        {"path": "vit.layers", "span": [4], "part": "linear"},
        {"path": "vit.layers", "span": [5], "part": "identity"},
    ]
    ship = plankwise.hybrid(model, slots=slots)
    train(ship, steps)
    ship.collapse().save_pretrained(out)
    successor = plankwise.load(out)
    after = score(successor)
    print(f"predecessor: accuracy {before:.3f}, {size:,} parameters")
    print(f"successor: accuracy {after:.3f}, {successor.num_parameters():,} parameters")
    return ship, successor, before, after


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder for the successor; a temporary one if absent")
    with tempfile.TemporaryDirectory() as folder:
        main(parser.parse_args().out or Path(folder))
