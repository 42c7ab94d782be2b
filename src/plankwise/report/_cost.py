"""What the models cost: time by batch size, tokens per second, exits, operations, parameters, memory, loading."""

from dataclasses import replace

from plankwise.report._html import Column, fold, table
from plankwise.report._svg import show_all
from plankwise.report.charts import Axis, BarChart, Bars, Chart, Charts, Lines, Series
from plankwise.report.speed import read_speedups
from plankwise.report.text import MODELS, fixed, is_number

COMPONENTS = {"embeddings": "a", "blocks": "b", "head": "c"}
MOST_ROWS = 6  # of the table of times; a longer one is folded
TIMES = ("mean_ms", "std_ms", "p50_ms", "p95_ms", "p99_ms")


def cost(record: dict) -> str:
    """The charts and the table of times; empty if nothing was measured."""
    return show_all(cost_charts(record)) + _times(record)


def cost_charts(record: dict) -> Charts:
    """Time, speed-up and throughput by batch size; size, operations, memory and loading by model."""
    measured = record.get("analysis", {}).get("cost", {})
    latency, throughput = _by_model(record, "mean_ms", "std_ms"), _by_model(record, "tokens_per_second")
    time, speedup = Axis("time of a batch (ms)", low=0.0), Axis("times faster", low=0.0, show=lambda v: f"{v:.3g}×")
    speedups = _speedups(record)
    interval = ", with its 95 % interval" if any(one.spread for one in speedups) else ""
    return {
        "latency": _by_batch("Time of a prediction, mean ± standard deviation", latency, time),
        "speed-up": _by_batch(f"Speed-up over the predecessor{interval}", speedups, speedup),
        "tokens-per-second": _by_batch("Throughput", throughput, Axis("tokens per second", low=0.0)),
        "exits": _exits((record.get("successor") or {}).get("exits") or {}),
        "parameters": _parameters(measured.get("parameters") or {}),
        "multiply-adds": _operations(measured.get("multiply_adds") or {}),
        "size": _each("Size on disk", measured.get("size_mb") or {}, "MB"),
        "memory": _each("Peak memory", measured.get("peak_mb") or {}, "MB"),
        "loading": _each("Time to load", measured.get("load_seconds") or {}, "seconds"),
    }


def _latencies(record: dict) -> dict[str, dict[str, dict]]:
    """Times by model and batch size. In records of earlier versions the analysis has its own, which go first."""
    found = None if "timing" in record else record.get("analysis", {}).get("cost", {}).get("latency")
    found = found or {name: record[name].get("latency") for name in MODELS if name in record}
    return {name: found[name] for name in MODELS if found.get(name)}


def _by_model(record: dict, key: str, spread: str = "") -> list[Series]:
    """One line a model: `key` by batch size, with its spread if that has a key too."""
    found = []
    for name, batches in _latencies(record).items():
        known = sorted((int(batch), one) for batch, one in batches.items() if is_number(one.get(key)))
        if known:
            points = [(batch, one[key]) for batch, one in known]
            found.append(Series(name, points, name, [one.get(spread, 0.0) for _, one in known] if spread else ()))
    return found


def _speedups(record: dict) -> list[Series]:
    """One line a model: what `read_speedups` gives, by batch size."""
    found, by_model = [], read_speedups(record)
    for name in ("truncated", "successor"):
        known = sorted((int(batch), one) for batch, one in by_model.get(name, {}).items() if batch)
        if known:
            points = [(batch, one.ratio) for batch, one in known]
            spread = [(one.interval[1] - one.interval[0]) / 2 if one.interval else 0.0 for _, one in known]
            found.append(Series(name, points, name, spread if any(spread) else (), [one.text for _, one in known]))
    return found


def _by_batch(title: str, series: list[Series], y: Axis) -> list[Chart]:
    """Lines by batch size; bars if only one was measured."""
    if not series:
        return []
    batches = sorted({x for one in series for x, _ in one.points})
    if len(batches) > 1:
        return [Lines(title, series, Axis("texts in a batch", log2=True, ticks=batches), y)]
    values = {one.name: one.points[0][1] for one in series}
    spread = {one.name: one.spread[0] for one in series if one.spread}
    return [_one_bar_each(title, values, replace(y, label=f"{y.label}, batch of {batches[0]:g}"), spread)]


def _one_bar_each(title: str, values: dict[str, float], axis: Axis, spread: dict[str, float] | None = None) -> BarChart:
    """A bar a model in the model's tone, plus and minus its spread."""
    bars = []
    for name, value in values.items():
        off = (spread or {}).get(name)
        ends = None if off is None else (value - off, value + off)
        here = [other == name for other in values]
        bars.append(Bars("", [value if one else None for one in here], name, [ends if one else None for one in here]))
    return BarChart(title, list(values), bars, axis, stacked=True)


def _each(title: str, values: dict[str, float], label: str) -> list[Chart]:
    known = {name: values[name] for name in MODELS if is_number(values.get(name))}
    return [_one_bar_each(title, known, Axis(label, low=0.0))] if known else []


def _parameters(parameters: dict[str, dict[str, int]]) -> list[Chart]:
    names = [name for name in MODELS if name in parameters]
    bars = [Bars(one, [parameters[name].get(one) for name in names], tone) for one, tone in COMPONENTS.items()]
    axis = Axis("parameters", low=0.0)
    return [BarChart("Parameters by component", names, bars, axis, stacked=True)] if names else []


def _exits(found: dict) -> list[Chart]:
    """How many dev examples left a model with early exits after each block."""
    blocks = found.get("blocks") or []
    names = [f"block {block}" for block in range(1, len(blocks) + 1)]
    title = f"After which block dev examples left the successor, patience {found.get('patience')}"
    return [BarChart(title, names, [Bars("", blocks, "successor")], Axis("dev examples", low=0.0))] if blocks else []


def _operations(measured: dict[str, dict]) -> list[Chart]:
    tokens = {one.get("tokens") for one in measured.values()}
    label = f"multiply-adds, one text of {tokens.pop()} tokens" if len(tokens) == 1 else "multiply-adds"
    counts = {name: one["count"] for name, one in measured.items()}
    return _each("Multiply-adds of a forward pass", counts, label)


def _times(record: dict) -> str:
    columns = [Column("model", "model"), Column("batch", "batch", str)]
    columns += [Column(key.replace("_ms", " (ms)"), key, fixed(2)) for key in TIMES]
    columns += [Column("tokens/s", "tokens_per_second", fixed(0)), Column("predictions", "predictions", fixed(0))]
    rows = [
        {**one, "model": name, "batch": int(batch)}
        for name, batches in _latencies(record).items()
        for batch, one in sorted(batches.items(), key=lambda pair: int(pair[0]))
    ]
    where = record.get("timing") or record.get("analysis", {}).get("cost", {})
    place = f" ({where['device']}, {where.get('threads')} threads)" if "device" in where else ""
    shown = table(f"Times of a batch from text to answer{place}", columns, rows, key="times") if rows else ""
    return fold("All times, by model and batch size", shown) if len(rows) > MOST_ROWS else shown
