"""How many times faster a model is: the one reader of it for headline, tables, charts, cards and the terminal."""

import math
from dataclasses import dataclass
from typing import Any

from plankwise.report._html import TableCell
from plankwise.report.text import MISSING, MODELS, is_number, times

UNSTEADY = "unsteady: the machine was busy, or timed too briefly"


@dataclass(frozen=True)
class ShownSpeedup:
    """A model's speed-up over the predecessor, and what is known of how far it can be relied on."""

    ratio: float
    batch: str = ""  # texts predicted at once; empty if that is not known
    interval: tuple[float, float] | None = None  # of 95 %; None: an earlier version measured it, without
    steady: bool = True
    measured: float | None = None  # where the multiply-adds allow no more than `ratio`

    @property
    def figure(self) -> str:
        """The figure with its interval."""
        if self.measured is not None:
            return f"≤ {times(self.ratio)}"
        if self.interval is None:
            return times(self.ratio)
        low, high = self.interval
        return f"{times(self.ratio)} ({low:.2f}–{high:.2f})"

    @property
    def text(self) -> str:
        """The same, and whether it is unsteady, for a table."""
        return self.figure if self.steady else f"{self.figure}, unsteady"

    @property
    def brief(self) -> str:
        """The same in few characters, for a terminal: the interval as a share of the figure, rounded up."""
        if self.measured is not None or self.interval is None:
            return self.figure
        low, high = self.interval
        share = max(self.ratio - low, high - self.ratio) / self.ratio
        return f"{times(self.ratio)} ±{math.ceil(100 * share)}%"

    @property
    def doubt(self) -> str:
        """Why the figure is not to be relied on; empty if it is."""
        told = [] if self.steady else [UNSTEADY]
        if self.measured is not None:
            told.append(f"measured {times(self.measured)}, more than the multiply-adds allow")
        return "; ".join(told)


def show_speedup(found: ShownSpeedup | None) -> str:
    """What a table shows: the figure with its interval, or a dash."""
    return MISSING if found is None else found.text


def speedup_cell(found: ShownSpeedup | None) -> TableCell:
    """The same in a table, sorted by the ratio."""
    return TableCell(show_speedup(found), None if found is None else found.ratio)


def read_speedups(record: dict) -> dict[str, dict[str, ShownSpeedup]]:
    """By model and batch size, the batch size of the headline first."""
    if isinstance(record.get("speedups"), dict):
        known = record["speedups"].items()
        return {name: {size: _read(record, name, size) for size in by_size} for name, by_size in known}
    return {name: found for name in MODELS if name in record and (found := _read_old(record, name))}


def read_speedup(timed: dict, name: str, size: str) -> ShownSpeedup | None:
    """Out of a measurement, which a record or a comparison keeps as `speedups` and `timing`; None if it is not there."""
    return _read(timed, name, size) if size in (timed.get("speedups") or {}).get(name, {}) else None


def _read(timed: dict, name: str, size: str) -> ShownSpeedup:
    one = timed["speedups"][name][size]
    beyond = ((timed.get("timing") or {}).get("measured") or {}).get(name, {}).get(size, {})
    return ShownSpeedup(one["median"], size, (one["low"], one["high"]), one["steady"], beyond.get("median"))


def speedup_of(record: dict, name: str = "successor") -> ShownSpeedup | None:
    """A model's speed-up at the headline's batch size; None if it was not measured."""
    if name == "predecessor":
        return ShownSpeedup(1.0) if is_number(record.get(name, {}).get("speedup")) else None
    return next(iter(read_speedups(record).get(name, {}).values()), None)


def speedup_keys(found: ShownSpeedup | None) -> dict[str, Any]:
    """What a row of a comparison's table.json says of it."""
    return {
        "speedup": None if found is None else found.ratio,
        "speedup_interval": None if found is None or found.interval is None else list(found.interval),
        "speedup_steady": None if found is None else found.steady,
        "speedup_measured": None if found is None else found.measured,
    }


def speedup_of_row(row: dict) -> ShownSpeedup | None:
    """The speed-up in a row of a comparison's table.json."""
    if not is_number(row.get("speedup")):
        return None
    interval = row.get("speedup_interval")
    return ShownSpeedup(
        row["speedup"],
        interval=None if interval is None else (interval[0], interval[1]),
        steady=row.get("speedup_steady") is not False,
        measured=row.get("speedup_measured"),
    )


def _read_old(record: dict, name: str) -> dict[str, ShownSpeedup]:
    """From a record of an earlier version, whose run and analysis measured separately: what the analysis found goes first."""
    if name == "predecessor":
        return {}
    before, model = record.get("predecessor", {}).get("latency") or {}, record[name]
    own = record.get("speedup") if name == "successor" else model.get("speedup")
    found: dict[str, float] = {}
    if is_number(own):
        found = _ratios(before, model.get("latency") or {}, "p50_ms") | {next(iter(before), ""): own}
    cost = record.get("analysis", {}).get("cost", {})
    latency = cost.get("latency") or {}
    found |= _ratios(latency.get("predecessor") or {}, latency.get(name) or {}, "mean_ms")
    if name == "successor":
        found |= cost.get("speedup") or {}
    return {size: ShownSpeedup(ratio, size) for size, ratio in found.items() if is_number(ratio)}


def _ratios(before: dict, after: dict, key: str) -> dict[str, float]:
    """One time of the predecessor by that of the model, by batch size."""
    both = {size: (before[size].get(key), one.get(key)) for size, one in after.items() if size in before}
    return {size: first / second for size, (first, second) in both.items() if is_number(first) and second}
