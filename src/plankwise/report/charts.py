"""Charts as SVG text, pure functions of numbers: lines, bars, heat map, points, paths.

Colours come from the page's style by class (`t-…`), so that they follow light and dark; every mark carries its value.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from plankwise.report._axes import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    Scale,
    axis_ticks,
    frame,
    limits,
    mark,
    svg,
    ticks,
    titles,
)
from plankwise.report._text import brief, cut, esc, is_number

MAX_POINTS = 200
BAR_TOP, BAR_TICKS = 8, 4
MOST_SLANTED = 24  # columns; with more, names stand straight and some are left out
Point = tuple[float, float]


@dataclass(frozen=True)
class Series:
    """A line: its points by x, its tone in the page's style, and if known how far each point may be off."""

    name: str
    points: Sequence[Point]
    tone: str
    spread: Sequence[float] = ()
    tips: Sequence[str] = ()


@dataclass(frozen=True)
class Bars:
    """One value a group, None where there is none, with the ends of an interval if known."""

    name: str
    values: Sequence[float | None]
    tone: str
    intervals: Sequence[tuple[float, float] | None] = ()


@dataclass(frozen=True)
class Dot:
    name: str
    x: float
    y: float
    tone: str
    tip: str = ""


def thin(points: Sequence, most: int = MAX_POINTS) -> list:
    """At most `most` of them, evenly, the first and the last included."""
    if len(points) <= most:
        return list(points)
    return [points[round(index * (len(points) - 1) / (most - 1))] for index in range(most)]


def line_chart(title: str, series: Sequence[Series], x_axis: Axis, y_axis: Axis, *, diagonal: bool = False) -> str:
    """Lines with a mark at every point; `diagonal` adds the line of equal x and y."""
    drawn = [_finite(one) for one in series]
    points = [point for one in drawn for point in one.points]
    reach = [
        y + sign * off for one in drawn for (_, y), off in zip(one.points, one.spread, strict=False) for sign in (1, -1)
    ]
    x_low, x_high = limits([x for x, _ in points], x_axis)
    y_low, y_high = limits([*(y for _, y in points), *reach], y_axis)
    x = Scale(x_low, x_high, LEFT, WIDTH - RIGHT, x_axis.log2)
    y = Scale(y_low, y_high, HEIGHT - BOTTOM, TOP)
    x_ticks = axis_ticks(x_low, x_high, x_axis, {value for value, _ in points})
    body = [frame(x, y, x_axis, y_axis, x_ticks, ticks(y_low, y_high))]
    if diagonal:
        low, high = max(x_low, y_low), min(x_high, y_high)
        body.append(f'<line class="reference" x1="{x(low)}" y1="{y(low)}" x2="{x(high)}" y2="{y(high)}"/>')
    body += [_line(one, x, y, x_axis, y_axis) for one in drawn]
    return svg("".join(body), _spoken(title, [one.name for one in drawn]))


def bar_chart(
    title: str,
    groups: Sequence[str],
    bars: Sequence[Bars],
    axis: Axis,
    *,
    stacked: bool = False,
    dots: bool = False,
) -> str:
    """Bars from left to right, one row a group and bar, or one a group if `stacked`; intervals as whiskers.

    With `dots` a value is a point on an axis that need not begin at zero, so that near values are told apart.
    """
    size, gap = (22, 10) if stacked or len(bars) == 1 else (14, 12)
    rows = 1 if stacked else len(bars)
    left = min(180, 18 + 7.4 * max((len(cut(group, 22)) for group in groups), default=0))
    height = BAR_TOP + len(groups) * (rows * size + gap) + BOTTOM
    low, high = limits(_bar_reach(groups, bars, stacked, dots), axis, BAR_TICKS)
    x = Scale(low, high, left, WIDTH - RIGHT - 8)
    body = [_bar_frame(x, axis, height)]
    for index, group in enumerate(groups):
        top = BAR_TOP + index * (rows * size + gap) + gap / 2
        name = mark(f'text x="{left - 8:g}" y="{top + rows * size / 2 + 4:g}" text-anchor="end"', group)
        body.append(name.replace("<title>", f"{esc(cut(group, 22))}<title>"))
        base = 0.0
        for row, one in enumerate(bars):
            value = one.values[index]
            if value is None or not is_number(value):
                continue
            at = top if stacked else top + row * size
            tip = f"{group}, {one.name}: {axis.show(value)}" if one.name else f"{group}: {axis.show(value)}"
            interval = one.intervals[index] if one.intervals else None
            whisker = ""
            if interval:
                tip += f" ({axis.show(interval[0])} to {axis.show(interval[1])})"
                whisker = _whisker(x(interval[0]), x(interval[1]), at + size / 2 - 1, level=True)
            if dots:
                tag = f'circle class="mark dot t-{one.tone}" cx="{x(value)}" cy="{at + size / 2 - 1:g}" r="5"'
                body.append(whisker + mark(tag, tip))
                continue
            start, end = sorted((x(max(low, base)), x(base + value)))
            place = f'x="{start}" y="{at:g}" width="{max(1, end - start):g}" height="{size - 2}"'
            body.append(mark(f'rect class="mark t-{one.tone}" {place}', tip) + whisker)
            base = base + value if stacked else 0.0
    return svg("".join(body), _spoken(title, [one.name for one in bars if one.name]), height=height)


