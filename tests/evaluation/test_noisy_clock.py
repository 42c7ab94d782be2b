"""Speed-ups measured by a clock whose noise is known: the true ratio has to come out."""

import numpy as np
import pytest
import torch
from torch import nn

from plankwise.evaluation.latency import MOST_BLOCKS, Timed, measure_latency
from plankwise.runtimes import Predictor

TRUE = 1.8
SECONDS = {"predecessor": 0.018, "successor": 0.018 / TRUE}
TIMED = Timed([("a",)], lambda texts: {"attention_mask": torch.ones(len(texts), 1)}, lambda outputs: None)


class NoisyClock:
    """Stands still but for predictions, each of which takes its own time and what `noise` makes of it."""

    def __init__(self, noise):
        self.now, self.noise = 0.0, noise

    def __call__(self):
        return self.now

    def advance(self, seconds):
        self.now += self.noise(self.now, seconds)


class Worker(Predictor):
    """Takes a known time; its module, if it has one, has as many multiply-adds as its weights."""

    device = torch.device("cpu")
    size_mb = 0.0

    def __init__(self, clock, seconds, weights=None):
        self.clock, self.seconds = clock, seconds
        self.module = None if weights is None else Product(weights)

    def __call__(self, inputs, chosen=None):
        self.clock.advance(self.seconds)
        return {}


class Product(nn.Module):
    def __init__(self, weights):
        super().__init__()
        self.linear = nn.Linear(weights, 1)

    def forward(self, attention_mask):
        return self.linear(torch.ones(1, self.linear.in_features))


def run(noise=lambda now, seconds: seconds, predictions=100, batch_sizes=(1,), seconds=SECONDS, weights=None):
    clock = NoisyClock(noise)
    workers = {name: Worker(clock, one, (weights or {}).get(name)) for name, one in seconds.items()}
    return measure_latency(workers, TIMED, batch_sizes=list(batch_sizes), predictions=predictions, clock=clock)


def bursts(seed):
    """A third of the predictions is held up by something else, for as long as 148 ms on average."""
    random = np.random.default_rng(seed)

    def noise(now, seconds):
        held_up = random.random() < 1 / 3
        return seconds * random.normal(1, 0.02) + (random.exponential(0.148) if held_up else 0)

    return noise


def heavy_tails(seed):
    """Every prediction is stretched by a factor without a finite variance."""
    random = np.random.default_rng(seed)
    return lambda now, seconds: seconds * (1 + 0.1 * random.pareto(1.2))


def drifting(seed):
    """Everything gets slower and quicker again, up to four times, with a little noise."""
    random = np.random.default_rng(seed)
    return lambda now, seconds: seconds * (2.5 + 1.5 * np.sin(now / 0.7)) * random.normal(1, 0.03)


@pytest.mark.parametrize("noise", [bursts, heavy_tails, drifting])
def test_the_true_ratio_comes_out_whatever_noise_is_on_the_clock(noise):
    found = [run(noise(seed)).speedups["successor"]["1"] for seed in range(20)]
    assert all(one.steady for one in found)
    assert all(one.median == pytest.approx(TRUE, rel=0.05) for one in found)
    assert sum(one.low <= TRUE <= one.high for one in found) >= 17  # 95 %, but for chance


def test_a_ratio_of_means_would_have_been_far_off_on_the_same_data():
    off = []
    for seed in range(20):
        times = run(bursts(seed)).latency
        means = [times[name]["1"]["mean_ms"] for name in ("predecessor", "successor")]
        off.append(abs(means[0] / means[1] / TRUE - 1))
    assert np.median(off) > 0.05
    assert max(off) > 0.2


def test_two_equal_models_are_equally_fast():
    for seed in range(5):
        found = run(bursts(seed), seconds={"predecessor": 0.01, "successor": 0.01}).speedups["successor"]["1"]
        assert found.median == pytest.approx(1, abs=0.05)
        assert found.low <= 1 <= found.high


def test_a_quiet_clock_needs_no_more_rounds_than_were_asked_for():
    found = run(predictions=10, batch_sizes=(1, 4))
    assert found.conditions["rounds"] == {"1": 10, "4": 10}
    assert found.speedups["successor"]["1"].steady


