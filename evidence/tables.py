"""Tables, tests and plots of the cells that `evidence/cells.py` has left.

    python evidence/tables.py FOLDER [--plots FOLDER]

A share kept is a successor's score over its predecessor's, both on the half of dev that chose nothing. Seconds are of one core,
those that solving took included. Two recipes are compared over all pairs of task and seed that both have: p is of a two-sided
randomisation test that exchanges the two within pairs, exact over all exchanges.
"""

import argparse
import itertools
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from plankwise.report.charts import TONES, Axis, Lines, Series
from plankwise.report.plots import write_plot

ENOUGH = 0.98
UNTRAINED = {"none": "untrained", "head": "untrained, head solved on labels"}
Key = tuple[str, str]  # method, start


class Results:
    """Cells by cut, budget and labels: shares kept and seconds by recipe, task and seed."""

    def __init__(self, folder: Path) -> None:
        cells = [json.loads(file.read_text("utf-8")) for file in sorted(folder.glob("*-*-*-*-*.json"))]
        self.predecessors = {
            file.name.removesuffix("-predecessor.json"): json.loads(file.read_text("utf-8"))
            for file in folder.glob("*-predecessor.json")
        }
        solving = {
            (cell["task"], cell["successors"], cell["start"], cell["seed"]): cell["seconds"]
            for cell in cells
            if cell["method"] == "none" and cell["start"].startswith(("solved", "thin")) and not cell.get("via")
        }
        rows: dict[tuple, list[dict]] = defaultdict(list)
        for cell in cells:
            via = cell.get("via", 0)
            cell["start"] += f"-via-{via}" if via else ""
            name = tuple(cell[key] for key in ("successors", "steps", "labels", "method", "start", "task"))
            before = cell["task"], cell["successors"], cell["start"], cell["seed"]
            solves_itself = cell["method"] in UNTRAINED or via
            more = 0.0 if solves_itself else solving.get(before, 0.0)
            kept = cell["report"] / self.predecessors[cell["task"]]["report"]
            rows[name].append({**cell, "kept": kept, "seconds": cell["seconds"] + more})
        self.rows = {name: _reported(found) for name, found in rows.items()}

    def settings(self) -> list[tuple[int, int, int]]:
        return sorted({name[:3] for name in self.rows}, key=lambda one: (-one[0], one[2] != 4000, one[1]))

    def recipes(self, setting: tuple[int, int, int]) -> list[Key]:
        return sorted({name[3:5] for name in self.rows if name[:3] == setting})

    def tasks(self, setting: tuple[int, int, int]) -> list[str]:
        return sorted({name[5] for name in self.rows if name[:3] == setting})

    def cells(self, setting: tuple[int, int, int], recipe: Key, task: str) -> list[dict]:
        return self.rows.get((*setting, *recipe, task), [])


def _reported(cells: list[dict]) -> list[dict]:
    """Of a row's cells, those at the learning rate that seed 0 chose."""
    first = [cell for cell in cells if cell["seed"] == 0]
    if not first:
        return []
    rate = max(first, key=lambda cell: (cell["choose"], -cell["rate"]))["rate"]  # as `cells.py` chooses
    return sorted((cell for cell in cells if cell["rate"] == rate), key=lambda cell: cell["seed"])


def name_of(recipe: Key) -> str:
    method, start = recipe
    start, _, via = start.partition("-via-")
    start, _, tokens = start.partition("-tokens-")
    start = start.replace("thin", f"thin layers, solved{f' on {int(tokens):,} tokens' if tokens else ''}").replace(
        "-late", " in late spans"
    ) + (f", by way of {via} layers" if via else "")
    return f"{start}, {UNTRAINED[method]}" if method in UNTRAINED else f"{method} from {start}"


def show_table(results: Results, setting: tuple[int, int, int]) -> str:
    """A Markdown table: one row a recipe, a column a task, the mean over tasks, seconds."""
    successors, steps, labels = setting
    tasks = results.tasks(setting)
    lines = [f"### To {successors} layers, {steps} steps, {labels} labels", ""]
    lines.append(f"| | {' | '.join(tasks)} | mean | seconds | seeds | learning rates |")
    lines.append(f"|---|{'---:|' * (len(tasks) + 4)}")
    shown = []
    for recipe in results.recipes(setting):
        found = {task: results.cells(setting, recipe, task) for task in tasks}
        means = [np.mean([cell["kept"] for cell in cells]) for cells in found.values() if cells]
        seconds = np.mean([cell["seconds"] for cells in found.values() for cell in cells])
        counts = sorted({len(cells) for cells in found.values() if cells})
        rates = ", ".join(sorted({f"{cell['rate']:g}" for cells in found.values() for cell in cells})) if steps else ""
        parts = [f"{np.mean([c['kept'] for c in cells]):.1%}" if cells else "" for cells in found.values()]
        whole = f"{np.mean(means):.1%}" if len(means) == len(tasks) else ""
        cells_text = " | ".join([*parts, whole, f"{seconds:.0f}", "–".join(map(str, counts)), rates])
        shown.append((-float(np.mean(means)), f"| {name_of(recipe)} | {cells_text} |"))
    return "\n".join([*lines, *(line for _, line in sorted(shown)), ""])


