"""How far a model's answers are from its own with one part, solved and untrained, in place of some blocks: for every part.

What is printed is the score of a search for a plan: the divergence in nats on held-out texts. It says which parts are worth
offering to a search (`CANDIDATES`): one that does no better than `identity` or than a smaller part has no start to be judged by.

    python evidence/part_starts.py RECIPE MODEL [--spans 3 4-5] [--tokens 8000]

MODEL is a trained predecessor for the recipe's task. A part of what is inside a block stands wherever it fits there, if the span
is one block; parts of embeddings are left out.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from plankwise.config import load_config
from plankwise.context import open_context
from plankwise.core.plan import Slot
from plankwise.errors import PlanError
from plankwise.evaluation.size import count_parameters
from plankwise.families import chains_of
from plankwise.kinds import load_kind
from plankwise.models.plans import arrange
from plankwise.run.inputs import read_run
from plankwise.search.catalogue import every_part, find_slots
from plankwise.search.library import label_of
from plankwise.search.scores import Workbench
from plankwise.search.texts import divide_texts


def score(model: Any, bench: Workbench, part: str, options: dict[str, Any], place: Slot, tokens: int) -> list[str]:
    """The row of a part in one place: parameters as a share of the first block's, effect, seconds.

    Raises:
        PlanError: it does not fit there, or cannot be solved.
    """
    started = time.monotonic()
    plan = arrange(model, find_slots(model, part, options, place))
    with tempfile.TemporaryDirectory() as states:
        successors, _ = bench.solve(plan, tokens, Path(states))
    block = model.get_submodule(place.places[0])
    inside = [] if plan.slots[0].span else [model.get_submodule(slot.path) for slot in plan.slots]
    kept = count_parameters(block) - sum(map(count_parameters, inside)) if inside else 0
    share = (kept + sum(map(count_parameters, successors))) / count_parameters(block)
    effect = bench.measure(plan, successors)
    return [str(place), label_of(part, options), f"{share:.3f}", f"{effect:.5f}", f"{time.monotonic() - started:.0f}"]


def main(arguments: argparse.Namespace) -> None:
    console = Console(width=132)
    given = [f"predecessor.path={arguments.model}", "predecessor.finetune=false", *arguments.overrides]
    config = load_config(arguments.recipe, given)
    run = read_run(config, open_context(console, Path(config.run.folder), config.run.seed))
    model = run.load(arguments.model).eval()
    bench = Workbench(model, divide_texts(run), config.run.seed)
    (chain,) = chains_of(model, config.plan.chains)
    rows: list[list[str]] = []
    for span in arguments.spans:
        first, _, last = span.partition("-")
        place = Slot(chain.path, tuple(range(int(first), int(last or first) + 1)))
        for part, options in every_part():
            replaces = load_kind("parts", part, key="plan.part").REPLACES
            if replaces == "embedding" or (replaces not in ("any", "blocks") and len(place.span) > 1):
                continue
            try:
                rows.append(score(model, bench, part, options, place, arguments.tokens))
            except PlanError as error:
                rows.append([str(place), label_of(part, options), "", str(error).partition(";")[0], ""])
            console.print("  ".join(rows[-1]))
    headings = ["in place of", "part", "parameters", "effect", "seconds"]
    for cells in (headings, ["---", "---", "---:", "---:", "---:"], *rows):
        console.print(f"| {' | '.join(cells)} |", soft_wrap=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("model", help="folder of a trained predecessor")
    parser.add_argument("overrides", nargs="*", help="keys to set otherwise: KEY=VALUE")
    parser.add_argument("--spans", nargs="+", default=["3", "4-5"], help="blocks, for example 3 4-5")
    parser.add_argument("--tokens", type=int, default=8000, help="that each part is solved on")
    main(parser.parse_args())
