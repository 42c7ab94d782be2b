"""Where things lie in an SVG: scales, ticks that a reader can divide by, grid, axis titles."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from plankwise.report.charts import Axis
from plankwise.report.text import cut, esc, is_number

WIDTH, HEIGHT = 400, 260  # narrow, so that text keeps its size on a phone
LEFT, RIGHT, TOP, BOTTOM = 56, 20, 26, 46
NEGLIGIBLE = 1e-9
LETTER = 7.6  # mean width of a letter on a phone, where text is largest
MOST_LETTERS = 50  # of an axis's title


@dataclass(frozen=True)
class Scale:
    """From an axis's values to the drawing's units, with the values that get a label."""

    axis: Axis
    low: float
    high: float
    start: float
    end: float
    ticks: list[float]

    def __call__(self, value: float) -> float:
        at, low, high = (math.log2(v) if self.axis.log2 else v for v in (value, self.low, self.high))
        return round(self.start + (at - low) / (high - low) * (self.end - self.start), 1)


def make_scale(axis: Axis, values: Iterable[float], start: float, end: float, most: int = 5) -> Scale:
    """A scale that spans the values; a logarithmic axis without ticks of its own has one at each value."""
    if axis.places:
        return Scale(axis, -0.5, len(axis.places) - 0.5, start, end, [float(i) for i in range(len(axis.places))])
    known = list(values)
    low, high = limits(known, axis, most)
    found = sorted(set(known)) if axis.log2 else ticks(low, high, most)
    return Scale(axis, low, high, start, end, list(axis.ticks) or found)


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers within the limits: steps of 1, 2 or 5 times a power of ten, at most `most` + 1 of them."""
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


def limits(values: Iterable[float], axis: Axis, most: int = 5) -> tuple[float, float]:
    """What the axis spans: the given limits, else the data's, widened to the next ticks."""
    known = [value for value in values if is_number(value)] or [0.0, 1.0]
    low, high = min(known), max(known)
    if axis.log2:
        return (low / 1.2, high * 1.2)
    low = low if axis.low is None else axis.low
    high = high if axis.high is None else axis.high
    if high - low <= NEGLIGIBLE * max(1.0, abs(low), abs(high)):
        pad = abs(low) * 0.1 if abs(low) > NEGLIGIBLE else 1.0
        low, high = (low if axis.low is not None else low - pad), high + pad
    marks = ticks(low, high, most)
    step = marks[1] - marks[0] if len(marks) > 1 else high - low
    if axis.low is None:
        low = math.floor(low / step + 1e-9) * step
    if axis.high is None:
        high = math.ceil(high / step - 1e-9) * step
    return low, high


def frame(x: Scale, y: Scale) -> str:
    """Grid, tick labels and the two axes' titles: y's above the axis, x's below."""
    drawn = []
    for value in y.ticks:
        at = y(value)
        drawn.append(f'<line class="grid" x1="{x.start}" x2="{x.end}" y1="{at}" y2="{at}"/>')
        drawn.append(f'<text x="{x.start - 7}" y="{at + 4}" text-anchor="end">{esc(y.axis.tell(value))}</text>')
    for value in x.ticks:
        at = x(value)
        drawn.append(f'<line class="tick" x1="{at}" x2="{at}" y1="{y.start}" y2="{y.start + 4}"/>')
        drawn.append(f'<text x="{at}" y="{y.start + 18}" text-anchor="middle">{esc(x.axis.tell(value))}</text>')
    drawn.append(f'<line class="axis" x1="{x.start}" x2="{x.end}" y1="{y.start}" y2="{y.start}"/>')
    drawn.append(titles(x.axis.label, y.axis.label, (x.start + x.end) / 2, y.start + 38))
    return "".join(drawn)


def titles(x_label: str, y_label: str, x_at: float, y_at: float) -> str:
    """The axes' titles; a long one of x moves to the left rather than over the edge."""
    x_label, y_label = cut(x_label, MOST_LETTERS), cut(y_label, MOST_LETTERS)
    middle = max(4 + LETTER * len(x_label) / 2, min(x_at, WIDTH - 4 - LETTER * len(x_label) / 2))
    above = f'<text class="title" x="4" y="13">{esc(y_label)}</text>' if y_label else ""
    return f'{above}<text class="title" x="{middle:g}" y="{y_at:g}" text-anchor="middle">{esc(x_label)}</text>'


def svg(body: str, label: str, width: float = WIDTH, height: float = HEIGHT, kind: str = "") -> str:
    """A drawing that scales with its column unless the style of its `kind` keeps its width; `label` is for screen readers."""
    return (
        f'<svg class="chart {kind}" viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img" aria-label="{esc(label)}" '
        f'preserveAspectRatio="xMidYMid meet">{body}</svg>'
    )


def mark(tag: str, tip: str) -> str:
    """A mark with its value: `tag` is an element without its end, the tip shows on hover and on focus."""
    name = tag.split(" ", 1)[0]
    return f"<{tag}><title>{esc(tip)}</title></{name}>"
