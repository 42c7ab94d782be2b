"""The sections of a run's page, in their order; each is HTML from a record, empty where the record has nothing to show."""

import shlex
from typing import Any

from plankwise.record import Shown
from plankwise.report._cost import cost
from plankwise.report._effort import effort
from plankwise.report._error_view import cases
from plankwise.report._errors import errors, flips
from plankwise.report._html import Column, TableCell, facts, fold, grid, paragraph, section, table
from plankwise.report._inside import drops_of, inside
from plankwise.report._training import training
from plankwise.report.remarks import bits_remark, exits_remark, remarks, show_retained, vocabulary_remark, zeros_remark
from plankwise.report.ship import draw_ships
from plankwise.report.speed import speedup_cell, speedup_of
from plankwise.report.text import MODELS, count, esc, fixed, is_number, number, share, times
from plankwise.report.verdict import tiles, verdict


def run_sections(record: dict, key: str, *, most_flips: int = 500, drawings: bool = True) -> str:
    """All that a record tells, top to bottom; `key` keeps the ids of several runs apart."""
    shown = [
        models(record),
        section("The plan, as a ship's side", planks(record, key), key="plan") if drawings else "",
        section("What the time was spent on", effort(record), key="effort") if drawings else "",
        section("Training", training(record), key="training") if drawings else "",
        section("Cost", cost(record), key="cost") if drawings else "",
        section("Errors", errors(record), key="errors") if drawings else "",
        section("Flips to read", flips(record, f"{key}-flips", most_flips), key="flips") if most_flips else "",
        section("Cases to read", cases(record, f"{key}-cases", most_flips), key="cases") if most_flips else "",
        section("Inside", inside(record), key="inside") if drawings else "",
        section("How it was made", setup(record), key="setup"),
    ]
    return "".join(shown)


def headline(record: dict, level: str = "p") -> str:
    """The verdict and its figures as tiles."""
    shown = "".join(
        f'<div class="tile" data-figure="{esc(one.name)}"><span class="name">{esc(one.name)}</span>'
        f'<strong>{_with_interval(one.value)}</strong><span class="note">{esc(one.note)}</span></div>'
        for one in tiles(record)
    )
    return f'<{level} class="verdict">{esc(verdict(record))}</{level}><div class="tiles">{shown}</div>'


def _with_interval(value: str) -> str:
    """A figure as HTML, its interval in smaller print."""
    figure, bracket, interval = value.partition(" (")
    return f"{esc(figure)} <small>{esc(bracket.strip() + interval)}</small>" if bracket else esc(value)


def models(record: dict) -> str:
    """One row a model: size, score, share kept, time."""
    there = [name for name in MODELS if name in record]
    batch = next((batch for name in there for batch in record[name].get("latency") or {}), "")
    latency = f"latency (ms, batch of {batch})" if batch else "latency (ms)"
    shown = Shown.of(record)
    columns = [
        Column("model", "model"),
        Column("parameters", "parameters", count),
        Column("size (MB)", "size_mb", fixed(1)),
    ]
    columns += [Column(shown.metric, "shown", fixed(shown.digits)), Column("retained", "retained", share)]
    columns += [Column(latency, "latency_ms", fixed(2)), Column("speed-up", "speedup", times)]
    rows = [
        {
            **record[name],
            "retained": _retained(name, record[name]),
            "model": name,
            "shown": shown.value(record[name]),
            "speedup": speedup_cell(speedup_of(record, name)),
        }
        for name in there
    ]
    device = next((record[name]["device"] for name in there if "device" in record[name]), None)
    timed = f"latency is the median time of a batch{f' on {device}' if device else ''}"
    caption = f"{record['task'].get('name', 'task')}: {shown.metric} on dev; {timed}"
    listed = table(caption, columns, rows, key="models")
    return section("Models", listed, _metrics(record, there), _notes(record), key="models")


def _retained(name: str, model: dict) -> TableCell:
    value = model.get("retained", 1.0 if name == "predecessor" else None)
    return TableCell(show_retained(model, value), value if is_number(value) else None)


