"""Replacing rate as a function of the step, and the masks that it gives.

Xu et al. 2020, arXiv:2002.02925, section 3.3: constant and linear; the thesis measures the linear one by the share of steps
at which the rate is 1. A schedule is called with the step (from 0) and the number of steps.

All but one are driven by the step alone. `Plateau`, which neither source has, is driven by the held-out score: the rate rises
when the hybrid, scored at its own rate, has stopped improving. It is a pure function of the step all the same: the steps of its
rises are a part of its value, and another rise gives another schedule (`raised`, or `after` for a whole list of scores). It needs
several evaluations a rate, so set training.evaluate_every well below an epoch; with training.early_stopping, which counts only
once the rate is 1, it makes a run whose length is not known beforehand.
"""

import math
import random
from collections.abc import Iterable
from dataclasses import Field, asdict, dataclass, field, fields, replace

from plankwise.errors import ConfigError
from plankwise.kinds import no_such


def _within(name: str, value: float, *, above_zero: bool = False) -> None:
    if not 0 <= value <= 1 or (above_zero and value == 0):
        raise ConfigError(
            f"method.schedule.{name} is {value}; choose a number {'above 0 and up to' if above_zero else 'from 0 to'} 1"
        )


def _whole(name: str, value: float) -> None:
    if value < 1 or value % 1:
        raise ConfigError(f"method.schedule.{name} is {value}; choose a whole number from 1 on")


@dataclass(frozen=True)
class Schedule:
    """A rate in [0, 1] for every step."""

    def __call__(self, step: int, num_steps: int) -> float:
        raise NotImplementedError

    def full_step(self, num_steps: int) -> int:
        """The first step from which on the rate is 1; `num_steps` if it never is."""
        step = num_steps
        while step > 0 and self(step - 1, num_steps) == 1.0:
            step -= 1
        return step


@dataclass(frozen=True)
class Rising(Schedule):
    """From `start` to 1 at the share `full_at` of the steps; how it rises is up to the kind."""

    start: float = 0.3
    full_at: float = 0.5

    def __post_init__(self) -> None:
        _within("start", self.start)
        _within("full_at", self.full_at, above_zero=True)

    def __call__(self, step: int, num_steps: int) -> float:
        progress = step / (self.full_at * num_steps)
        return 1.0 if progress >= 1 else min(1.0, self.start + (1 - self.start) * self._rise(progress))

    def _rise(self, progress: float) -> float:
        raise NotImplementedError


@dataclass(frozen=True)
class Linear(Rising):
    """Linear by share: a straight line."""

    def _rise(self, progress: float) -> float:
        return progress


@dataclass(frozen=True)
class Cosine(Rising):
    """Slow, fast, slow: half a cosine wave."""

    def _rise(self, progress: float) -> float:
        return (1 - math.cos(math.pi * progress)) / 2


@dataclass(frozen=True)
class Logarithmic(Rising):
    """Fast first: the logarithm of the step, as in LCMR."""

    def _rise(self, progress: float) -> float:
        return math.log1p(progress * (math.e - 1))


@dataclass(frozen=True)
class Anti(Rising):
    """Anti-curriculum, the paper's ablation: 1 minus the linear rate, so it falls to 0 and training ends there."""

    def __call__(self, step: int, num_steps: int) -> float:
        return 1.0 - super().__call__(step, num_steps)

    def _rise(self, progress: float) -> float:
        return progress


@dataclass(frozen=True)
class Slope(Schedule):
    """Linear by slope, the paper's equation 6: k · step + b, at most 1."""

    k: float = 0.0006
    b: float = 0.3

    def __post_init__(self) -> None:
        _within("b", self.b)
        if not 0 < self.k < math.inf:
            raise ConfigError(f"method.schedule.k is {self.k}; choose a number above 0: at 0 the rate never reaches 1")

    def __call__(self, step: int, num_steps: int) -> float:
        return min(1.0, self.k * step + self.b)


@dataclass(frozen=True)
class Constant(Schedule):
    """One rate, then 1: from the share `full_at` of the steps, or after `replacing_steps` steps."""

    rate: float = 0.5
    full_at: float = 0.5
    replacing_steps: int | None = None

    def __post_init__(self) -> None:
        _within("rate", self.rate)
        _within("full_at", self.full_at)
        if self.replacing_steps is not None:
            _whole("replacing_steps", self.replacing_steps)

    def __call__(self, step: int, num_steps: int) -> float:
        end = self.full_at * num_steps if self.replacing_steps is None else self.replacing_steps
        return 1.0 if step >= end else self.rate


