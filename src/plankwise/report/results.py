"""The result of a run as one table with remarks: as the terminal, Python and a notebook show it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from io import StringIO

from rich.console import Console
from rich.table import Table

from plankwise.record import SCORE, Shown
from plankwise.report._effort import effort_remark
from plankwise.report.remarks import (
    bits_remark,
    exits_remark,
    held_back_remark,
    is_untrained,
    remarks,
    show_retained,
    steps_remark,
    training_time,
    vocabulary_remark,
    zeros_remark,
)
from plankwise.report.speed import ShownSpeedup, speedup_of
from plankwise.report.text import MODELS, count, esc, number
from plankwise.report.verdict import verdict


@dataclass(frozen=True)
class Results:
    """A table of text, and what has to be said above and below it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    above: str = ""
    notes: Sequence[str] = field(default=())

    def print(self, console: Console) -> None:
        """The first column to the left, the others to the right; notes below."""
        table = Table(title=self.title, title_justify="left", box=None, pad_edge=False)
        for index, column in enumerate(self.columns):
            table.add_column(column, justify="right" if index else "left", no_wrap=True)
        for row in self.rows:
            table.add_row(*row)
        console.print(table)
        for note in self.notes:
            console.print(note, soft_wrap=True)

    def as_text(self) -> str:
        """What `print` prints, without colours."""
        file = StringIO()
        # In a notebook Rich would show the table as a cell's output, instead of writing it to the file.
        plain = Console(file=file, width=200, markup=False, emoji=False, color_system=None, force_jupyter=False)
        self.print(plain)
        return "\n".join(line.rstrip() for line in file.getvalue().splitlines())

    def as_html(self) -> str:
        """The same for a notebook, with the sentence above; text from data stands for itself."""

        def cells(row: Sequence[str], tag: str) -> str:
            sides = ["left", *["right"] * (len(row) - 1)]
            styled = zip(row, sides, strict=True)
            return "".join(f'<{tag} style="text-align: {side}">{esc(text)}</{tag}>' for text, side in styled)

        head = f"<thead><tr>{cells(self.columns, 'th')}</tr></thead>"
        body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in self.rows)
        above = f"<p><strong>{esc(self.above)}</strong></p>" if self.above else ""
        below = "".join(f"<p><small>{esc(note)}</small></p>" for note in self.notes)
        return (
            f"<div>{above}<table><caption>{esc(self.title)}</caption>{head}<tbody>{body}</tbody></table>{below}</div>"
        )


def results_of(record: dict) -> Results:
    """One row a model: parameters, size, score, share kept, latency, speed-up; no wider than 80 columns."""
    task, shown, after = record["task"], Shown.of(record), record["successor"]
    batch = next(iter(record["predecessor"].get("latency") or {"": None}))
    timed = f"; latency on {after['device']}" if after["latency_ms"] is not None and "device" in after else ""
    score = SCORE if shown.key == SCORE else shown.metric
    latency = f"latency @{batch}" if batch else "latency"
    return Results(
        f"{task['name']}: score is {' and '.join(task['score'])} on dev{timed}",
        ("", "parameters", "size", score, "retained", latency, "speed-up"),
        [_row(record, name) for name in MODELS if name in record],
        verdict(record),
        _notes(record),
    )


def _row(record: dict, name: str) -> list[str]:
    model, shown = record[name], Shown.of(record)
    retained, latency, faster = model.get("retained", 1), model["latency_ms"], speedup_of(record, name)
    return [
        name,
        count(model["parameters"]),
        f"{model['size_mb']:.1f} MB",
        number(shown.value(model), shown.digits),
        "" if retained is None else show_retained(model, retained),
        "" if latency is None else f"{latency:.2f} ms",
        "" if faster is None else faster.brief,
    ]


def export_row(record: dict, name: str, found: dict) -> list[str]:
    """One more row, of an export of the successor."""
    faster = found["speedup"]
    shown = ShownSpeedup(faster["median"], interval=(faster["low"], faster["high"]), steady=faster["steady"])
    return [
        name,
        count(record["successor"]["parameters"]),
        f"{found['size_mb']:.1f} MB",
        number(found["score"], Shown.of(record).digits),
        "" if found["retained"] is None else show_retained(record["successor"], found["retained"]),
        f"{found['latency_ms']:.2f} ms",
        shown.brief,
    ]


def _notes(record: dict) -> list[str]:
    told = remarks(record)
    if spent := effort_remark(record):
        told.append(spent)
    if trimmed := vocabulary_remark(record["successor"]):
        told.append(f"the successor: {trimmed}")
    told += [f"the successor: {one}" for one in (zeros_remark(record), bits_remark(record)) if one]
    if left := exits_remark(record["successor"]):
        told.append(left)
    if held_back := held_back_remark(record["successor"]):
        told.append(held_back)
    if (found := speedup_of(record)) is not None and found.doubt:
        told.append(f"speed-up {found.doubt}")
    if record["made_head"]:
        told.append("the predecessor's head was made here: it had none for this task")
    told.append(steps_remark(record))
    if not is_untrained(record):
        told.append(f"training: {training_time(record)}")
    elif set(record.get("seconds_by") or ()) - {"successor"}:
        told.append(f"training: {training_time(record, without='successor')}")
    return told
