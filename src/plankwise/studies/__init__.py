"""The papers' studies as recipes, one file each: `plankwise study depth` is `studies/depth.py`.

A file offers:

    PUBLISHED                   the source's figures: a Published
    AXIS                        what `--values` sets: an Axis
    MIN_RECIPES                 how many recipes it needs
    plan(request)               the trials, checked before anything is trained
    measure(trials, request)    what they give, a Measured each; most take `measure_grid` of `studies/_trials.py`
"""

import statistics
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from rich.console import Console

from plankwise.kinds import load_kind

if TYPE_CHECKING:
    from plankwise.run.workers import Workers


@dataclass(frozen=True)
class Published:
    """Figures as their source prints them; None where it has none, or none that could be read."""

    source: str
    setting: str
    columns: tuple[str, ...]
    rows: dict[str, tuple[float | None, ...]]
    places: int = 1  # decimal places in print
    remark: str = ""  # what the source says in words


@dataclass(frozen=True)
class Axis:
    name: str
    numeric: bool = False  # places on it are numbers, and a line joins them
    rows: str = ""  # what arms' rows are: they are shown as heat maps, one a series


@dataclass(frozen=True)
class Arm:
    """One setting that a study tries: a place on the axis, in one of the series."""

    label: str
    at: str
    series: str = ""
    overrides: tuple[str, ...] = ()
    row: str = ""  # of a heat map, where the axis has rows


@dataclass(frozen=True)
class StudyRequest:
    """What the user asked for."""

    name: str
    recipes: list[dict]
    values: list[str] | None
    seeds: list[int]
    folder: Path
    console: Console
    workers: "Workers | None" = None  # that share it


@dataclass(frozen=True)
class Trial:
    """A task on which arms are compared."""

    recipe: dict
    arms: list[Arm]

    @property
    def name(self) -> str:
        return self.recipe["run"]["name"]


@dataclass(frozen=True)
class Point:
    arm: Arm
    seed: int
    score: float | None
    failure: str = ""
    idle_share: float = 0.0  # of the steps: no slot was drawn, so nothing was trained
    beyond_constant: dict | None = None  # whether the model knows more than one answer, as records have it


@dataclass(frozen=True)
class Measured:
    """A trial's points; the baseline is what differences are taken to."""

    task: str
    metric: str
    arms: list[Arm]
    points: list[Point]
    baseline: float | None
    baseline_name: str = "predecessor"
    notes: list[str] = field(default_factory=list)

    def points_of(self, arm: Arm) -> list[Point]:
        return [point for point in self.points if point.arm == arm]

    def scores(self, arm: Arm) -> list[float]:
        return [point.score for point in self.points_of(arm) if point.score is not None]

    def median(self, arm: Arm) -> float | None:
        """None if every seed failed."""
        scores = self.scores(arm)
        return statistics.median(scores) if scores else None

    def described(self, arm: Arm) -> list[dict]:
        """What remarks on the arm's seeds are made of."""
        return [{"beyond_constant": point.beyond_constant} for point in self.points_of(arm) if point.score is not None]

    @property
    def failures(self) -> list[Point]:
        return [point for point in self.points if point.score is None]


def find_series(measured: Measured) -> dict[str, list[Arm]]:
    """The arms by their series, both in the order in which they were planned."""
    found: dict[str, list[Arm]] = {}
    for arm in measured.arms:
        found.setdefault(arm.series, []).append(arm)
    return found


def find_study(name: str) -> ModuleType:
    """The study of that name.

    Raises:
        ConfigError: there is none.
    """
    return load_kind("studies", name, key="study")


def run_study(request: StudyRequest) -> list[Measured]:
    """Measures what the request asks for, prints it beside the published figures and writes it to the request's folder.

    Raises:
        PlankwiseError: anything that the user can fix. Bad input is found before anything is trained.
        InterruptedRunError: it was told to stop; the same request goes on with it.
    """
    from plankwise.studies._flow import run  # here, because it imports the contract above

    return run(find_study(request.name), request)
