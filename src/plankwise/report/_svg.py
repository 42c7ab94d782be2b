"""Charts as SVG for the page; knows nothing of records.

Drawn here and not by matplotlib, so that the page needs no extra, is small, follows light and dark (colours come from its style by
class, `t-…`), keeps its text readable on a phone, and shows each mark's value on hover and to the keyboard.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from plankwise.report._axes import (
    BOTTOM,
    HEIGHT,
    LEFT,
    LETTER,
    RIGHT,
    TOP,
    WIDTH,
    Scale,
    frame,
    make_scale,
    mark,
    svg,
    titles,
)
from plankwise.report._html import grid
from plankwise.report.charts import BarChart, Bars, Chart, Charts, HeatMap, Lines, Paths, Scatter, Series, drawable
from plankwise.report.text import cut, esc, is_number

BAR_TOP, BAR_TICKS = 8, 4
MOST_BESIDE = 16  # letters of a group's name that stand beside its bars; longer names stand above them
MOST_ABOVE = 48
NAME_LINE = 20  # height of a name above its bars
MOST_SLANTED = 24  # columns; with more, names are not turned and some are left out


def show_all(charts: Charts) -> str:
    """All charts in the page's grid; empty if there are none."""
    return grid(*(show(chart) for panels in charts.values() for chart in panels))


def show(chart: Chart) -> str:
    """A chart under its title, with its legend and note."""
    keys = "".join(
        f'<span class="key"><svg viewBox="0 0 26 10" aria-hidden="true">{_swatch(tone, chart)}</svg>{esc(name)}</span>'
        for name, tone in chart.legend
    )
    return (
        f"<figure><figcaption>{esc(chart.title)}</figcaption>"
        + (f'<div class="legend">{keys}</div>' if keys else "")
        + draw(chart)
        + (f'<p class="note">{esc(chart.note)}</p>' if chart.note else "")
        + "</figure>"
    )


def _swatch(tone: str, chart: Chart) -> str:
    if isinstance(chart, Lines):
        line = f'<line class="line t-{tone}" x1="1" x2="25" y1="5" y2="5"/>'
        return f'{line}<circle class="dot t-{tone}" cx="13" cy="5" r="4"/>'
    return f'<rect class="t-{tone}" x="8" width="10" height="10"/>'


def draw(chart: Chart) -> str:
    """The chart alone, as an SVG element."""
    return DRAWN[type(chart)](chart)


def _plane(chart: Lines | Scatter | Paths, xs: Sequence[float], ys: Sequence[float]) -> tuple[Scale, Scale]:
    return make_scale(chart.x, xs, LEFT, WIDTH - RIGHT), make_scale(chart.y, ys, HEIGHT - BOTTOM, TOP)


def _lines(chart: Lines) -> str:
    drawn = [drawable(one) for one in chart.series]
    points = [point for one in drawn for point in (*one.points, *one.singles)]
    reach = [
        y + sign * off for one in drawn for (_, y), off in zip(one.points, one.spread, strict=False) for sign in (1, -1)
    ]
    reach += [chart.baseline[1]] if chart.baseline else []
    x, y = _plane(chart, [x for x, _ in points], [*(y for _, y in points), *reach])
    body = [frame(x, y)]
    if chart.diagonal:
        low, high = max(x.low, y.low), min(x.high, y.high)
        body.append(f'<line class="reference" x1="{x(low)}" y1="{y(low)}" x2="{x(high)}" y2="{y(high)}"/>')
    if chart.baseline:
        name, value = chart.baseline
        tag = f'line class="mark reference" x1="{x.start}" x2="{x.end}" y1="{y(value)}" y2="{y(value)}"'
        body.append(mark(tag, f"{name}: {chart.y.tell(value)}"))
    body += [_line(one, x, y, joined=chart.joined) for one in drawn]
    return svg("".join(body), _spoken(chart))


