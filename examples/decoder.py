"""A decoder of Llama's shape, compressed by a mixed plan: a block of its own kind, a narrower one, an affine map, and nothing.

It reads text as bytes. `--data` names a folder with WikiText-2 (wiki.train.raw, wiki.valid.raw); without it, sentences are made up
of a few words. What both models score is the loss of the next byte on text that neither was trained on, in nats.

    python examples/decoder.py --data wikitext2 --steps 2000 --out runs/decoder
"""

import argparse
import random
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

import plankwise

LENGTH, BATCH = 64, 16
NOUNS, VERBS = ("ship", "plank", "sailor", "harbour"), ("carries", "repairs", "leaves", "finds")


def make_decoder() -> Any:
    sizes = {"hidden_size": 64, "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2}
    return LlamaForCausalLM(LlamaConfig(**sizes, intermediate_size=128, vocab_size=256, max_position_embeddings=256))


def read_text(data: Path | None, split: str) -> torch.Tensor:
    """The bytes of a split, train or valid, as token ids (N)."""
    if data is not None:
        text = (data / f"wiki.{split}.raw").read_bytes()
    else:
        draw = random.Random(split)
        some = (f"the {draw.choice(NOUNS)} {draw.choice(VERBS)} the {draw.choice(NOUNS)}. " for _ in range(2000))
        text = "".join(some).encode()
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).long()


def draw_batch(text: torch.Tensor, seed: int) -> torch.Tensor:
    """Pieces of a text, (B, T)."""
    generator = torch.Generator().manual_seed(seed)
    starts = torch.randint(len(text) - LENGTH, (BATCH, 1), generator=generator)
    return text[starts + torch.arange(LENGTH)]


def train(model: Any, text: torch.Tensor, steps: int) -> None:
    """A loop as there is one already; a hybrid is told how many steps there are, and which one comes next."""
    optimiser = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], 3e-3)
    if is_hybrid := hasattr(model, "set_step"):
        model.begin(steps)
    model.train()
    for step in range(steps):
        if is_hybrid:
            model.set_step(step)
        ids = draw_batch(text, step)
        model(input_ids=ids, labels=ids).loss.backward()
        optimiser.step()
        optimiser.zero_grad()


@torch.no_grad()
def score(model: Any, text: torch.Tensor) -> float:
    batches = [draw_batch(text, seed) for seed in range(8)]
    return sum(model.eval()(input_ids=ids, labels=ids).loss.item() for ids in batches) / len(batches)


def main(data: Path | None, out: Path, steps: int = 120) -> tuple[nn.Module, nn.Module, float, float]:
    """The hybrid, the successor as it was loaded again, and the losses before and after."""
    torch.manual_seed(0)
    text, valid, model = read_text(data, "train"), read_text(data, "valid"), make_decoder()
    train(model, text, steps)
    before, size = score(model, valid), model.num_parameters()
    slots = [
        {"path": "model.layers", "span": [0, 1], "part": "layers"},
        {"path": "model.layers", "span": [2, 3], "part": "narrow", "options": {"width": 0.5}},
        {"path": "model.layers", "span": [4], "part": "linear"},
        {"path": "model.layers", "span": [5], "part": "identity"},
    ]
    ship = plankwise.hybrid(model, slots=slots)
    train(ship, text, steps)
    ship.collapse().save_pretrained(out)
    successor = plankwise.load(out)
    after = score(successor, valid)
    print(f"predecessor: loss {before:.3f}, {size:,} parameters")
    print(f"successor: loss {after:.3f}, {successor.num_parameters():,} parameters")
    written = successor.generate(torch.tensor([list(b"the ")]), max_new_tokens=40, do_sample=False)[0]
    print(f"the successor writes: {bytes(written.tolist()).decode(errors='replace')}")
    return ship, successor, before, after


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with WikiText-2; made-up sentences if absent")
    parser.add_argument("--steps", type=int, default=120, help="of each of the two trainings")
    parser.add_argument("--out", type=Path, help="folder for the successor; a temporary one if absent")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        main(given.data, given.out or Path(folder), given.steps)
