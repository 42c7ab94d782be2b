"""How long work takes, from a few items of it, and how long it may take to find that out."""

import statistics
import time
from dataclasses import dataclass, field


@dataclass
class Budget:
    """How long timing may take: in all, in a phase, and as a share of what the phase is estimated to take."""

    share: float = 0.03
    seconds: float = 10.0
    phase_seconds: float = 1.5
    began: float = field(default_factory=time.perf_counter)

    @property
    def spent(self) -> float:
        return time.perf_counter() - self.began


class Timing:
    """Times items of a phase, one after the other, to say how long all of its work takes.

    The first is not counted, since it fills caches and allocators, unless it alone takes longer than a phase may.
    """

    def __init__(self, budget: Budget, total: float) -> None:
        """The first item begins now; `total`: the work of the whole phase."""
        self.budget = budget
        self.total = total
        self.allowed = min(budget.phase_seconds, budget.seconds - budget.spent)
        self.items: list[tuple[float, float]] = []  # seconds and work
        self.last = time.perf_counter()

    def add(self, work: float) -> None:
        """An item of so much work has ended, and the next begins."""
        now = time.perf_counter()
        self.items.append((now - self.last, work))
        self.last = now

    @property
    def pace(self) -> float:
        """Seconds per unit of work."""
        seconds, work = map(sum, zip(*(self.items[1:] or self.items), strict=True))
        return seconds / work if work else 0.0

    @property
    def seconds(self) -> float:
        """What the phase will take."""
        return float(self.pace * self.total)

    @property
    def enough(self) -> bool:
        """Whether one more item would take too long; at least one is counted."""
        first, *counted = [seconds for seconds, _ in self.items]
        if not counted:
            return first > self.allowed
        return first + sum(counted) + statistics.fmean(counted) > min(self.allowed, self.budget.share * self.seconds)