def _line(one: Series, x: Scale, y: Scale, *, joined: bool) -> str:
    drawn = [f'<circle class="single t-{one.tone}" cx="{x(a)}" cy="{y(b)}" r="3"/>' for a, b in one.singles]
    if joined:
        drawn.append(_way(one, x, y))
    radius = 4 if len(one.points) <= 12 else 3 if len(one.points) <= 40 else 2
    for index, (a, b) in enumerate(one.points):
        off = ""
        if one.spread:
            off = f" ± {y.axis.tell(one.spread[index])}"
            lowest, highest = max(y.low, b - one.spread[index]), min(y.high, b + one.spread[index])
            drawn.append(_whisker(y(lowest), y(highest), x(a), level=False))
        tip = f"{one.name}: {y.axis.tell(b)}{off} at {x.axis.label} {x.axis.tell(a)}"
        tag = f'circle class="mark dot t-{one.tone}" cx="{x(a)}" cy="{y(b)}" r="{radius}"'
        drawn.append(mark(tag, one.tips[index] if one.tips else tip))
    return "".join(drawn)


def _way(one: Series, x: Scale, y: Scale) -> str:
    return f'<polyline class="line t-{one.tone}" points="{" ".join(f"{x(a)},{y(b)}" for a, b in one.points)}"/>'


@dataclass(frozen=True)
class _BarPlace:
    x: Scale
    base: float  # the value at which the bar begins
    top: float
    size: int


def _bar_chart(chart: BarChart) -> str:
    size, gap = (22, 10) if chart.rows == 1 else (14, 12)
    longest = max(map(len, chart.groups), default=0)
    above = longest > MOST_BESIDE
    left, lead = (12.0, NAME_LINE) if above else (18 + LETTER * longest, 0)
    step = lead + chart.rows * size + gap
    height = BAR_TOP + len(chart.groups) * step + BOTTOM
    shown = _single_values(chart)
    room = LETTER * max(map(len, shown), default=0) + 8
    x = make_scale(chart.axis, chart.reach, left, WIDTH - max(RIGHT + 8, room), BAR_TICKS)
    body = [_bar_frame(x, height)]
    for index, group in enumerate(chart.groups):
        top = BAR_TOP + index * step + gap / 2 + lead
        name = f'x="{left:g}" y="{top - 6:g}"' if above else f'x="{left - 8:g}" y="{top + chart.rows * size / 2 + 4:g}"'
        tag = mark(f'text class="name" {name} text-anchor="{"start" if above else "end"}"', group)
        body.append(tag.replace("<title>", f"{esc(cut(group, MOST_ABOVE))}<title>"))
        base = 0.0
        for row, one in enumerate(chart.bars):
            value = one.values[index]
            if is_number(value):
                place = _BarPlace(x, base, top if chart.stacked else top + row * size, size)
                body.append(_bar(one, index, group, place, dot=chart.dots))
                body.append(_value(one, index, place, shown[index]) if shown else "")
                base += value if chart.stacked else 0.0
    return svg("".join(body), _spoken(chart), height=height)


def _single_values(chart: BarChart) -> list[str]:
    """The values as text if each group has one at most, so that they can stand beside their bars; else none."""
    found = [
        [value for one in chart.bars if is_number(value := one.values[index])] for index in range(len(chart.groups))
    ]
    if chart.rows > 1 or any(len(values) > 1 for values in found):
        return []
    return [chart.axis.tell(values[0]) if values else "" for values in found]


def _value(one: Bars, index: int, place: _BarPlace, text: str) -> str:
    """A bar's value, to the right of the bar and its interval."""
    value, interval = one.values[index], one.intervals[index] if one.intervals else None
    assert value is not None
    end = max(place.x(value), place.x(max(place.x.low, place.base)), place.x(interval[1]) if interval else 0.0)
    return f'<text class="value" x="{end + 8:g}" y="{place.top + place.size / 2 + 3:g}">{esc(text)}</text>'