def test_a_clock_too_noisy_is_called_unsteady_after_four_times_the_rounds():
    random = np.random.default_rng(0)
    found = run(lambda now, seconds: seconds * random.lognormal(0, 2), predictions=20)
    assert not found.speedups["successor"]["1"].steady
    assert found.conditions["rounds"] == {"1": 20 * MOST_BLOCKS}
    assert found.latency["successor"]["1"]["predictions"] == 20 * MOST_BLOCKS


def test_rounds_are_added_only_until_the_interval_is_narrow():
    random = np.random.default_rng(0)
    found = run(lambda now, seconds: seconds * random.lognormal(0, 0.18), predictions=100)
    assert found.speedups["successor"]["1"].steady
    assert 100 < found.conditions["rounds"]["1"] < 100 * MOST_BLOCKS


def test_no_rounds_are_added_to_predictions_that_took_long_already():
    random = np.random.default_rng(0)
    found = run(lambda now, seconds: 1000 * seconds * random.lognormal(0, 2), predictions=10)
    assert found.conditions["rounds"] == {"1": 10}
    assert not found.speedups["successor"]["1"].steady


def test_progress_knows_of_added_rounds():
    random = np.random.default_rng(0)
    clock, seen = NoisyClock(lambda now, seconds: seconds * random.lognormal(0, 2)), []
    workers = {name: Worker(clock, one) for name, one in SECONDS.items()}
    told = {"progress": lambda *both: seen.append(both), "clock": clock}
    measure_latency(workers, TIMED, batch_sizes=[1, 2], predictions=2, **told)
    assert seen[:3] == [(1, 4), (2, 4), (3, 6)]
    assert seen[-1] == (16, 16)


def test_a_speedup_beyond_the_multiply_adds_is_shown_as_what_they_allow_and_kept_as_measured():
    found = run(weights={"predecessor": 300, "successor": 200})
    assert found.multiply_adds == {"predecessor": 300, "successor": 200}
    assert found.bound == {"successor": 1.5}
    shown, measured = found.speedups["successor"]["1"], found.measured["successor"]["1"]
    assert (shown.median, shown.low, shown.high) == (1.5, 1.5, 1.5)
    assert measured.median == pytest.approx(TRUE)
    assert found.timing()["measured"] == {"successor": {"1": measured.to_json()}}


@pytest.mark.parametrize("weights", [{"predecessor": 400, "successor": 200}, {"predecessor": 300}, None])
def test_a_speedup_within_the_multiply_adds_or_without_any_stays_as_measured(weights):
    found = run(weights=weights)
    assert found.speedups["successor"]["1"].median == pytest.approx(TRUE)
    assert found.measured == {}


def test_a_module_that_cannot_be_counted_is_timed_without_a_bound():
    clock = NoisyClock(lambda now, seconds: seconds)
    workers = {name: Worker(clock, one) for name, one in SECONDS.items()}
    for worker in workers.values():
        worker.module = nn.Bilinear(2, 2, 2)  # whose forward takes two inputs
    found = measure_latency(workers, TIMED, batch_sizes=[1], predictions=6, clock=clock)
    assert found.speedups["successor"]["1"].median == pytest.approx(TRUE)
    assert found.uncounted.keys() == workers.keys()
    assert found.bound == {}


def test_the_conditions_of_a_measurement_are_told():
    told = run(predictions=6).timing()
    assert (told["device"], told["threads"], told["batch_sizes"]) == ("cpu", torch.get_num_threads(), [1])
    assert told["cpus"] >= 1
    assert {"load_before", "load_after", "tokens"} <= told.keys()


def test_models_are_compared_with_the_references_that_are_given():
    clock = NoisyClock(lambda now, seconds: seconds)
    workers = {name: Worker(clock, one) for name, one in {"a": 0.1, "b": 0.2, "c": 0.3, "d": 1.2}.items()}
    pairs = {"a": "b", "c": "d"}
    found = measure_latency(workers, TIMED, batch_sizes=[1], predictions=6, references=pairs, clock=clock).speedups
    assert {name: one["1"].median for name, one in found.items()} == pytest.approx({"a": 2.0, "c": 4.0})
