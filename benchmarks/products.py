"""What float32 products by oneDNN are worth here: a block of an encoder, forward and back, by torch's own choice and by oneDNN.

Both in turns; the ratio is the median of paired ratios. Also how far each is from the same in float64.

    python benchmarks/products.py [--rounds 20] [--section FILE]
"""

import argparse
import statistics
import time

import torch
from _common import add_section_option, make_table, write_section
from rich.console import Console
from torch import nn

from plankwise.training.products import fast_products, is_faster

SHAPES = ((384, 32, 16), (384, 32, 64), (768, 32, 16), (768, 32, 128))  # width, texts, tokens a text


def run(block: nn.Module, states: torch.Tensor) -> torch.Tensor:
    """What a block gives, and its gradients."""
    block.zero_grad()
    output = block(states)
    output.backward(states)
    return output.detach()


def measure(width: int, texts: int, length: int, rounds: int) -> dict[str, float]:
    """The ratio of times, torch's own choice over oneDNN, and the largest error of both relative to the largest number."""
    torch.manual_seed(0)
    block = nn.TransformerEncoderLayer(width, width // 32, 4 * width, dropout=0.0, activation="gelu", batch_first=True)
    states = torch.randn(texts, length, width)
    outputs, seconds = {}, {False: [], True: []}
    for number in range(rounds + 1):
        for switch in (False, True):
            with fast_products(switch):
                started = time.perf_counter()
                outputs[switch] = run(block, states)
                if number:
                    seconds[switch].append(time.perf_counter() - started)
    expected = run(block.double(), states.double())
    errors = {switch: float((one - expected).abs().max() / expected.abs().max()) for switch, one in outputs.items()}
    ratios = [own / other for own, other in zip(seconds[False], seconds[True], strict=True)]
    return {"ratio": statistics.median(ratios), "own": errors[False], "onednn": errors[True]}


def main(arguments: argparse.Namespace) -> None:
    console, rows = Console(), []
    for width, texts, length in SHAPES:
        found = measure(width, texts, length, arguments.rounds)
        what = f"width {width}, {texts} texts of {length} tokens"
        console.print(f"{what}: {found['ratio']:.2f} times as fast", soft_wrap=True)
        rows.append([what, f"{found['ratio']:.2f}×", f"{found['own']:.1e}", f"{found['onednn']:.1e}"])
    used = "Training and solving use it on this processor." if is_faster() else "It is not used on this processor."
    paragraph = (
        f"A block, forward and back, {torch.get_num_threads()} threads, in turns, medians of paired ratios. {used}"
    )
    table = make_table(["", "oneDNN over torch's own", "error of torch's own", "error of oneDNN"], rows)
    write_section(arguments.section, "Products in float32", [paragraph, table])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    add_section_option(parser)
    main(parser.parse_args())