def _bar(one: Bars, index: int, group: str, place: _BarPlace, *, dot: bool) -> str:
    """A bar or a dot, with its interval as a whisker."""
    value, x, middle = one.values[index], place.x, place.top + place.size / 2 - 1
    assert value is not None
    interval = one.intervals[index] if one.intervals else None
    tip = f"{group}, {one.name}: {x.axis.tell(value)}" if one.name else f"{group}: {x.axis.tell(value)}"
    tip += f" ({x.axis.tell(interval[0])} to {x.axis.tell(interval[1])})" if interval else ""
    whisker = _whisker(x(interval[0]), x(interval[1]), middle, level=True) if interval else ""
    if dot:
        return whisker + mark(f'circle class="mark dot t-{one.tone}" cx="{x(value)}" cy="{middle:g}" r="5"', tip)
    start, end = sorted((x(max(x.low, place.base)), x(place.base + value)))
    box = f'x="{start}" y="{place.top:g}" width="{max(1, end - start):g}" height="{place.size - 2}"'
    return mark(f'rect class="mark t-{one.tone}" {box}', tip) + whisker


def _bar_frame(x: Scale, height: float) -> str:
    bottom = height - BOTTOM + 2
    drawn = [
        f'<line class="grid" x1="{at}" x2="{at}" y1="{BAR_TOP - 4}" y2="{bottom}"/>'
        f'<text x="{at}" y="{bottom + 16}" text-anchor="middle">{esc(x.axis.tell(value))}</text>'
        for value in x.ticks
        for at in [x(value)]
    ]
    return "".join(drawn) + titles(x.axis.label, "", (x.start + x.end) / 2, bottom + 36)


def _whisker(start: float, end: float, at: float, *, level: bool) -> str:
    if level:
        way = f"M{start} {at - 3:g}v6M{start} {at:g}H{end}M{end} {at - 3:g}v6"
    else:
        way = f"M{at - 3:g} {start}h6M{at:g} {start}V{end}M{at - 3:g} {end}h6"
    return f'<path class="whisker" d="{way}"/>'


def _heat_map(chart: HeatMap) -> str:
    left = min(150.0, 16 + LETTER * max(len(cut(row, 18)) for row in chart.rows))
    wide = (WIDTH - RIGHT - left) / len(chart.columns)
    tall = min(44.0, max(14.0, 230 / len(chart.rows)))
    longest = 8.2 * max(len(cut(column, 14)) for column in chart.columns)
    slanted = longest > wide and len(chart.columns) <= MOST_SLANTED
    below = 24 + (0.66 * longest if slanted else 0)
    bottom = TOP + tall * len(chart.rows)
    body = [titles(chart.x_label, chart.y_label, (left + WIDTH - RIGHT) / 2, bottom + below + 16)]
    for index, row in enumerate(chart.rows):
        at = TOP + tall * index
        body.append(f'<text x="{left - 6:g}" y="{at + tall / 2 + 4:g}" text-anchor="end">{esc(cut(row, 18))}</text>')
    body += _heat_fields(chart, left, wide, tall)
    every_nth = 1 if slanted or longest <= wide else math.ceil(1.3 * longest / wide)
    for place in range(0, len(chart.columns), every_nth):
        middle = left + wide * (place + 0.5)
        turn = f' transform="rotate(-40 {middle:.1f} {bottom + 14:.1f})"' if slanted else ""
        anchor = "end" if slanted else "middle"
        name = esc(cut(chart.columns[place], 14))
        body.append(f'<text x="{middle:.1f}" y="{bottom + 16:.1f}"{turn} text-anchor="{anchor}">{name}</text>')
    return svg("".join(body), chart.title, height=round(bottom + below + 24))


