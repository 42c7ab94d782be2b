"""Every part that stands in for blocks, at about the same speed: which pay on a CPU.

    python evidence/parts.py choose PLANS --model MODEL --task NAME [--glue FOLDER] [--speed 2]
    python evidence/cells.py CELLS --plans PLANS --method kd …
    python evidence/parts.py show PLANS CELLS

`choose` times each setting of each part, all in turn with the predecessor, one thread, one text at a time and 16 at once. It writes
the one of each part whose speed-ups have a geometric mean next to `--speed` as PLANS/TASK/PART.toml, and what was measured as
PLANS/TASK/speeds.json. What is timed is the shape, so nothing is solved for it. `show` joins that with the scores of the cells.
"""

import argparse
import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
import torch
from rich.console import Console
from tables import Results

from plankwise.config import validate_config
from plankwise.evaluation.latency import as_json, measure_latency
from plankwise.evaluation.size import count_parameters
from plankwise.families import chains_of
from plankwise.files import write_text
from plankwise.models.plans import make_plan, try_plan
from plankwise.run.sharing import make_predecessor, open_inputs
from plankwise.runtimes.torch import TorchPredictor

BATCH_SIZES = (1, 16)
SPEEDS = "speeds.json"


def settings(path: str, layers: int) -> dict[str, list[dict[str, Any]]]:
    """By part, [plan] sections to choose from; one successor a block where a part is that much smaller than a block."""
    half, third = layers // 2, layers // 3

    def each(part: str, *options: dict[str, Any], counts: tuple[int, ...] = (layers,)) -> list[dict[str, Any]]:
        return [
            {"successors": count, "cut": "late", "part": part, "options": own}
            for count, own in itertools.product(counts, options)
        ]

    def every_second(part: str) -> dict[str, Any]:
        return {"slots": [{"path": path, "span": [block], "part": part} for block in range(1, layers, 2)]}

    return {
        "layers": each("layers", {}, counts=(half,)),
        "shared": [{**one, "init": "mean"} for one in each("shared", {"groups": 1}, {"groups": 2}, counts=(half,))],
        "identity": [{**every_second("identity"), "init": "lower"}],
        "linear": [every_second("linear")],
        "thin": each(
            "thin", *({"ffn": ffn, "heads": heads} for ffn, heads in ((0.25, 1.0), (0.25, 0.5), (0.125, 0.25)))
        ),
        "narrow": each("narrow", *({"width": width} for width in (0.5, 0.375, 0.25))),
        "convolution": each("convolution", *({"channels": 384 * share} for share in (1, 2, 4))),
        "recurrent": each("recurrent", *({"cell": "gru", "width": w} for w in (0.5, 1.0)), counts=(half,)),
        "bottleneck": each("bottleneck", *({"width": w, "ffns": n} for w, n in ((0.25, 4), (0.25, 2), (0.375, 2)))),
        "lite": each("lite", *({"ffn": ffn} for ffn in (0.5, 1.0, 768))),
        "delight": each("delight", {}, {"most_layers": 4}, counts=(third, half)),
    }


