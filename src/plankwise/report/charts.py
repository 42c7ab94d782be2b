"""What a figure shows, as plain data: built once from a record, drawn as SVG for the page and by matplotlib for files.

A tone is a name for a colour that each renderer looks up: a model's name, or one of TONES.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from plankwise.report.text import brief, is_number

TONES = ("a", "b", "c", "d", "e", "f", "g", "h")
MAX_POINTS = 200
Point = tuple[float, float]
Legend = list[tuple[str, str]]  # names and tones


@dataclass(frozen=True)
class Axis:
    """What an axis shows, with its unit in the label; limits that are None come from the data."""

    label: str
    low: float | None = None
    high: float | None = None
    log2: bool = False
    show: Callable[[float], str] = field(default=brief)
    ticks: Sequence[float] = ()  # the values that get a label; none given: round numbers
    places: Sequence[str] = ()  # names of 0, 1, 2, … where the values are not numbers

    def tell(self, value: float) -> str:
        return self.places[round(value)] if self.places else self.show(value)


@dataclass(frozen=True)
class Series:
    """A line: its points by x, its tone, and if known how far each point may be off."""

    name: str
    points: Sequence[Point]
    tone: str
    spread: Sequence[float] = ()
    tips: Sequence[str] = ()  # what a point says, if not its values
    singles: Sequence[Point] = ()  # the measurements that the points are means or medians of


@dataclass(frozen=True)
class Lines:
    """Lines with a mark at every point."""

    title: str
    series: Sequence[Series]
    x: Axis
    y: Axis
    diagonal: bool = False  # also the line on which x and y are equal
    joined: bool = True  # False: marks alone
    baseline: tuple[str, float] | None = None  # a value of y to compare with, and its name
    note: str = ""

    @property
    def legend(self) -> Legend:
        return [(one.name, one.tone) for one in self.series]


@dataclass(frozen=True)
class Bars:
    """One value a group, None where there is none, with the ends of an interval if known."""

    name: str
    values: Sequence[float | None]
    tone: str
    intervals: Sequence[Point | None] = ()


@dataclass(frozen=True)
class BarChart:
    """Bars from left to right, one row a group and bar, or one a group if `stacked`.

    With `dots` a value is a point on an axis that need not begin at zero, so that near values are told apart.
    """

    title: str
    groups: Sequence[str]
    bars: Sequence[Bars]
    axis: Axis
    stacked: bool = False
    dots: bool = False
    note: str = ""

    @property
    def legend(self) -> Legend:
        return [(one.name, one.tone) for one in self.bars if one.name]

    @property
    def rows(self) -> int:
        """Bars above each other in one group."""
        return 1 if self.stacked else len(self.bars)

    @property
    def reach(self) -> list[float]:
        """What the axis has to span: values, sums of stacks, ends of intervals, and zero unless the values are dots."""
        found = [value for one in self.bars for value in one.values if is_number(value)]
        found += [end for one in self.bars for pair in one.intervals if pair for end in pair]
        if self.stacked:
            found += [sum(filter(is_number, values)) for values in zip(*(one.values for one in self.bars), strict=True)]
        return found if self.dots else [0.0, *found]


@dataclass(frozen=True)
class HeatMap:
    """A field for each value, darker the higher; `texts`, else the values, stand in the fields if `numbers`."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float]]
    x_label: str
    y_label: str
    scale: str  # what the colour means
    show: Callable[[float], str] = brief
    high: float | None = None  # the value of the strongest colour; None: the highest
    low: float = 0.0  # of the weakest
    texts: Sequence[Sequence[str]] | None = None
    numbers: bool = True
    note: str = ""
    legend: Legend = field(default_factory=list)


@dataclass(frozen=True)
class Dot:
    name: str
    x: float
    y: float
    tone: str
    group: str = ""  # what all dots of its tone have in common
    tip: str = ""


@dataclass(frozen=True)
class Scatter:
    """Named points."""

    title: str
    dots: Sequence[Dot]
    x: Axis
    y: Axis
    note: str = ""

    @property
    def legend(self) -> Legend:
        return list({dot.group: dot.tone for dot in self.dots if dot.group}.items())


@dataclass(frozen=True)
class Paths:
    """Ways through the plane: each from a ring to a dot with its name."""

    title: str
    paths: Sequence[Series]
    x: Axis
    y: Axis
    note: str = ""
    legend: Legend = field(default_factory=list)


Chart = Lines | BarChart | HeatMap | Scatter | Paths
Charts = dict[str, list[Chart]]  # by the name of the figure's file; a figure has as many panels as charts, or none


def thin(points: Sequence, most: int = MAX_POINTS) -> list:
    """At most `most` of them, evenly, the first and the last included."""
    if len(points) <= most:
        return list(points)
    return [points[round(index * (len(points) - 1) / (most - 1))] for index in range(most)]


def drawable(series: Series) -> Series:
    """The points of a series that can be drawn, thinned."""
    kept = thin([index for index, point in enumerate(series.points) if all(map(is_number, point))])
    return replace(
        series,
        points=[series.points[index] for index in kept],
        spread=[series.spread[i] if is_number(series.spread[i]) else 0.0 for i in kept] if series.spread else (),
        tips=[series.tips[index] for index in kept] if series.tips else (),
        singles=[point for point in series.singles if all(map(is_number, point))],
    )
