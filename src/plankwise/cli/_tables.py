"""Results as a table on the terminal."""

from rich.console import Console
from rich.table import Table

from plankwise.core.plan import Slot
from plankwise.estimate.notebook import duration

SHOWN = {"floor": "truncated"}


def show_results(record: dict, console: Console) -> None:
    """One row a model: parameters, size, score, retained share, latency, speed-up; no wider than 80 columns."""
    names = {"predecessor": "predecessor", "floor": "truncated", "successor": "successor"}
    batch = next(iter(record["predecessor"].get("latency") or {"": None}))
    table = _table(record, ("retained", f"latency{f' @{batch}' if batch else ''}", "speed-up"))
    for key, name in names.items():
        if key in record:
            model = record[key]
            table.add_row(name, *_cells(model), f"{model.get('retained', 1):.1%}", *_times(model))
    console.print(table)
    if record["made_head"] and "objective" in record["task"]:
        console.print("the predecessor's head was made here: it had none for this task")
    steps, skipped, seconds = record["steps"], record["skipped_steps"], record["seconds"]
    console.print(f"{steps} steps, {skipped} of them skipped: no slot was replaced; {seconds:.0f} s of training in all")
    console.print(f"successor: {record['successor']['path']}", soft_wrap=True)


def show_finetuned(record: dict, console: Console) -> None:
    """One row: the model, how long it took, and how fast it is."""
    batch = next(iter(record["model"].get("latency") or {"": None}))
    table = _table(record, ("until best", f"latency{f' @{batch}' if batch else ''}"))
    latency, _ = _times(record["model"])
    table.add_row("model", *_cells(record["model"]), f"{record['seconds_to_best']:.0f} s", latency)
    console.print(table)
    console.print(f"{record['steps']} steps, {record['seconds']:.0f} s of training in all")
    console.print(f"model: {record['model']['path']}", soft_wrap=True)


def show_plan(found: dict, console: Console) -> None:
    """What `plankwise.run.preview` gives: slots, starts, parameters, and the estimate if there is one."""
    slots = _columns("", "slot", "part")
    for number, slot in enumerate(found["plan"], start=1):
        slots.add_row(str(number), str(Slot(slot["path"], tuple(slot["span"]))), slot["part"])
    console.print(slots)
    init, counts = found["init"], {name: _count(count) for name, count in found["parameters"].items()}
    start = f"fitted, from {init['fitted_from']}" if init["start"] == "fitted" else init["start"]
    asked = f" (plan.init = {init['given']}, method {found['method']})" if init["given"] == "auto" else ""
    console.print(f"successors start: {start}{asked}", soft_wrap=True)
    console.print(f"parameters: predecessor {counts['predecessor']}, successor {counts['successor']}")
    if "estimate" in found:
        _show_estimate(found["estimate"], console)


def _show_estimate(estimate: dict, console: Console) -> None:
    table = _columns("phase", "steps", "multiply-adds", "time")
    for name, phase in estimate["phases"].items():
        steps = "" if phase["steps"] is None else f"{phase['steps']:,}"
        table.add_row(SHOWN.get(name, name), steps, _count(phase["multiply_adds"]), duration(phase["estimated"]))
    table.add_row("total", "", "", duration(estimate["seconds"]["estimated"]))
    console.print(table)
    counts, memory = estimate["multiply_adds"], estimate["memory"]
    once = counts["prediction"]
    console.print(
        f"multiply-adds of a prediction, {once['tokens']} tokens: predecessor {_count(once['predecessor'])}, "
        f"successor {_count(once['successor'])}; of the whole training: {_count(counts['training'])}",
        soft_wrap=True,
    )
    parts = ", ".join(f"{part} {size:.0f}" for part, size in memory["parts_mb"].items())
    phase = SHOWN.get(memory["phase"], memory["phase"])
    console.print(
        f"memory at the peak: {memory['estimated_mb']:.0f} MB, while training {phase}: {parts}", soft_wrap=True
    )
    console.print(f"calibrated in {duration(estimate['calibration_seconds'])}")


def _columns(*names: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for index, name in enumerate(names):
        table.add_column(name, justify="left" if index == 0 or name in ("slot", "part") else "right", no_wrap=True)
    return table


def _count(number: float) -> str:
    for limit, sign in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if number >= limit:
            return f"{number / limit:.1f} {sign}"
    return f"{number / 1e3:.1f} k"


def _table(record: dict, more: tuple[str, ...]) -> Table:
    """A table of models without rows yet; a language model shows its perplexity instead of the score."""
    task = record["task"]
    title = f"{task['name']}: score is {' and '.join(task['score'])} on dev"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("", no_wrap=True)
    score = "perplexity" if "objective" in task else "score"
    for column in ("parameters", "size", score, *more):
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _cells(model: dict) -> list[str]:
    perplexity = model["metrics"].get("perplexity")
    return [
        _count(model["parameters"]),
        f"{model['size_mb']:.1f} MB",
        f"{model['score']:.4f}" if perplexity is None else f"{perplexity:.2f}",
    ]


def _times(model: dict) -> list[str]:
    latency, speedup = model["latency_ms"], model.get("speedup")
    return [
        "" if latency is None else f"{latency:.2f} ms",
        "" if speedup is None else f"{speedup:.2f}×",
    ]
