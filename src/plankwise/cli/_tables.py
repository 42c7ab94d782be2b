"""Results as a table on the terminal."""

from rich.console import Console
from rich.table import Table

from plankwise.core.plan import Slot
from plankwise.estimate.phases import duration
from plankwise.record import SCORE, Shown
from plankwise.report.remarks import held_back_remark, remarks
from plankwise.report.results import results_of
from plankwise.report.search import part_name
from plankwise.report.speed import UNSTEADY
from plankwise.report.text import count, number


def show_results(record: dict, console: Console) -> None:
    """One row a model: parameters, size, score, retained share, latency, speed-up; no wider than 80 columns."""
    results_of(record).print(console)
    console.print(f"successor: {record['successor']['path']}", soft_wrap=True)


def show_finetuned(record: dict, console: Console) -> None:
    """One row: the model, how long it took, and how fast it is."""
    batch = next(iter(record["model"].get("latency") or {"": None}))
    table = _table(record, ("until best", f"latency{f' @{batch}' if batch else ''}"))
    until_best = f"{record['seconds_to_best']:.0f} s"
    table.add_row("model", *_cells(record, record["model"]), until_best, _latency(record["model"]))
    console.print(table)
    _show_remarks(record, console)
    console.print(f"{record['steps']} steps, {record['seconds']:.0f} s of training in all")
    console.print(f"model: {record['model']['path']}", soft_wrap=True)


def _show_remarks(record: dict, console: Console) -> None:
    for line in remarks(record):
        console.print(line, soft_wrap=True)
    if told := held_back_remark(record.get("successor") or record["model"]):
        console.print(told, soft_wrap=True)


def show_plan(found: dict, console: Console) -> None:
    """What `plankwise.run.estimating.preview` gives: slots, starts, parameters, and the estimate if there is one."""
    slots = _columns("", "slot", "part")
    for index, slot in enumerate(found["plan"], start=1):
        slots.add_row(str(index), str(Slot(slot["path"], tuple(slot["span"]))), slot["part"])
    console.print(slots)
    init, counts = found["init"], {name: count(value) for name, value in found["parameters"].items()}
    start = f"fitted, from {init['fitted_from']}" if init["start"] == "fitted" else init["start"]
    asked = f" (plan.init = {init['given']}, method {found['method']})" if init["given"] == "auto" else ""
    console.print(f"successors start: {start}{asked}", soft_wrap=True)
    console.print(f"parameters: predecessor {counts['predecessor']}, successor {counts['successor']}")
    if "estimate" in found:
        _show_estimate(found["estimate"], console)


def _show_estimate(estimate: dict, console: Console) -> None:
    table = _columns("phase", "steps", "time")
    for name, phase in estimate["phases"].items():
        steps = "" if phase["steps"] is None else f"{phase['steps']:,}"
        table.add_row(name, steps, duration(phase["estimated"]))
    table.add_row("total", "", duration(estimate["seconds"]["estimated"]))
    console.print(table)
    once, memory = estimate["multiply_adds"]["prediction"], estimate["memory"]
    console.print(
        f"multiply-adds of a prediction, {once['tokens']} tokens: predecessor {count(once['predecessor'])}, "
        f"successor {count(once['successor'])}",
        soft_wrap=True,
    )
    while_what = (
        memory["phase"] if estimate["phases"][memory["phase"]]["steps"] is None else f"training {memory['phase']}"
    )
    shares = ", ".join(f"{name} {size:.0f}" for name, size in memory["parts_mb"].items())
    console.print(
        f"memory at the peak: {memory['estimated_mb']:.0f} MB, while {while_what}: {shares}",
        soft_wrap=True,
    )
    console.print(f"calibrated in {duration(estimate['calibration_seconds'])}")


def show_catalogue(found: dict, console: Console) -> None:
    """What `plankwise.search.catalogue` gives: a row a part with its costs, within 80 columns; then parts that do not fit."""
    console.print(
        f"in place of {found['block']} of {found['model']}, at {found['batch']} x {found['length']} tokens",
        soft_wrap=True,
    )
    table = _columns("part", "parameters", "×", "multiply-\nadds", "×", "ms", "×")
    table.columns[0].no_wrap = False  # a long name is broken before any figure is cut
    entries = [one for one in found["entries"] if not one["unfit"]]
    for one in entries:
        ratio = one["latency_ratio"]
        half = (ratio["high"] - ratio["low"]) / 2 / ratio["median"]
        interval = "" if one["part"] == one["replaces"] else f" ±{half:.0%}"
        table.add_row(
            part_name(one),
            count(one["parameters"]),
            number(one["parameters_ratio"], 2),
            count(one["multiply_adds"]),
            number(one["multiply_adds_ratio"], 2),
            number(one["latency_ms"], 2),
            f"{ratio['median']:.2f}{interval}{'' if ratio['steady'] else ' ~'}",
        )
    console.print(table)
    for one in found["entries"]:
        if one["unfit"]:
            console.print(f"{part_name(one)} does not fit: {one['unfit']}", soft_wrap=True)
    against = "; × of the block, or for parts of embeddings of their table; ± half of the 95 % interval"
    unsteady = "" if all(one["latency_ratio"]["steady"] for one in entries) else f"; ~ {UNSTEADY}"
    console.print(
        f"{found['conditions']['device']}, {found['conditions']['threads']} threads{against}{unsteady}", soft_wrap=True
    )


def _columns(*names: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for index, name in enumerate(names):
        table.add_column(name, justify="left" if index == 0 or name in ("slot", "part") else "right", no_wrap=True)
    return table


def _table(record: dict, more: tuple[str, ...]) -> Table:
    """A table of models without rows yet, with a column for the figure that the record shows."""
    task, shown = record["task"], Shown.of(record)
    model = record.get("successor") or record["model"]
    timed = f"; latency on {model['device']}" if model["latency_ms"] is not None and "device" in model else ""
    title = f"{task['name']}: score is {' and '.join(task['score'])} on dev{timed}"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("", no_wrap=True)
    for column in ("parameters", "size", SCORE if shown.key == SCORE else shown.metric, *more):
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _cells(record: dict, model: dict) -> list[str]:
    shown = Shown.of(record)
    return [count(model["parameters"]), f"{model['size_mb']:.1f} MB", number(shown.value(model), shown.digits)]


def _latency(model: dict) -> str:
    return "" if model["latency_ms"] is None else f"{model['latency_ms']:.2f} ms"
