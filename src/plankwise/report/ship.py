"""The plan drawn as a ship's side: the predecessor's planks above, below them the planks that took their place."""

import math
from dataclasses import dataclass

from plankwise.report._axes import mark, svg
from plankwise.report.text import cut, esc, number, slot_name

PLANK, EDGE, TALL, GAP = 38, 30, 46, 20
TOP = 6
LEAST = 400
LETTER = 12.0  # width of a letter on a phone, where text is largest
MOST = 14  # planks side by side; more of them are drawn as several sides, one below the other
MANY = 8  # planks from which on the drawing's text is larger on a phone


@dataclass(frozen=True)
class _Chain:
    path: str
    slots: list[dict]
    told: list[str]  # what each successor says
    most: int  # planks in the longest row
    label: str


def draw_ship(path: str, slots: list[dict], drops: list[float] | None = None, key: str = "ship") -> str:
    """The side of one chain under its name: `slots` as the plan has them; `drops` is what each of them costs alone.

    Blocks between the spans, in no slot, are drawn whole in both rows: they were kept.
    """
    blocks = _blocks(slots)
    taken = {block for slot in slots for block in _members(slot)}
    rows = _rows(blocks, slots)
    most = max(map(len, rows))
    kept = len(blocks) - len(taken)
    label = f"{path}: {len(blocks)} blocks of the predecessor, {len(slots)} successors" + (
        f", {kept} kept" * bool(kept)
    )
    told = [_tell(index, slot, drops) for index, slot in enumerate(slots)]
    chain = _Chain(path, slots, told, most, label)
    sides = [_side(chain, row, f"{key}-{place}") for place, row in enumerate(rows)]
    scrolls = most > MOST
    box = (
        '<div class="sideways" tabindex="0" role="region" aria-label="the plan">' if scrolls else '<div class="sides">'
    )
    hint = '<p class="hint">Wider than the screen? Scroll it sideways.</p>' if scrolls else ""
    title = f"{cut(path, 80)}: {len(blocks)} → {len(slots) + kept}"
    return f'<figure class="ship"><figcaption>{esc(title)}</figcaption>{box}{"".join(sides)}</div>{hint}</figure>'


def draw_ships(plan: list[dict], drops: list[float] | None = None, key: str = "ship") -> list[str]:
    """One drawing a chain, in the plan's order; slots that are single modules share one."""
    chains: dict[str, list[int]] = {}
    for index, slot in enumerate(plan):
        chains.setdefault(slot["path"] if slot.get("span") else "", []).append(index)
    return [
        draw_ship(
            path or "single modules",
            [plan[index] for index in indices],
            [drops[index] for index in indices] if drops else None,
            f"{key}-{place}",
        )
        for place, (path, indices) in enumerate(chains.items())
    ]


def _tell(index: int, slot: dict, drops: list[float] | None) -> str:
    told = f"successor {index + 1} ({slot.get('part', '')}) replaced {slot_name(slot)}"
    return f"{told}; alone it costs {number(drops[index])}" if drops else told


def _rows(blocks: list, slots: list[dict]) -> list[list]:
    """The blocks as rows of about equal length, MOST at most unless a span is longer; no span is divided."""
    ends = {_members(slot)[-1] for slot in slots} | (
        set(blocks) - {block for slot in slots for block in _members(slot)}
    )
    length = math.ceil(len(blocks) / math.ceil(len(blocks) / MOST))
    rows: list[list] = [[]]
    for block in blocks:
        rows[-1].append(block)
        if block in ends and len(rows[-1]) >= length:
            rows.append([])
    return [row for row in rows if row]


def _side(chain: _Chain, blocks: list, key: str) -> str:
    """A row of the chain's planks with their successors; all rows have planks of one width."""
    path, slots, most = chain.path, chain.slots, chain.most
    wide = max(LEAST, most * PLANK + 2 * EDGE)
    plank = (wide - 2 * EDGE) / most
    letters = max(2, int(plank / LETTER))
    place = {block: EDGE + plank * index for index, block in enumerate(blocks)}
    lower = TOP + TALL + GAP
    keel = lower + TALL
    taken = {block for slot in slots for block in _members(slot)}
    planks = [
        _plank((place[block], TOP, plank), _short(block, letters), f"predecessor, {_place(path, block)}", kind)
        for block in blocks
        for kind in ["old" if block in taken else "kept"]
    ]
    planks += [
        _plank((place[block], lower, plank), _short(block, letters), f"{_place(path, block)}: kept as it is", "kept")
        for block in blocks
        if block not in taken
    ]
    for index, slot in enumerate(slots):
        members = _members(slot)
        if members[0] not in place:
            continue
        start, length = place[members[0]], plank * len(members)
        middle = start + length / 2
        arrow = f"M{start + 6:g} {TOP + TALL + 3}v4H{start + length - 6:g}v-4M{middle:g} {TOP + TALL + 7}v{GAP - 9}"
        planks.append(f'<path class="rope" d="{arrow}"/>')
        planks.append(_plank((start, lower, length), str(index + 1), chain.told[index], "new"))
    body = (
        f'<defs><clipPath id="{esc(key)}"><path d="{_hull(wide, keel)}"/></clipPath></defs>'
        f'<path class="hull" d="{_hull(wide, keel)}"/>'
        f'<g clip-path="url(#{esc(key)})">{"".join(planks)}</g>'
        f'<path class="rail" d="M4 {TOP}H{wide - 4}"/><path class="water" d="{_waves(wide, keel + 8)}"/>'
    )
    kind = "ship long" if most > MOST else "ship wide" if most > MANY else "ship"
    return svg(body, chain.label, wide, keel + 18, kind)


def _members(slot: dict) -> list:
    return list(slot.get("span") or [slot["path"]])


def _blocks(slots: list[dict]) -> list:
    """All planks of the side: the slots' blocks and those between them; the plan does not say what comes after the last slot."""
    members = [block for slot in slots for block in _members(slot)]
    if any(isinstance(block, str) for block in members):
        return members
    return list(range(0, max(members) + 1))


def _short(block: object, letters: int) -> str:
    return str(block) if isinstance(block, int) else cut(str(block).rpartition(".")[2], letters)


def _place(path: str, block: object) -> str:
    return f"{path} {block}" if isinstance(block, int) else str(block)


def _plank(box: tuple[float, float, float], text: str, tip: str, kind: str) -> str:
    """A plank at x and y, `box[2]` wide."""
    x, y, width = box
    tag = f'rect class="mark plank {kind}" x="{x + 1:g}" y="{y + 2}" width="{width - 2:g}" height="{TALL - 4}" rx="2"'
    nails = "".join(
        f'<circle class="nail" cx="{at:g}" cy="{y + TALL / 2:g}" r="1.4"/>'
        for at in (x + 6, x + width - 6)
        if width > 26
    )
    label = f'<text class="cell {kind}" x="{x + width / 2:g}" y="{y + TALL / 2 + 5:g}" text-anchor="middle">{esc(text)}</text>'
    return mark(tag, tip) + nails + label


def _hull(wide: float, keel: float) -> str:
    """Straight at the stern, curved at the bow."""
    return (
        f"M4 {TOP}H{wide - 4}C{wide - 8} {TOP + 52} {wide - 14} {keel - 26} {wide - 30} {keel}"
        f"H26C16 {keel} 8 {TOP + 60} 4 {TOP}Z"
    )


def _waves(wide: float, at: float) -> str:
    return f"M0 {at}" + "q6 -7 12 0t12 0" * round(wide / 24)
