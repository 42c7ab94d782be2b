"""Results as a table on the terminal."""

from rich.console import Console
from rich.table import Table


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
        f"{count / 1e6:.1f} M" if (count := model["parameters"]) >= 1e6 else f"{count / 1e3:.1f} k",
        f"{model['size_mb']:.1f} MB",
        f"{model['score']:.4f}" if perplexity is None else f"{perplexity:.2f}",
    ]


def _times(model: dict) -> list[str]:
    latency, speedup = model["latency_ms"], model.get("speedup")
    return [
        "" if latency is None else f"{latency:.2f} ms",
        "" if speedup is None else f"{speedup:.2f}×",
    ]