def _metrics(record: dict, there: list[str]) -> str:
    """Every other metric, a row each: however many there are, none lies beyond the edge of a screen."""
    shown = Shown.of(record)
    values = {name: record[name].get("metrics") or {} for name in there}
    names = sorted({key for found in values.values() for key in found} - {shown.key, shown.metric})
    columns = [Column("metric", "metric"), *(Column(name, name, number) for name in there)]
    rows = [{"metric": key, **{name: values[name].get(key) for name in there}} for key in names]
    return table("Other metrics on dev", columns, rows, key="metrics", sorts=False) if rows else ""


def planks(record: dict, key: str) -> str:
    ships = draw_ships(record.get("plan") or [], drops_of(record), f"{key}-ship") if record.get("plan") else []
    parts = sorted({str(slot.get("part", "")) for slot in record.get("plan") or []})
    note = (
        f"Above the predecessor's blocks by number, below the successors that took their place (part: {', '.join(parts)}); "
        "planks that stand in both rows were kept."
    )
    return "".join(ships) + (paragraph(note, "note") if ships else "")


def setup(record: dict) -> str:
    """The task, the machine, the recipe and the command that repeats the run."""
    return (
        grid(
            facts("Task and data", _task_facts(record)),
            facts("Machine and versions", _machine_facts(record.get("machine") or {}) + _timing_facts(record)),
        )
        + (fold("The whole recipe", facts("Every key", flatten(record["config"]))) if record.get("config") else "")
        + _repeat(record)
    )


def flatten(tree: Any, path: str = "") -> list[tuple[str, str]]:
    """A nested config as key paths and values."""
    if isinstance(tree, dict) and tree:
        return [pair for key, value in tree.items() for pair in flatten(value, f"{path}.{key}" if path else str(key))]
    return [(path, "" if tree is None else str(tree))]


def _notes(record: dict) -> str:
    told = [f"{one[0].upper()}{one[1:]}." for one in remarks(record)]
    if trimmed := vocabulary_remark(record.get("successor") or {}):
        told.append(f"The successor: {trimmed}.")
    told += [f"The successor: {one}." for one in (zeros_remark(record), bits_remark(record)) if one]
    if left := exits_remark(record.get("successor") or {}):
        told.append(f"{left[0].upper()}{left[1:]}.")
    if record.get("made_head"):
        told.append("The predecessor's head was made here: it had none for this task.")
    return "".join(paragraph(one, "note") for one in told)


def _task_facts(record: dict) -> list[tuple[str, str]]:
    task = record.get("task") or {}
    shown = [("task", task.get("name", "")), ("method", method_of(record)), ("seed", str(record.get("seed", "")))]
    if task.get("labels"):
        shown.append(("labels", ", ".join(map(str, task["labels"]))))
    shown += [(str(name), str(value)) for name, value in task.get("facts", [])]
    for key in ("train", "dev", "dropped", "cut"):
        if task.get(key) is not None:
            shown += [(key if path in ("", key) else f"{key} {path}", value) for path, value in flatten(task[key])]
    return [(name.replace(".", " "), value) for name, value in shown]


def method_of(record: dict) -> str:
    return str(record.get("config", {}).get("method", {}).get("name", ""))


def _machine_facts(machine: dict) -> list[tuple[str, str]]:
    versions = [(name, value or "not installed") for name, value in (machine.get("versions") or {}).items()]
    return [(key, str(value)) for key, value in machine.items() if key != "versions"] + versions


def _timing_facts(record: dict) -> list[tuple[str, str]]:
    """What the machine was doing while predictions were timed."""
    timing = record.get("timing") or {}
    load = " → ".join(number(timing.get(key), 2) for key in ("load_before", "load_after"))
    if not timing:
        return []
    return [
        ("threads when timed", str(timing.get("threads"))),
        ("load when timed", f"{load} on {timing.get('cpus')} CPUs"),
    ]


def _repeat(record: dict) -> str:
    folder = record.get("config", {}).get("run", {}).get("folder")
    if not folder:
        return ""
    command = "compress" if "successor" in record else "finetune"
    line = shlex.join(["plankwise", command, f"{folder}/config.toml", f"run.folder={folder}-again"])
    return f'<p>To repeat it:</p><pre tabindex="0"><code>{esc(line)}</code></pre>'
