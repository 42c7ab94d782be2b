"""What a record says of speed, after a run and after analyses of it."""

import io

import pytest
from rich.console import Console

from plankwise.evaluation.latency import Speed
from plankwise.evaluation.speedup import Speedup
from plankwise.run.speed import enter_speed, tell_speed

AGAIN = "run it again"


def speed(speedups, *, threads=2, measured=None, uncounted=None):
    """A measurement in which the predecessor takes 90 ms, and the others as much less as their speed-ups say."""
    (sizes,) = {tuple(by_size) for by_size in speedups.values()}
    ratios = {"predecessor": dict.fromkeys(sizes, Speedup(1.0, 1.0, 1.0, steady=True)), **speedups}
    return Speed(
        latency={name: {size: {"p50_ms": 90 / found[size].median} for size in sizes} for name, found in ratios.items()},
        speedups=speedups,
        measured=measured or {},
        bound=dict.fromkeys(speedups, 2.0),
        multiply_adds=dict.fromkeys(ratios, 300) | {"predecessor": 600},
        uncounted=uncounted or {},
        conditions={
            "device": "cpu", "threads": threads, "batch_sizes": [int(size) for size in sizes],
            "rounds": dict.fromkeys(sizes, 100),
        },
    )  # fmt: skip


def steady(median):
    return Speedup(median, median - 0.05, median + 0.05, steady=True)


@pytest.fixture
def record():
    return {"predecessor": {}, "successor": {}, "speedup": None}


def test_the_figure_at_the_top_is_that_of_the_first_batch_size(record):
    enter_speed(record, speed({"successor": {"4": steady(1.5), "1": steady(1.8)}}))
    assert (record["speedup"], record["speedup_interval"], record["speedup_steady"]) == (1.5, [1.45, 1.55], True)
    for key in ("speedup", "speedup_interval", "speedup_steady"):
        assert record["successor"][key] == record[key]
    assert record["successor"]["latency_ms"] == 60
    assert record["successor"]["multiply_adds"] == 300
    assert (record["predecessor"]["speedup"], record["predecessor"]["speedup_interval"]) == (1.0, [1.0, 1.0])
    assert record["speedups"] == {"successor": {"4": steady(1.5).to_json(), "1": steady(1.8).to_json()}}
    assert record["timing"]["bound"] == {"successor": 2.0}


def test_a_later_measurement_replaces_the_batch_sizes_it_has_and_leaves_the_others(record):
    beyond = {"successor": {"1": steady(2.6), "32": steady(2.7)}}
    bounds = {"1": Speedup(2.0, 2.0, 2.0, steady=True), "32": Speedup(2.0, 2.0, 2.0, steady=True)}
    enter_speed(record, speed({"successor": bounds}, measured=beyond))
    enter_speed(record, speed({"successor": {"8": steady(1.7), "1": steady(1.8)}}))
    assert record["speedup"] == record["successor"]["speedup"] == 1.8
    assert {size: one["median"] for size, one in record["speedups"]["successor"].items()} == {
        "1": 1.8,
        "32": 2.0,
        "8": 1.7,
    }
    assert list(record["successor"]["latency"]) == ["1", "32", "8"]
    assert record["timing"]["batch_sizes"] == [1, 32, 8]
    assert record["timing"]["measured"] == {"successor": {"32": steady(2.7).to_json()}}


def test_figures_of_other_conditions_do_not_stand_beside_each_other(record):
    enter_speed(record, speed({"successor": {"1": steady(1.8), "32": steady(1.9)}}))
    enter_speed(record, speed({"successor": {"8": steady(1.5)}}, threads=1))
    assert (record["speedup"], record["timing"]["threads"]) == (1.5, 1)
    assert list(record["successor"]["latency"]) == list(record["speedups"]["successor"]) == ["8"]


def test_figures_that_an_earlier_version_measured_go():
    times = {"latency": {"1": {"p50_ms": 9.0}}, "latency_ms": 9.0, "speedup": 2.59}
    record = {"predecessor": dict(times), "successor": dict(times), "speedup": 2.59}
    enter_speed(record, speed({"successor": {"8": steady(1.5)}}))
    assert record["speedup"] == 1.5
    assert list(record["successor"]["latency"]) == ["8"]


def test_a_model_alone_has_times_and_no_speedup():
    record = {"model": {}}
    alone = Speed({"model": {"1": {"p50_ms": 3.0}}}, {}, {}, {}, {"model": 7}, {}, {"device": "cpu", "threads": 1})
    enter_speed(record, alone)
    assert (record["model"]["latency_ms"], record["model"]["multiply_adds"]) == (3.0, 7)
    assert record.keys() == {"model", "timing"}


def told(found):
    out = io.StringIO()
    tell_speed(found, Console(file=out, width=80, markup=False), AGAIN)
    return out.getvalue()


def test_what_cannot_be_relied_on_is_told_with_what_to_do():
    assert told(speed({"successor": {"1": steady(1.8)}})) == ""
    unsteady = told(speed({"successor": {"32": Speedup(1.8, 1.2, 2.9, steady=False), "1": steady(1.8)}}))
    assert unsteady.startswith("latency: the speed-up is unsteady (batches of 32)")
    assert unsteady.endswith(f"to measure it again on an idle one, {AGAIN}\n")
    shown, measured = {"1": Speedup(2.0, 2.0, 2.0, steady=True)}, {"successor": {"1": steady(2.59)}}
    beyond = told(speed({"successor": shown}, measured=measured))
    assert "the successor measured 2.59×, more than the multiply-adds allow (2.00×), in batches of 1" in beyond
    uncounted = told(speed({"successor": {"1": steady(1.8)}}, uncounted={"successor": "KeyError: 'x'"}))
    assert uncounted == "latency: the successor's multiply-adds could not be counted (KeyError: 'x')\n"