def compare(results: Results, setting: tuple[int, int, int], one: Key, other: Key) -> dict[str, Any] | None:
    """The mean difference of the shares kept over pairs of task and seed, and its p; None if there are none."""
    differences = []
    for task in results.tasks(setting):
        ours, theirs = (
            {cell["seed"]: cell["kept"] for cell in results.cells(setting, recipe, task)} for recipe in (one, other)
        )
        differences += [ours[seed] - theirs[seed] for seed in ours.keys() & theirs.keys()]
    if len(differences) < 2:
        return None
    found = np.array(differences)
    signs = np.array(list(itertools.product((1, -1), repeat=len(found)))) if len(found) <= 16 else None
    if signs is None:
        signs = np.random.default_rng(0).choice((1, -1), size=(100_000, len(found)))
    p = float((abs((signs * found).mean(1)) >= abs(found.mean()) - 1e-12).mean())
    return {"difference": float(found.mean()), "pairs": len(found), "better": int((found > 0).sum()), "p": p}


def show_comparisons(results: Results, setting: tuple[int, int, int]) -> str:
    lines = []
    for one, other in itertools.combinations(results.recipes(setting), 2):
        found = compare(results, setting, one, other)
        if found is None:
            continue
        if found["difference"] < 0:
            one, other = other, one
            found.update(difference=-found["difference"], better=found["pairs"] - found["better"])
        lines.append(
            f"- {name_of(one)} above {name_of(other)}: {100 * found['difference']:+.1f} points, better in {found['better']} of "
            f"{found['pairs']} pairs, p = {found['p']:.4f}"
        )
    return "\n".join([*lines, ""])


def time_to(results: Results, successors: int, share: float, labels: int = 4000) -> str:
    """By task, the fewest seconds in which a budget of each recipe keeps a share."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for setting in (one for one in results.settings() if one[0] == successors and one[2] == labels):
        for recipe, task in itertools.product(results.recipes(setting), results.tasks(setting)):
            cells = results.cells(setting, recipe, task)
            if cells and np.mean([cell["kept"] for cell in cells]) >= share:
                seconds = float(np.mean([cell["seconds"] for cell in cells]))
                label = name_of(recipe)
                found[task][label] = min(seconds, found[task].get(label, seconds))
    lines = [
        f"Seconds of one core to {share:.0%} kept, to {successors} layers, by the least budget that reaches it:",
        "",
    ]
    for task, times in sorted(found.items()):
        ordered = sorted(times.items(), key=lambda pair: pair[1])
        lines.append(f"- {task}: {', '.join(f'{name} {seconds:.0f}' for name, seconds in ordered)}")
    return "\n".join([*lines, ""])


def draw(results: Results, folder: Path, successors: int, labels: int = 4000) -> None:
    """One plot: a panel a task, the share kept over seconds, one line a recipe; untrained starts begin its lines."""
    settings = [one for one in results.settings() if one[0] == successors and one[2] == labels]
    tasks = sorted({task for one in settings for task in results.tasks(one)})
    found = Counter(recipe for one in settings for recipe in results.recipes(one) if recipe[0] not in UNTRAINED)
    recipes = sorted(recipe for recipe, _ in found.most_common(len(TONES)))  # those of most budgets
    charts = []
    for task in tasks:
        lines = []
        for number, recipe in enumerate(recipes):
            points = []
            for setting in settings:
                start = ("none", recipe[1])
                cells = results.cells(setting, start if setting[1] == 0 else recipe, task)
                if cells:
                    points.append((np.mean([c["seconds"] for c in cells]), np.mean([c["kept"] for c in cells])))
            if points:
                lines.append(Series(name_of(recipe), sorted((float(x), float(y)) for x, y in points), TONES[number]))
        seconds = Axis("seconds of one core", low=0.0)
        charts.append(Lines(f"{task}: share kept, 6 layers to {successors}", lines, seconds, Axis("share kept")))
    if charts:
        write_plot(charts, folder, f"time_to_quality_{successors}", titled=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--plots", type=Path)
    arguments = parser.parse_args()
    results = Results(arguments.folder)
    print(
        "predecessors:", {task: round(found["score"], 4) for task, found in sorted(results.predecessors.items())}, "\n"
    )
    for setting in results.settings():
        print(show_table(results, setting))
        print(show_comparisons(results, setting))
    for successors in (3, 2, 1):
        print(time_to(results, successors, ENOUGH))
        if arguments.plots:
            draw(results, arguments.plots, successors)


if __name__ == "__main__":
    main()