def _bar_reach(groups: Sequence[str], bars: Sequence[Bars], stacked: bool, dots: bool) -> list[float]:
    """What the axis has to hold: values, sums of stacks, ends of intervals, and zero unless the values are dots."""
    found = [value for one in bars for value in one.values if is_number(value)]
    found += [end for one in bars for pair in one.intervals if pair for end in pair]
    if stacked:
        found += [sum(v for one in bars if is_number(v := one.values[index])) for index in range(len(groups))]
    return found if dots else [0.0, *found]


def heat_map(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float]],
    x_label: str,
    y_label: str,
    *,
    show: Callable[[float], str] = brief,
    low: float = 0.0,
    high: float | None = None,
    texts: Sequence[Sequence[str]] | None = None,
    numbers: bool = True,
) -> str:
    """A cell a value, darker the higher; `texts`, else the values, stand in the cells where they fit, and on hover."""
    known = [value for row in values for value in row if is_number(value)]
    top_value = max(known, default=1.0) if high is None else high
    reach = (top_value - low) or 1.0
    left = min(150.0, 16 + 7.4 * max(len(cut(row, 18)) for row in rows))
    wide = (WIDTH - RIGHT - left) / len(columns)
    tall = min(44.0, max(14.0, 230 / len(rows)))
    longest = 8.2 * max(len(cut(column, 14)) for column in columns)
    slanted = longest > wide and len(columns) <= MOST_SLANTED
    every = 1 if slanted else max(1, math.ceil(1.3 * longest / wide)) if longest > wide else 1
    below = 24 + (0.66 * longest if slanted else 0)
    bottom = TOP + tall * len(rows)
    fits = numbers and wide >= 34 and tall >= 18
    body = [titles(x_label, y_label, (left + WIDTH - RIGHT) / 2, bottom + below + 16)]
    for index, row in enumerate(rows):
        at = TOP + tall * index
        body.append(f'<text x="{left - 6:g}" y="{at + tall / 2 + 4:g}" text-anchor="end">{esc(cut(row, 18))}</text>')
        for place, column in enumerate(columns):
            value = values[index][place]
            if not is_number(value):
                continue
            strength = min(1.0, max(0.0, (value - low) / reach))
            text = show(value) if texts is None else texts[index][place]
            tag = (
                f'rect class="mark heat" data-columns="{len(columns)}" x="{left + wide * place:.1f}" y="{at:.1f}" '
                f'width="{wide:.1f}" height="{tall:.1f}" fill-opacity="{0.04 + 0.96 * strength:.3f}"'
            )
            body.append(mark(tag, f"{row} × {column}: {text}"))
            if fits:
                on = " on" if strength > 0.5 else ""
                middle = left + wide * (place + 0.5)
                body.append(
                    f'<text class="cell{on}" x="{middle:.1f}" y="{at + tall / 2 + 4:.1f}" text-anchor="middle">'
                    f"{esc(text)}</text>"
                )
    for place in range(0, len(columns), every):
        middle = left + wide * (place + 0.5)
        turn = (
            f' transform="rotate(-40 {middle:.1f} {bottom + 14:.1f})" text-anchor="end"'
            if slanted
            else ' text-anchor="middle"'
        )
        body.append(f'<text x="{middle:.1f}" y="{bottom + 16:.1f}"{turn}>{esc(cut(columns[place], 14))}</text>')
    return svg("".join(body), title, height=round(bottom + below + 24))


def scatter(title: str, dots: Sequence[Dot], x_axis: Axis, y_axis: Axis) -> str:
    """Named points; names that would cover another are shown on hover alone."""
    known = [dot for dot in dots if is_number(dot.x) and is_number(dot.y)]
    x_low, x_high = limits([dot.x for dot in known], x_axis)
    y_low, y_high = limits([dot.y for dot in known], y_axis)
    x, y = Scale(x_low, x_high, LEFT, WIDTH - RIGHT), Scale(y_low, y_high, HEIGHT - BOTTOM, TOP)
    body = [frame(x, y, x_axis, y_axis, ticks(x_low, x_high), ticks(y_low, y_high))]
    body += [
        mark(f'circle class="mark dot t-{dot.tone}" cx="{x(dot.x)}" cy="{y(dot.y)}" r="5"', dot.tip or dot.name)
        for dot in known
    ]
    body += place_names([(dot.name, x(dot.x), y(dot.y)) for dot in known])
    return svg("".join(body), title)


