"""A sweep as the terminal shows it."""

from rich.console import Console
from rich.table import Table

from plankwise.report.sweep import short, sweep_verdict, tell_scores
from plankwise.report.text import number

MOST = 20  # trials that are listed


def show_sweep_table(data: dict, console: Console) -> None:
    """The best trials, then what is to be said, and the command that repeats the best."""
    about, rows = data["sweep"], data["rows"]
    keys = [one["key"] for one in about["space"]]
    ends = [key.rpartition(".")[2] for key in keys]
    heads = [end if ends.count(end) == 1 else key for key, end in zip(keys, ends, strict=True)]
    table = Table(box=None, pad_edge=False)
    for name in ("trial", "state", *heads, "score", "other"):
        table.add_column(name, justify="left" if name in ("state", *heads) else "right", overflow="fold")
    for row in rows[:MOST]:
        values = [short(row["values"].get(key, "")) for key in keys]
        table.add_row(str(row["trial"]), row["state"], *values, number(row["score"]), number(row.get("reported")))
    console.print(table)
    if len(rows) > MOST:
        console.print(f"and {len(rows) - MOST} more: table.json has all")
    console.print(tell_scores(about), soft_wrap=True)
    for row in rows:
        if row["failure"]:
            console.print(f"trial {row['trial']} failed: {row['failure']}", soft_wrap=True)
    console.print(sweep_verdict(data), soft_wrap=True)
    if about["command"]:
        console.print(f"to repeat it, with all measurements: {about['command']}", soft_wrap=True)
