"""Draws docs/picture.svg: the idea at a glance, from the predecessor over the hybrid with its coins to the successor.

    python tools/picture.py            writes docs/picture.svg
    python tools/picture.py --check    exits with 1 if it is not what this script draws

Colours follow the reader's light or dark theme by a media query, which GitHub respects in an image; text stays text.
"""

import sys
from pathlib import Path

TARGET = Path(__file__).parent.parent / "docs" / "picture.svg"

WIDTH, HEIGHT = 900, 470
LOWEST, ROW, THICK, BETWEEN = (
    326,
    34,
    28,
    26,
)  # of the planks: middle of the lowest, pitch, thickness, space between slots
LEFT, MIDDLE, RIGHT = 24, 262, 736  # where the three columns begin
PLANK, WIDE, SPAN, COIN = 140, 352, 112, 15  # widths of a plank, of a slot and of a plank in it; radius of a coin
SLOTS = 3
DRAWN = (True, False, True)  # what the coins say, from the lowest slot up: whether the successor runs
RATE = (0.3, 1.0, 0.5)  # of the curve: from, to, and at which share of the steps
TITLE = "Six layers of a predecessor become three of a successor, slot by slot, by the toss of a coin"

STYLE = """
text { font: 14px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1c2430; text-anchor: middle; }
.title { font-size: 18px; font-weight: 600; }
.faint { font-size: 13px; fill: #5a6573; }
.code { font: 13px ui-monospace, "SFMono-Regular", "DejaVu Sans Mono", monospace; fill: #0b5c8f; }
.old { fill: #e3c9a0; stroke: #a98a58; }
.on-old { fill: #3d2b12; }
.new { fill: #9a5b24; stroke: #6d3d12; }
.on-new { fill: #ffffff; }
.idle { opacity: .4; }
.slot { fill: none; stroke: #8b95a1; stroke-dasharray: 4 4; }
.coin { fill: #f2c230; stroke: #9a7500; stroke-width: 1.5; }
.on-coin { fill: #4d3a00; font-weight: 700; }
.way { fill: none; stroke: #0b5c8f; stroke-width: 2.5; stroke-linejoin: round; }
.head { fill: #0b5c8f; }
.axis { fill: none; stroke: #8b95a1; }
.rate { fill: none; stroke: #9a5b24; stroke-width: 2.5; }
@media (prefers-color-scheme: dark) {
  text { fill: #e8ecf1; }
  .faint { fill: #a3afbd; }
  .code { fill: #7cc0ee; }
  .old { fill: #6b5436; stroke: #a98a58; }
  .on-old { fill: #f6e9d4; }
  .new { fill: #d9985a; stroke: #f0bd8a; }
  .on-new { fill: #1d1206; }
  .way { stroke: #7cc0ee; }
  .head { fill: #7cc0ee; }
  .rate { stroke: #d9985a; }
}
"""