def path_chart(title: str, paths: Sequence[Series], x_axis: Axis, y_axis: Axis) -> str:
    """Ways through the plane: from a ring to a dot with its name; `limits` of the axes are given, so that charts compare."""
    drawn = [_finite(one) for one in paths]
    points = [point for one in drawn for point in one.points]
    x_low, x_high = limits([x for x, _ in points], x_axis)
    y_low, y_high = limits([y for _, y in points], y_axis)
    x, y = Scale(x_low, x_high, LEFT, WIDTH - RIGHT), Scale(y_low, y_high, HEIGHT - BOTTOM, TOP)
    body = [frame(x, y, x_axis, y_axis, ticks(x_low, x_high), ticks(y_low, y_high))]
    for one in drawn:
        way = " ".join(f"{x(a)},{y(b)}" for a, b in one.points)
        body.append(f'<polyline class="line t-{one.tone}" points="{way}"/>')
        for step, (a, b) in enumerate(one.points):
            ring, size = (" ring" if step == 0 else ""), (4 if step in (0, len(one.points) - 1) else 2)
            tag = f'circle class="mark dot{ring} t-{one.tone}" cx="{x(a)}" cy="{y(b)}" r="{size}"'
            body.append(mark(tag, one.tips[step] if one.tips else one.name))
    body += place_names([(one.name, x(one.points[-1][0]), y(one.points[-1][1])) for one in drawn if one.points])
    return svg("".join(body), title)


def place_names(names: Sequence[tuple[str, float, float]]) -> list[str]:
    """Names beside their points, each where it covers no earlier name; the others are left out."""
    taken: list[tuple[float, float, float]] = []
    found = []
    for name, at_x, at_y in names:
        text = cut(name, 18)
        length = 7.2 * len(text)
        beyond = at_x + 8 + length > WIDTH - 2
        left, at_y = (at_x - 4 - length, at_y - 9) if beyond else (at_x + 8, at_y)
        if left < 2 or any(left < end and start < left + length and abs(at_y - y) < 13 for start, end, y in taken):
            continue
        taken.append((left, left + length, at_y))
        found.append(f'<text class="name" x="{left:.1f}" y="{at_y + 4:.1f}">{esc(text)}</text>')
    return found


def _finite(one: Series) -> Series:
    """What of a series can be drawn, thinned."""
    kept = [index for index, (x, y) in enumerate(one.points) if is_number(x) and is_number(y)]
    kept = thin(kept)
    spread = [one.spread[i] if is_number(one.spread[i]) else 0.0 for i in kept] if one.spread else ()
    return Series(
        one.name, [one.points[i] for i in kept], one.tone, spread, [one.tips[i] for i in kept] if one.tips else ()
    )


def _line(one: Series, x: Scale, y: Scale, x_axis: Axis, y_axis: Axis) -> str:
    way = " ".join(f"{x(a)},{y(b)}" for a, b in one.points)
    parts = [f'<polyline class="line t-{one.tone}" points="{way}"/>']
    radius = 4 if len(one.points) <= 12 else 3 if len(one.points) <= 40 else 2
    for index, (a, b) in enumerate(one.points):
        told = f"{one.name}: {y_axis.show(b)} at {x_axis.label} {x_axis.show(a)}"
        if one.spread:
            told = f"{one.name}: {y_axis.show(b)} ± {y_axis.show(one.spread[index])} at {x_axis.label} {x_axis.show(a)}"
            parts.append(_whisker(y(b - one.spread[index]), y(b + one.spread[index]), x(a), level=False))
        told = one.tips[index] if one.tips else told
        parts.append(mark(f'circle class="mark dot t-{one.tone}" cx="{x(a)}" cy="{y(b)}" r="{radius}"', told))
    return "".join(parts)


def _whisker(start: float, end: float, at: float, *, level: bool) -> str:
    if level:
        way = f"M{start} {at - 3:g}v6M{start} {at:g}H{end}M{end} {at - 3:g}v6"
    else:
        way = f"M{at - 3:g} {start}h6M{at:g} {start}V{end}M{at - 3:g} {end}h6"
    return f'<path class="whisker" d="{way}"/>'


def _bar_frame(x: Scale, axis: Axis, height: float) -> str:
    bottom = height - BOTTOM + 2
    parts = [
        f'<line class="grid" x1="{at}" x2="{at}" y1="{BAR_TOP - 4}" y2="{bottom}"/>'
        f'<text x="{at}" y="{bottom + 16}" text-anchor="middle">{esc(axis.show(value))}</text>'
        for value in ticks(x.low, x.high, BAR_TICKS)
        for at in [x(value)]
    ]
    parts.append(titles(axis.label, "", (x.start + x.end) / 2, bottom + 36))
    return "".join(parts)


def _spoken(title: str, names: Sequence[str]) -> str:
    return f"{title}: {', '.join(names)}" if names else title
