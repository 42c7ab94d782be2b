"""What solving half the blocks of an encoder costs: seconds, and as many forward passes of the predecessor over the same tokens.

Random weights in BERT's form and random tokens: least squares costs the same on them as on real ones.

    python benchmarks/solving.py [--width 384] [--layers 6] [--tokens 30000] [--cut even] [--section FILE]

BERT-base is `--width 768 --layers 12`.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from _common import add_section_option, make_table, peak_mb, write_section
from rich.console import Console
from transformers import BertConfig, BertForSequenceClassification

from plankwise.core.chain import find_chains
from plankwise.core.plan import even_plan, late_plan
from plankwise.models.plans import build_successors
from plankwise.solving.solve import solve
from plankwise.training.products import fast_products

TEXTS, LENGTH = 64, 24  # of a batch: as many as a run takes, as long as a sentence of a review


def make_model(width: int, layers: int) -> BertForSequenceClassification:
    torch.manual_seed(0)
    heads = max(1, width // 64)
    config = BertConfig(
        hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * width
    )
    return BertForSequenceClassification(config).eval()


def make_batches(tokens: int) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(1000, 30000, (max(2, round(tokens / TEXTS / LENGTH)), TEXTS, LENGTH), generator=generator)
    return [{"input_ids": one, "attention_mask": torch.ones_like(one)} for one in ids]


@torch.no_grad()
def measure(width: int, layers: int, tokens: int, cut: str, console: Console) -> dict[str, float]:
    """Seconds of one forward pass over all tokens, before and behind solving, and of solving."""
    model, batches = make_model(width, layers), make_batches(tokens)
    plan = (late_plan if cut == "late" else even_plan)(find_chains(model))

    def given() -> Iterator[dict[str, torch.Tensor]]:
        return iter(batches)

    def forward() -> float:
        started = time.perf_counter()
        for batch in batches:
            model(**batch)
        return time.perf_counter() - started

    before = forward()
    with fast_products(), tempfile.TemporaryDirectory() as folder:
        found = solve(
            model,
            plan,
            lambda init: build_successors(model, plan, init=init, seed=0),
            given,
            batches[: max(1, len(batches) // 20)],
            Path(folder),
            show=lambda line: console.print(line, soft_wrap=True),
        )
    return {"solving": found.seconds, "forward": (before + forward()) / 2, "peak": peak_mb()}


def main(arguments: argparse.Namespace) -> None:
    console = Console()
    found = measure(arguments.width, arguments.layers, arguments.tokens, arguments.cut, console)
    passes = found["solving"] / found["forward"]
    what = f"{arguments.layers} blocks of width {arguments.width} to half, {arguments.cut} spans, {arguments.tokens} tokens, "
    what += f"{torch.get_num_threads()} threads"
    console.print(
        f"{what}: solved in {found['solving']:.0f} s, as {passes:.1f} forward passes, {found['peak']:.0f} MB",
        soft_wrap=True,
    )
    table = make_table(
        ["", "seconds", "one forward pass, seconds", "ratio", "MB"],
        [[what, f"{found['solving']:.0f}", f"{found['forward']:.1f}", f"{passes:.1f}", f"{found['peak']:.0f}"]],
    )
    write_section(
        arguments.section,
        "Solved successors",
        ["Random weights; the forward pass, as torch runs it, before and behind it.", table],
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=30_000)
    parser.add_argument("--cut", choices=("even", "late"), default="even")
    add_section_option(parser)
    main(parser.parse_args())
