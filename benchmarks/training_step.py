"""What a training step costs: module replacing at several rates against fine-tuning the predecessor and the truncated model.

Real encoder, real sentences; all variants take the same batch in turn, so noise falls on all alike. Prints ratios of medians.

    python benchmarks/training_step.py [STEPS] [--section FILE]
"""

import argparse
import copy
import statistics
import time
from pathlib import Path

import torch
from _common import add_section_option, make_table, write_section
from rich.console import Console
from rich.progress import track

import plankwise
from plankwise.config import load_config
from plankwise.data.batch import LengthSampler, plain_collator
from plankwise.models.loading import Loader
from plankwise.task_kinds import read_task

RATES = (0.0, 0.3, 0.6, 1.0)


def main(steps: int, section: Path | None) -> None:
    console = Console()
    config = load_config(None, ["task.train_limit=2000", "task.dev_limit=100", "training.max_length=64"])
    loader = Loader()
    tokenizer = loader.tokenizer("embedded")
    task = read_task(config, tokenizer, console)
    predecessor = task.load(loader, "embedded").model
    collate = plain_collator(task.train, tokenizer)
    order = list(LengthSampler(task.train.lengths, 32, seed=0))
    batches = [
        collate([task.train.dataset[i] for i in order[start : start + 32]]) for start in range(0, 32 * steps, 32)
    ]

    truncated = plankwise.hybrid(copy.deepcopy(predecessor)).collapse()
    variants = {"fine-tuning the predecessor": predecessor, "fine-tuning the truncated model": truncated}
    for rate in RATES:
        schedule = plankwise.Constant(rate=rate, full_at=1.0)
        ship = plankwise.hybrid(copy.deepcopy(predecessor), schedule=schedule)
        ship.begin(steps)
        variants[f"replacing at rate {rate}"] = ship
    report(measure(variants, batches), steps, console, section)


def report(times: dict[str, list[float]], steps: int, console: Console, section: Path | None) -> None:
    first = times["fine-tuning the predecessor"]
    base = statistics.median(first)
    opening = f"median of {steps} steps of 32 sentences, as a share of a step of fine-tuning the predecessor ({base * 1000:.0f} ms)"
    console.print(opening, soft_wrap=True)
    rows = []
    for name, seconds in times.items():
        median, mean = statistics.median(seconds) / base, statistics.fmean(seconds) / statistics.fmean(first)
        console.print(f"  {name:32} median {median:5.2f}   mean {mean:5.2f}")
        rows.append([name, f"{median:.2f}", f"{mean:.2f}"])
    table = make_table(["step", "median", "mean"], rows)
    write_section(section, "A training step", [f"{opening[0].upper()}{opening[1:]}.", table])


def measure(variants: dict, batches: list) -> dict[str, list[float]]:
    optimisers = {
        name: torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.0, fused=True)
        for name, model in variants.items()
    }
    times: dict[str, list[float]] = {name: [] for name in variants}
    for step, batch in enumerate(track(batches, "stepping")):
        for name, model in variants.items():
            start = time.perf_counter()
            model.train()
            if hasattr(model, "set_step"):
                model.set_step(step)
            model(**batch).loss.backward()
            optimisers[name].step()
            optimisers[name].zero_grad()
            times[name].append(time.perf_counter() - start)
    return times


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", type=int, nargs="?", default=20, help="steps of each variant")
    add_section_option(parser)
    arguments = parser.parse_args()
    main(arguments.steps, arguments.section)
