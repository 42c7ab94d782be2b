"""What a record says of speed: one measurement, which `compress` enters, and `analyse` adds to or replaces."""

from typing import Any

from rich.console import Console

from plankwise.evaluation.latency import Speed, as_json
from plankwise.evaluation.speedup import NARROW, SAME
from plankwise.run.training import PREDECESSOR, SUCCESSOR

CONDITIONS = ("device", "threads")  # under which figures may stand beside each other


def enter_speed(record: dict, speed: Speed) -> None:
    """Writes latencies, speed-ups, multiply-adds and the conditions of a measurement to the record and its models.

    Batch sizes that were measured earlier and not now are kept if that was on the same device with as many threads; otherwise
    all earlier figures go, so that no two figures of a record were measured under different conditions. The figure at the top is
    that of the first batch size.
    """
    timing, known = speed.timing(), record.get("timing") or {}
    kept = bool(known) and all(known.get(key) == timing[key] for key in CONDITIONS)
    before = record if kept else {}
    for name, by_size in speed.latency.items():
        model = record[name]
        model["latency"] = {**(before.get(name, {}).get("latency") or {}), **by_size}
        model["latency_ms"] = next(iter(model["latency"].values()))["p50_ms"]
        model["multiply_adds"] = speed.multiply_adds.get(name)
    record["timing"] = {**timing, **(_merge_timing(known, timing) if kept else {})}
    if PREDECESSOR not in speed.latency:
        return
    found = as_json(speed.speedups)
    record["speedups"] = {name: {**before.get("speedups", {}).get(name, {}), **found[name]} for name in found}
    first = next(iter(record[PREDECESSOR]["latency"]))
    _enter_figure(record[PREDECESSOR], SAME.to_json())
    for name, by_size in record["speedups"].items():
        _enter_figure(record[name], by_size[first])
    _enter_figure(record, record["speedups"][SUCCESSOR][first])


def _enter_figure(place: dict, speedup: dict[str, Any]) -> None:
    place["speedup"] = speedup["median"]
    place["speedup_interval"] = [speedup["low"], speedup["high"]]
    place["speedup_steady"] = speedup["steady"]


def _merge_timing(known: dict, timing: dict) -> dict:
    """What `timing` says by batch size, with what was known of other sizes."""
    rounds = {**known["rounds"], **timing["rounds"]}
    measured: dict[str, dict] = {}
    for one in (known, timing):
        for name, by_size in one["measured"].items():
            fresh = {size: value for size, value in by_size.items() if one is timing or size not in timing["rounds"]}
            if fresh:
                measured.setdefault(name, {}).update(fresh)
    return {"rounds": rounds, "batch_sizes": [int(size) for size in rounds], "measured": measured}


def tell_speed(speed: Speed, console: Console, again: str) -> None:
    """Says which speed-ups cannot be relied on, and why; `again` is what to do to measure them again."""
    for name, why in speed.uncounted.items():
        console.print(f"latency: the {name}'s multiply-adds could not be counted ({why})", soft_wrap=True)
    for name, by_size in speed.measured.items():
        for size, one in by_size.items():
            console.print(
                f"latency: the {name} measured {one.median:.2f}×, more than the multiply-adds allow ({speed.bound[name]:.2f}×), "
                f"in batches of {size}",
                soft_wrap=True,
            )
    unsteady = {size for found in speed.speedups.values() for size, one in found.items() if not one.steady}
    if unsteady:
        sizes = ", ".join(sorted(unsteady, key=int))
        console.print(
            f"latency: the speed-up is unsteady (batches of {sizes}): its interval is still wider than ±{NARROW:.0%} of it, since "
            f"the machine was busy, or timed too briefly; to measure it again on an idle one, {again}",
            soft_wrap=True,
        )