def _heat_fields(chart: HeatMap, left: float, wide: float, tall: float) -> list[str]:
    known = [value for row in chart.values for value in row if is_number(value)]
    high = max(known, default=1.0) if chart.high is None else chart.high
    texts = chart.texts or [[chart.show(value) if is_number(value) else "" for value in row] for row in chart.values]
    fits = chart.numbers and tall >= 18 and wide >= 4 + LETTER * max(len(text) for row in texts for text in row)
    drawn = []
    for index, row in enumerate(chart.rows):
        for place, column in enumerate(chart.columns):
            value = chart.values[index][place]
            if not is_number(value):
                continue
            x, y = left + wide * place, TOP + tall * index
            strength = min(1.0, max(0.0, (value - chart.low) / ((high - chart.low) or 1.0)))
            text = texts[index][place]
            tag = (
                f'rect class="mark heat" data-columns="{len(chart.columns)}" x="{x:.1f}" y="{y:.1f}" '
                f'width="{wide:.1f}" height="{tall:.1f}" fill-opacity="{0.04 + 0.96 * strength:.3f}"'
            )
            drawn.append(mark(tag, f"{row} × {column}: {text}"))
            if fits:
                middle, line = f"{x + wide / 2:.1f}", f"{y + tall / 2 + 4:.1f}"
                drawn.append(f'<text class="cell" x="{middle}" y="{line}" text-anchor="middle">{esc(text)}</text>')
    return drawn


def _scatter(chart: Scatter) -> str:
    """Named points; names that would cover another are shown on hover alone."""
    known = [dot for dot in chart.dots if is_number(dot.x) and is_number(dot.y)]
    x, y = _plane(chart, [dot.x for dot in known], [dot.y for dot in known])
    drawn = [
        mark(f'circle class="mark dot t-{dot.tone}" cx="{x(dot.x)}" cy="{y(dot.y)}" r="5"', dot.tip or dot.name)
        for dot in known
    ]
    names = place_names([(dot.name, x(dot.x), y(dot.y)) for dot in known])
    return svg("".join([frame(x, y), *drawn, *names]), chart.title)


def _paths(chart: Paths) -> str:
    drawn = [drawable(one) for one in chart.paths]
    points = [point for one in drawn for point in one.points]
    x, y = _plane(chart, [x for x, _ in points], [y for _, y in points])
    body = [frame(x, y)]
    for one in drawn:
        body.append(_way(one, x, y))
        for step, (a, b) in enumerate(one.points):
            ring, size = (" ring" if step == 0 else ""), (4 if step in (0, len(one.points) - 1) else 2)
            tag = f'circle class="mark dot{ring} t-{one.tone}" cx="{x(a)}" cy="{y(b)}" r="{size}"'
            body.append(mark(tag, one.tips[step] if one.tips else one.name))
    body += place_names([(one.name, x(one.points[-1][0]), y(one.points[-1][1])) for one in drawn if one.points])
    return svg("".join(body), chart.title)


def place_names(names: Sequence[tuple[str, float, float]]) -> list[str]:
    """Names beside their points, each where it covers no earlier name; the others are left out."""
    taken: list[tuple[float, float, float]] = []
    found = []
    for name, at_x, at_y in names:
        text = cut(name, 18)
        length = LETTER * len(text)
        beyond = at_x + 8 + length > WIDTH - 2
        left, at_y = (at_x - 4 - length, at_y - 9) if beyond else (at_x + 8, at_y)
        if left < 2 or any(left < end and start < left + length and abs(at_y - y) < 13 for start, end, y in taken):
            continue
        taken.append((left, left + length, at_y))
        found.append(f'<text class="name" x="{left:.1f}" y="{at_y + 4:.1f}">{esc(text)}</text>')
    return found


def _spoken(chart: Lines | BarChart) -> str:
    return f"{chart.title}: {', '.join(name for name, _ in chart.legend)}" if chart.legend else chart.title


DRAWN: dict[type, Callable[[Any], str]] = {
    Lines: _lines, BarChart: _bar_chart, HeatMap: _heat_map, Scatter: _scatter, Paths: _paths
}  # fmt: skip
