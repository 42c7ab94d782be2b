"""Results as a table on the terminal."""

from rich.console import Console
from rich.table import Table


def show_results(record: dict, console: Console) -> None:
    """One row a model: parameters, size, score, retained share, latency, speed-up; no wider than 80 columns."""
    names = {"predecessor": "predecessor", "floor": "truncated", "successor": "successor"}
    batch = next(iter(record["predecessor"].get("latency") or {"": None}))
    title = f"{record['task']['name']}: score is {' and '.join(record['task']['score'])} on dev"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("", no_wrap=True)
    for column in ("parameters", "size", "score", "retained", f"latency{f' @{batch}' if batch else ''}", "speed-up"):
        table.add_column(column, justify="right", no_wrap=True)
    for key, name in names.items():
        if key in record:
            table.add_row(name, *_cells(record[key]))
    console.print(table)
    steps, skipped, seconds = record["steps"], record["skipped_steps"], record["seconds"]
    console.print(f"{steps} steps, {skipped} of them skipped: no slot was replaced; {seconds:.0f} s of training in all")
    console.print(f"successor: {record['successor']['path']}", soft_wrap=True)


def _cells(model: dict) -> list[str]:
    latency, speedup = model["latency_ms"], model.get("speedup")
    return [
        f"{count / 1e6:.1f} M" if (count := model["parameters"]) >= 1e6 else f"{count / 1e3:.1f} k",
        f"{model['size_mb']:.1f} MB",
        f"{model['score']:.4f}",
        f"{model.get('retained', 1):.1%}",
        "" if latency is None else f"{latency:.2f} ms",
        "" if speedup is None else f"{speedup:.2f}×",
    ]