def text(x: float, y: float, words: str, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{named}>{words}</text>'


def plank(x: float, y: float, width: float, words: str, kind: str) -> str:
    """A plank whose middle is at the height `y`."""
    box = f'<rect class="{kind}" x="{x:g}" y="{y - THICK / 2:g}" width="{width:g}" height="{THICK}" rx="5"/>'
    return box + text(x + width / 2, y + 5, words, f"on-{kind}")


def arrow(*points: tuple[float, float]) -> str:
    """A line through points; its head ends at the last one."""
    (x, y), (before, _) = points[-1], points[-2]
    upwards = x == before
    tail = (x, y + 7) if upwards else (x - 7, y)
    line = "M" + "L".join(f"{x:g} {y:g}" for x, y in (*points[:-1], tail))
    head = f"M{x:g} {y:g}l-5.5 9h11z" if upwards else f"M{x:g} {y:g}l-9 -5.5v11z"
    return f'<path class="way" d="{line}"/><path class="head" d="{head}"/>'


def row(index: float) -> float:
    """The height of the middle of a row, counted from the lowest; 0.5 lies between the two rows of the first slot."""
    return LOWEST - ROW * index - BETWEEN * (index // 2)


def column(x: float, title: str, note: str, code: str) -> list[str]:
    """What stands above and below a column whose middle is `x`."""
    return [
        text(x, 26, title, "title"),
        text(x, row(0) + 58, "text in", "faint"),
        text(x, row(2 * SLOTS - 1) - 50, "answer out", "faint"),
        *([text(x, 424, note), text(x, 444, code, "faint")] if note else []),
    ]


def predecessor() -> list[str]:
    middle = LEFT + PLANK / 2
    return [
        *column(middle, "Predecessor", "a trained model", "frozen from now on"),
        arrow((middle, row(0) + 42), (middle, row(2 * SLOTS - 1) - 42)),
        *(plank(LEFT, row(index), PLANK, f"layer {index + 1}", "old") for index in range(2 * SLOTS)),
    ]


def successor() -> list[str]:
    middle = RIGHT + PLANK / 2
    return [
        *column(middle, "Successor", "half of the layers", "loads with plain AutoModel"),
        arrow((middle, row(0) + 42), (middle, row(2 * SLOTS - 1) - 42)),
        *(plank(RIGHT, row(2 * slot + 0.5), PLANK, f"successor {slot + 1}", "new") for slot in range(SLOTS)),
    ]


def hybrid() -> list[str]:
    middle, old, new = MIDDLE + WIDE / 2, MIDDLE + 14, MIDDLE + WIDE - SPAN - 14
    sides = [(new if replaced else old) + SPAN / 2 for replaced in DRAWN]
    path, at = [(middle, row(0) + 42)], middle
    for slot, side in enumerate(sides):
        under = row(2 * slot) + THICK / 2 + (10 + BETWEEN) / 2 - 1
        path += [(at, under), (side, under)]
        at = side
    over = row(2 * SLOTS - 1) - THICK / 2 - (10 + BETWEEN) / 2 + 4
    path += [(at, over), (middle, over), (middle, row(2 * SLOTS - 1) - 42)]
    parts = [*column(middle, "Hybrid, in training", "", "")]
    for slot in range(SLOTS):
        box = (
            f'x="{MIDDLE}" y="{row(2 * slot + 1) - THICK / 2 - 7:g}" width="{WIDE}" height="{ROW + THICK + 14}" rx="9"'
        )
        parts.append(f'<rect class="slot" {box}/>' + text(middle, row(2 * slot + 1) - 6, "slot", "faint"))
    parts.append(arrow(*path))
    for slot, replaced in enumerate(DRAWN):
        centre = row(2 * slot + 0.5)
        span = "".join(
            plank(old, row(2 * slot + index), SPAN, f"layer {2 * slot + index + 1}", "old") for index in (0, 1)
        )
        own = plank(new, centre, SPAN, f"successor {slot + 1}", "new")
        parts += [f'<g class="idle">{span}</g>{own}' if replaced else f'{span}<g class="idle">{own}</g>']
        parts.append(f'<circle class="coin" cx="{middle:g}" cy="{centre:g}" r="{COIN}"/>')
        parts.append(text(middle, centre + 5, "S" if replaced else "P", "on-coin"))
    return parts


def rate() -> list[str]:
    """The coin's odds over the training steps."""
    left, right, low, high = MIDDLE + 160, MIDDLE + WIDE - 2, 444, 406
    start, end, full_at = RATE
    full = left + (right - left) * full_at
    first, last = (low - (low - high) * value for value in (start, end))
    return [
        text(MIDDLE + 64, 420, "in each step a coin"),
        text(MIDDLE + 64, 440, "per slot: P or S"),
        f'<path class="axis" d="M{left:g} {high - 6:g}V{low:g}H{right:g}"/>',
        f'<path class="rate" d="M{left:g} {first:g}L{full:g} {last:g}H{right:g}"/>',
        text(left - 14, first + 4, f"{start:g}", "faint"),
        text(left - 14, last + 5, f"{end:g}", "faint"),
        text(full + 38, (low + high) / 2 + 8, "odds of S", "faint"),
        text((left + right) / 2, low + 17, "training steps", "faint"),
    ]


def steps_between() -> list[str]:
    height = row(2.5)
    gaps = [(LEFT + PLANK, MIDDLE, "hybrid()"), (MIDDLE + WIDE, RIGHT, "collapse()")]
    return [
        arrow((left + 10, height), (right - 10, height)) + text((left + right) / 2, height - 10, words, "code")
        for left, right, words in gaps
    ]


def draw() -> str:
    """The text of docs/picture.svg."""
    parts = [*predecessor(), *hybrid(), *successor(), *steps_between(), *rate()]
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{TITLE}">\n'
        f"<title>{TITLE}</title>\n<style>{STYLE}</style>\n{body}\n</svg>\n"
    )


def main() -> None:
    drawn = draw()
    if "--check" in sys.argv[1:]:
        sys.exit(not TARGET.is_file() or TARGET.read_text("utf-8") != drawn)
    TARGET.write_text(drawn, "utf-8")


if __name__ == "__main__":
    main()
