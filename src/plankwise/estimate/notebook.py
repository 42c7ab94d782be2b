"""What a rehearsal finds out, phase by phase, and how long it may take to find it out."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

import numpy as np
from rich.console import Console

PHASE_SECONDS = 1.5  # of calibration, at most, a phase; a single step that takes longer is run all the same
EVALUATIONS, LATENCY, TARGETS, FLOOR = "evaluations", "latency", "targets", "floor"


@dataclass(frozen=True)
class Budget:
    """How long calibrating may take in all: so many seconds, and a share of the time that is estimated."""

    seconds: float = 10.0
    share: float = 0.03


@dataclass(frozen=True)
class Memory:
    """Bytes held at the peak of a training stage, by what holds them."""

    weights: int
    gradients: int
    optimiser: int
    activations: int

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.optimiser + self.activations


@dataclass
class Phase:
    """What a part of a run will take; `steps` None: it is no training."""

    seconds: float = 0.0
    multiply_adds: float = 0.0
    steps: int | None = None


@dataclass
class Notebook:
    """Figures by phase, in the order of the run."""

    budget: Budget = field(default_factory=Budget)
    phases: dict[str, Phase] = field(default_factory=dict)
    memory: dict[str, Memory] = field(default_factory=dict)
    evaluation: dict[str, float] = field(default_factory=dict)  # what one takes in each training, in multiply-adds
    forward: list[float] = field(default_factory=list)  # seconds per multiply-add of each pass that trained nothing
    predictions: dict[str, int] = field(default_factory=dict)  # `tokens` of a text, and what each model takes for it
    alias: str | None = None  # what the next stages are called, if not by their own name
    began: float = field(default_factory=time.perf_counter)
    tell: Callable[[str], None] = lambda phase: None  # that a phase is being calibrated

    @contextmanager
    def shown(self, console: Console) -> Iterator[None]:
        """Inside, a terminal says which phase is being calibrated."""
        if not console.is_terminal:
            yield
            return
        with console.status("calibrating") as status:
            self.tell = lambda phase: status.update(f"calibrating: {phase}")
            yield

    def add(self, name: str, multiply_adds: float, seconds: float | None = None, *, times: int = 1) -> None:
        """Adds to a phase what is done so many times; without seconds, they are those of passes that train nothing."""
        phase = self.phases.setdefault(name, Phase())
        phase.multiply_adds += times * multiply_adds
        phase.seconds += times * (self.forward_rate * multiply_adds if seconds is None else seconds)

    @property
    def forward_rate(self) -> float:
        """Seconds per multiply-add of a pass that trains nothing, which depends little on the model."""
        return statistics.median(self.forward)

    def calibrate(self, costs: np.ndarray, run: Callable[[int], None], total: float, *, forward: bool = False) -> float:
        """Seconds per multiply-add, from a few of the items, which take `costs`; `total` is what all will take.

        The first to run does not count, since it fills caches and allocators, unless it alone takes longer than a phase may: the
        costliest in training, where memory is looked at, and a middling one where all is `forward`. The others come spread evenly
        over all, each prefix of them too, and at least one of them.
        """
        busy = np.flatnonzero(costs > 0)
        if not len(busy):
            return 0.0
        first = int(busy[np.argsort(costs[busy])[len(busy) // 2 if forward else -1]])
        warming = self._time(run, first)
        rates, counts = [warming / costs[first]], [costs[first]]
        if warming < min(PHASE_SECONDS, self.budget.seconds - self.spent):
            rates, counts = [], []
            allowed = self._allowed(warming / costs[first] * total) - warming
            for item in busy[list(spread(len(busy)))]:
                rates.append(self._time(run, int(item)) / costs[item])
                counts.append(costs[item])
                took = float(np.dot(rates, counts))
                if took + took / len(rates) > allowed:
                    break
        if forward:
            self.forward += rates
        return float(np.dot(rates, counts) / np.sum(counts))

    @property
    def spent(self) -> float:
        """Seconds since the notebook was opened."""
        return time.perf_counter() - self.began

    def _allowed(self, estimated: float) -> float:
        return min(PHASE_SECONDS, self.budget.seconds - self.spent, self.budget.share * estimated)

    @staticmethod
    def _time(run: Callable[[int], None], item: int) -> float:
        start = time.perf_counter()
        run(item)
        return time.perf_counter() - start

    def to_json(self) -> dict:
        """Seconds as `estimated`, so that what is measured later can stand beside it; memory is of the phase that takes most."""
        peak = max(self.memory, key=lambda name: self.memory[name].total)
        phases = {
            name: {"estimated": phase.seconds, "multiply_adds": phase.multiply_adds, "steps": phase.steps}
            for name, phase in sorted(self.phases.items(), key=lambda item: item[0] in (EVALUATIONS, LATENCY))
        }
        return {
            "phases": phases,
            "seconds": {"estimated": sum(phase.seconds for phase in self.phases.values())},
            "multiply_adds": {
                "training": sum(phase.multiply_adds for phase in self.phases.values() if phase.steps is not None),
                "prediction": self.predictions,
            },
            "memory": {
                "phase": peak,
                "estimated_mb": self.memory[peak].total / 1e6,
                "parts_mb": {part: size / 1e6 for part, size in asdict(self.memory[peak]).items()},
            },
            "calibration_seconds": self.spent,
        }


def spread(count: int) -> Iterator[int]:
    """All numbers below `count`, in an order whose every prefix lies evenly over them."""
    width = max(1, (count - 1).bit_length())
    for number in range(2**width):
        place = int(f"{number:0{width}b}"[::-1], 2)
        if place < count:
            yield place


def beside(estimate: dict, measured: dict[str, float], growth_mb: float | None) -> dict:
    """The estimate with what came of it: seconds phase by phase, and by how much the process grew.

    That growth holds more than training does: the data, libraries loaded on the way, what the allocator kept.
    """
    phases = {name: {**phase, "measured": measured.get(name)} for name, phase in estimate["phases"].items()}
    total = sum(phase["measured"] or 0.0 for phase in phases.values())
    return {
        **estimate,
        "phases": phases,
        "seconds": {**estimate["seconds"], "measured": total},
        "memory": {**estimate["memory"], "process_growth_mb": growth_mb},
    }


def in_words(estimate: dict) -> str:
    """One line: about how long, and how much memory."""
    return (
        f"about {duration(estimate['seconds']['estimated'])}, {estimate['memory']['estimated_mb']:.0f} MB at the peak"
    )


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
