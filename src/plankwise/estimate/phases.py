"""What a run will take, phase by phase: seconds, and memory at the peak."""

from dataclasses import asdict, dataclass, field

from plankwise.estimate.timing import Budget

EVALUATIONS, LATENCY, TARGETS = "evaluations", "latency", "targets"


@dataclass(frozen=True)
class Phase:
    seconds: float
    steps: int | None = None  # None: nothing is trained


@dataclass(frozen=True)
class KeptPhase:
    estimated: float  # seconds, so that what is measured can stand beside it
    steps: int | None


@dataclass(frozen=True)
class KeptSeconds:
    estimated: float


@dataclass(frozen=True)
class KeptMemory:
    """Of the phase that takes most."""

    phase: str
    estimated_mb: float
    parts_mb: dict[str, float]


@dataclass(frozen=True)
class KeptEstimate:
    """An estimate as it is written and read back."""

    phases: dict[str, KeptPhase]
    seconds: KeptSeconds
    multiply_adds: dict[str, dict[str, int]]
    memory: KeptMemory
    calibration_seconds: float


@dataclass
class Estimate:
    """Figures by phase, in the order of the run."""

    budget: Budget = field(default_factory=Budget)
    phases: dict[str, Phase] = field(default_factory=dict)
    memory: dict[str, dict[str, int]] = field(
        default_factory=dict
    )  # bytes at the peak of a phase, by what they are for
    evaluated: float = 0.0  # weights that a token of dev passes through in all evaluations of all stages
    prediction: dict[str, int] = field(
        default_factory=dict
    )  # `tokens` of a text, and each model's multiply-adds for it

    def to_json(self) -> dict:
        peak = max(self.memory, key=lambda name: sum(self.memory[name].values()))
        parts = {part: size / 1e6 for part, size in self.memory[peak].items()}
        kept = KeptEstimate(
            phases={name: KeptPhase(one.seconds, one.steps) for name, one in self.phases.items()},
            seconds=KeptSeconds(sum(one.seconds for one in self.phases.values())),
            multiply_adds={"prediction": self.prediction},
            memory=KeptMemory(peak, sum(self.memory[peak].values()) / 1e6, parts),
            calibration_seconds=self.budget.spent,
        )
        return asdict(kept)


def duration(seconds: float) -> str:
    """In the unit that suits it."""
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