def choose(arguments: argparse.Namespace) -> None:
    """Times all settings, and writes the plan of each part."""
    torch.set_num_threads(1)
    task: dict[str, Any] = {"name": arguments.task, "train_limit": 200, "dev_limit": 200}
    if arguments.glue:
        task |= {"name": "glue", "subset": arguments.task.split("-")[-1], "folder": str(arguments.glue)}
    folder = arguments.plans / arguments.task
    config = validate_config(
        {
            "run": {"folder": str(folder / "work")},
            "predecessor": {"path": str(arguments.model), "finetune": False},
            "task": task,
            "training": {"max_length": 64},
        }
    )
    ready = make_predecessor(open_inputs(config, Console(quiet=True)))
    model = ready.load().eval()
    (chain,) = chains_of(model)
    plans = {
        f"{part} {number}": plan
        for part, found in settings(chain.path, chain.length).items()
        for number, plan in enumerate(found)
    }
    made = {}
    for name, plan in plans.items():
        options = validate_config({**config.model_dump(mode="json"), "plan": plan}).plan
        made[name] = try_plan(model, make_plan(model, options), init=plan.get("init", "lower"), seed=0).eval()
    predictors = {name: TorchPredictor(one) for name, one in {"predecessor": model, **made}.items()}
    speed = measure_latency(
        predictors, ready.run.task.timed(), batch_sizes=list(BATCH_SIZES), predictions=arguments.predictions
    )
    told: dict[str, Any] = {"predecessor": {"parameters": count_parameters(model)}}

    def far(name: str) -> float:
        found = [speed.speedups[name][str(size)].median for size in BATCH_SIZES]
        return abs(math.log(math.prod(found)) / len(found) - math.log(arguments.speed))

    for part in settings(chain.path, chain.length):
        own = [name for name in plans if name.split()[0] == part]
        best = min(own, key=far)
        write_text(folder / f"{part}.toml", tomli_w.dumps({"plan": plans[best]}))
        told[part] = {
            "parameters": count_parameters(made[best]),
            "plan": plans[best],
            "speedups": as_json({part: speed.speedups[best]})[part],
            "others": as_json({name: speed.speedups[name] for name in own}),
        }
        print(part, plans[best], {size: round(one.median, 2) for size, one in speed.speedups[best].items()}, flush=True)
    write_text(folder / SPEEDS, json.dumps({**told, "timing": speed.timing()}, indent=2))


def show(arguments: argparse.Namespace) -> None:
    """A Markdown table a task: speed, size, shares kept before and after training, seconds."""
    results = Results(arguments.cells)
    for file in sorted(arguments.plans.glob(f"*/{SPEEDS}")):
        task, told = file.parent.name, json.loads(file.read_text("utf-8"))
        trained = sorted({(one[1], one[3]) for one in results.rows if one[0] == 0 and one[1] and one[5] == task})
        columns = [f"{method}, {steps} steps | seconds" for steps, method in trained]
        print(f"### {task}\n\n| part | setting | @1 | @16 | parameters | untrained | {' | '.join(columns)} |")
        print(f"|---|---|{'---:|' * (4 + 2 * len(columns))}")
        lines = []
        for part in [name for name in told if name not in ("predecessor", "timing")]:
            start, own = f"plan-{part}", told[part]
            found = [results.cells((0, 0, 4000), ("none", start), task)]
            found += [results.cells((0, steps, 4000), (method, start), task) for steps, method in trained]
            kept = [float(np.mean([cell["kept"] for cell in cells])) if cells else math.nan for cells in found]
            seconds = [float(np.mean([cell["seconds"] for cell in cells])) if cells else math.nan for cells in found]
            after = [f"{k:.1%} ({len(c)}) | {s:.0f}" for k, c, s in zip(kept[1:], found[1:], seconds[1:], strict=True)]
            speeds = [f"{own['speedups'][str(size)]['median']:.2f}×" for size in BATCH_SIZES]
            plan = own["plan"]
            shape = (
                f"{plan['successors']} successors" if "successors" in plan else f"{len(plan['slots'])} blocks replaced"
            )
            options = ", ".join(
                f"{key} {value:g}" if not isinstance(value, str) else value
                for key, value in plan.get("options", {}).items()
            )
            cells = [
                f"{shape}{', ' if options else ''}{options}",
                *speeds,
                f"{own['parameters'] / 1e6:.1f} M",
                f"{kept[0]:.1%}",
                *after,
            ]
            lines.append((-max(kept), f"| `{part}` | {' | '.join(cells)} |"))
        print("\n".join(line for _, line in sorted(lines)), "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("choose")
    one.add_argument("plans", type=Path)
    one.add_argument("--model", type=Path, required=True)
    one.add_argument("--task", required=True, help="the name of its folder")
    one.add_argument("--glue", type=Path, help="the folder of the task's files")
    one.add_argument("--speed", type=float, default=2.0)
    one.add_argument("--predictions", type=int, default=20)
    one.set_defaults(run=choose)
    two = commands.add_parser("show")
    two.add_argument("plans", type=Path)
    two.add_argument("cells", type=Path)
    two.set_defaults(run=show)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
