"""What the models cost: time by batch size, tokens per second, operations, parameters, memory, loading."""

from typing import Any

from plankwise.report._axes import Axis
from plankwise.report._html import Cell, Column, cell, figure, grid, table
from plankwise.report._text import NAMES, brief, is_number, number
from plankwise.report.charts import Bars, Series, bar_chart, line_chart

MODELS = ("predecessor", "floor", "successor", "model")
PARTS = {"embeddings": "a", "blocks": "b", "head": "c"}
BATCH = Axis("texts in a batch", log2=True)


def latencies(record: dict) -> dict[str, dict[str, dict]]:
    """Times by model and batch size: the analysis's, else those that the run measured itself."""
    found = record.get("analysis", {}).get("cost", {}).get("latency")
    found = found or {name: record[name].get("latency") for name in MODELS if name in record}
    return {name: found[name] for name in MODELS if found.get(name)}


def latency_series(record: dict, key: str = "mean_ms") -> list[Series]:
    """One line a model: `key` by batch size, the mean with its standard deviation."""
    found = []
    for name, batches in latencies(record).items():
        known = {int(batch): one for batch, one in batches.items() if is_number(one.get(key))}
        spread = [known[batch].get("std_ms", 0.0) for batch in sorted(known)] if key == "mean_ms" else ()
        if known:
            points = [(batch, known[batch][key]) for batch in sorted(known)]
            found.append(Series(NAMES[name], points, name, spread))
    return found


def speedup_series(record: dict) -> list[Series]:
    """Mean time of the predecessor by mean time of each other model, by batch size."""
    times_of = latencies(record)
    before = times_of.get("predecessor", {})
    found = []
    for name in ("floor", "successor"):
        points = [
            (int(batch), before[batch]["mean_ms"] / one["mean_ms"])
            for batch, one in times_of.get(name, {}).items()
            if is_number(before.get(batch, {}).get("mean_ms")) and one.get("mean_ms")
        ]
        if points:
            found.append(Series(NAMES[name], sorted(points), name))
    return found


def cost(record: dict) -> str:
    """The charts and the table of times; empty if nothing was measured."""
    measured = record.get("analysis", {}).get("cost", {})
    return grid(
        _by_batch("Time of a prediction, mean ± standard deviation", latency_series(record), "time of a batch (ms)"),
        _by_batch("Speed-up over the predecessor", speedup_series(record), "times faster", show=_ratio),
        _by_batch("Throughput", latency_series(record, "tokens_per_second"), "tokens per second"),
        _parameters(measured.get("parameters") or {}),
        _each("Multiply-adds of a forward pass", _operations(measured), _operations_label(measured)),
        _each("Size on disk", measured.get("size_mb") or {}, "MB"),
        _each("Peak memory", measured.get("peak_mb") or {}, "MB"),
        _each("Time to load", measured.get("load_seconds") or {}, "seconds"),
    ) + _times(record)


def _ratio(value: float) -> str:
    return f"{value:.3g}×"


def _by_batch(title: str, series: list[Series], label: str, show: Any = brief) -> str:
    """Lines by batch size; bars if only one was measured."""
    if not series:
        return ""
    batches = sorted({x for one in series for x, _ in one.points})
    axis = Axis(label, low=0.0, show=show)
    if len(batches) > 1:
        chart = line_chart(title, series, BATCH, axis)
        return figure(title, chart, [(one.name, one.tone) for one in series])
    bars = [
        Bars(
            "",
            [one.points[0][1] if other is one else None for other in series],
            one.tone,
            [(y - off, y + off) if other is one else None for other in series] if one.spread else (),
        )
        for one in series
        for (_, y), off in [(one.points[0], one.spread[0] if one.spread else 0.0)]
    ]
    axis = Axis(f"{label}, batch of {batches[0]:g}", low=0.0, show=show)
    return figure(title, bar_chart(title, [one.name for one in series], bars, axis, stacked=True))


def _each(title: str, values: dict[str, float], label: str, show: Any = brief) -> str:
    """One bar a model."""
    names = [name for name in MODELS if is_number(values.get(name))]
    if not names:
        return ""
    bars = [Bars("", [values[name] if name == other else None for other in names], name) for name in names]
    axis = Axis(label, low=0.0, show=show)
    return figure(title, bar_chart(title, [NAMES[name] for name in names], bars, axis, stacked=True))


def _parameters(parameters: dict[str, dict[str, int]]) -> str:
    names = [name for name in MODELS if name in parameters]
    if not names:
        return ""
    title = "Parameters by component"
    bars = [Bars(part, [parameters[name].get(part) for name in names], tone) for part, tone in PARTS.items()]
    chart = bar_chart(title, [NAMES[name] for name in names], bars, Axis("parameters", low=0.0), stacked=True)
    return figure(title, chart, list(PARTS.items()), bars=True)


def _operations(measured: dict) -> dict[str, float]:
    return {name: one["count"] for name, one in (measured.get("multiply_adds") or {}).items()}


def _operations_label(measured: dict) -> str:
    tokens = {one.get("tokens") for one in (measured.get("multiply_adds") or {}).values()}
    return f"multiply-adds, one text of {tokens.pop()} tokens" if len(tokens) == 1 else "multiply-adds"


def _times(record: dict) -> str:
    columns = [
        Column("model", numeric=False),
        Column("batch"),
        Column("mean (ms)"),
        Column("std (ms)"),
        Column("p50 (ms)"),
    ]
    columns += [Column("p95 (ms)"), Column("p99 (ms)"), Column("tokens/s"), Column("predictions")]
    keys = ("mean_ms", "std_ms", "p50_ms", "p95_ms", "p99_ms")
    rows = [
        [
            Cell(NAMES[name]),
            Cell(batch, int(batch)),
            *(cell(one.get(key), lambda value: number(value, 2)) for key in keys),
            cell(one.get("tokens_per_second"), lambda value: number(value, 0)),
            cell(one.get("predictions"), lambda value: number(value, 0)),
        ]
        for name, batches in latencies(record).items()
        for batch, one in sorted(batches.items(), key=lambda pair: int(pair[0]))
    ]
    where = record.get("analysis", {}).get("cost", {})
    place = f" ({where['device']}, {where.get('threads')} threads)" if "device" in where else ""
    return table(f"Times of a batch from text to answer{place}", columns, rows, key="times") if rows else ""