@dataclass(frozen=True)
class Steps(Schedule):
    """A staircase: `rates[i]` from the share `at[i]` of the steps on; the first share is 0."""

    at: tuple[float, ...] = (0.0, 0.25, 0.5)
    rates: tuple[float, ...] = (0.3, 0.6, 1.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", tuple(self.at))
        object.__setattr__(self, "rates", tuple(self.rates))
        for name in ("at", "rates"):
            for value in getattr(self, name):
                _within(name, value)
            if list(getattr(self, name)) != sorted(getattr(self, name)):
                raise ConfigError(f"method.schedule.{name} is {list(getattr(self, name))}; list it in rising order")
        if len(self.at) != len(self.rates) or not self.at or self.at[0] != 0:
            raise ConfigError(
                f"method.schedule.at is {list(self.at)} and rates is {list(self.rates)}; "
                "give as many shares as rates, the first share 0"
            )

    def __call__(self, step: int, num_steps: int) -> float:
        return [rate for share, rate in zip(self.at, self.rates, strict=True) if step >= share * num_steps][-1]


@dataclass(frozen=True)
class Plateau(Schedule):
    """By score: `start`, and `rise` more after `patience` evaluations without a better hybrid; 1 from the share `latest` on."""

    start: float = 0.3
    rise: float = 0.2
    patience: int = 1
    latest: float = 0.8
    rises: tuple[int, ...] = field(default=(), metadata={"key": False})  # each step from which on the rate was raised

    def __post_init__(self) -> None:
        _within("start", self.start)
        _within("rise", self.rise, above_zero=True)
        _whole("patience", self.patience)
        _within("latest", self.latest, above_zero=True)

    def __call__(self, step: int, num_steps: int) -> float:
        rate = self.start + self.rise * sum(risen <= step for risen in self.rises)
        # 0.1 + 3 · 0.3 is a little less than 1 in floating point, and has to be 1.
        return 1.0 if step >= self.latest * num_steps or rate > 1 - 1e-9 else rate

    def raised(self, step: int) -> "Plateau":
        """The same with one more rise, from a step on."""
        return replace(self, rises=(*self.rises, step))

    def after(self, scores: Iterable[tuple[int, float]]) -> "Plateau":
        """The same with the rises that the hybrid's scores give, each score with the number of steps done, in their order."""
        schedule = replace(self, rises=())
        best, misses = -math.inf, 0
        for step, score in scores:
            best, misses = (score, 0) if score > best else (best, misses + 1)
            if misses >= self.patience:
                schedule = schedule.raised(step)
                best, misses = -math.inf, 0
        return schedule


SCHEDULES: dict[str, type[Schedule]] = {
    "anti": Anti,
    "constant": Constant,
    "cosine": Cosine,
    "linear": Linear,
    "logarithmic": Logarithmic,
    "plateau": Plateau,
    "slope": Slope,
    "steps": Steps,
}


def _keys(kind: type[Schedule]) -> dict[str, Field]:
    """The fields that a recipe may set."""
    return {entry.name: entry for entry in fields(kind) if entry.metadata.get("key", True)}


def make_schedule(data: dict | Schedule) -> Schedule:
    """The schedule that `{"kind": "linear", "start": 0.3, …}` describes.

    Raises:
        ConfigError: unknown kind or key, or a value out of range.
    """
    if isinstance(data, Schedule):
        return data
    if not isinstance(data, dict):
        raise ConfigError(
            f"method.schedule is {data!r}; give a section, for example {{ kind = 'linear', start = 0.3 }}"
        )
    options = dict(data)
    kind = options.pop("kind", "linear")
    if not isinstance(kind, str) or kind not in SCHEDULES:
        raise ConfigError(f"method.schedule.kind is {kind!r}; {no_such(str(kind), SCHEDULES, 'schedule')}")
    known = _keys(SCHEDULES[kind])
    for key, value in options.items():
        if key not in known:
            raise ConfigError(f"method.schedule.{key}: {no_such(key, known, f'key for the {kind} schedule')}")
        many = isinstance(known[key].default, tuple)
        items = list(value) if many and isinstance(value, list | tuple) else [None] if many else [value]
        if not all(isinstance(item, int | float) and not isinstance(item, bool) for item in items):
            raise ConfigError(f"method.schedule.{key} is {value!r}; give {'a list of numbers' if many else 'a number'}")
    return SCHEDULES[kind](**options)


def describe_schedule(schedule: Schedule) -> dict:
    """What `make_schedule` reads back."""
    kind = next(name for name, cls in SCHEDULES.items() if cls is type(schedule))
    known = _keys(type(schedule))
    return {"kind": kind, **{key: v for key, v in asdict(schedule).items() if key in known and v is not None}}


def draw_mask(seed: int, step: int, rate: float, num_slots: int) -> tuple[bool, ...]:
    """One coin per slot. It depends on nothing but the arguments: the same on every rank and after a resume."""
    coins = random.Random(f"{seed}/{step}")
    return tuple(coins.random() < rate for _ in range(num_slots))
