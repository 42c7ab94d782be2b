"""The page's part on a search for a plan: the library as a heat map, the plan that was found, predicted against measured."""

import math
from collections.abc import Sequence
from typing import Any

from plankwise.report._html import Column, judged, paragraph, table
from plankwise.report._svg import show_all
from plankwise.report.charts import Axis, Chart, Charts, HeatMap, Lines, Series
from plankwise.report.ship import draw_ships
from plankwise.report.speed import UNSTEADY, ShownSpeedup, speedup_cell
from plankwise.report.text import brief, count, is_number, number, share, times

FOUND = "found"
TONES = {
    FOUND: "successor", "next best": "a", "even": "d", "late": "e", "dropped": "truncated", "random": "dominated"
}  # fmt: skip
STRONG = 0.75  # quantile of the effects that has the strongest colour: a few candidates ruin the model, and would hide the rest


def show_search(data: dict) -> str:
    """The section of one table.json."""
    about, rows = data["search"], data["rows"]
    caption = (
        f"all plans solved and not trained; effect: how far answers are from the predecessor's, on {about['texts']} texts; "
        f"{about['metric']} on dev; speed-up: median of paired ratios over the predecessor at batch size {about['batch_size']}; "
        f"{UNSTEADY}"
    )
    return judged(
        search_verdict(data),
        str(about["task"]),
        *draw_ships(rows[0]["plan"], key="found"),
        paragraph(_tell_parts(rows[0]["plan"]), "note"),
        show_all(make_search_charts(data)),
        table(caption, COLUMNS, [_shown(row) for row in rows], key="search"),
        paragraph(_tell_costs(about), "note"),
        alone=True,
    )


def search_verdict(data: dict) -> str:
    """What the plan reaches, and whether a simple plan at least as fast, or as small, does better."""
    about, rows = data["search"], data["rows"]
    found, others = rows[0], rows[1:]
    # Where the score chose, it is told of examples that did not.
    kept = found["kept_other"] if about["goal"]["kind"] == "within" else found["kept"]
    told = (
        f"a plan for {about['goal']['told']}: {times(found['speedup']['median'])} as fast"
        f"{_tell_speed(about['goal'], found['speedup'])}, {count(found['parameters'])} parameters, effect "
        f"{number(found['effect'])}, {share(kept)} of the score kept before any training"
    )
    key = "parameters" if about["goal"]["kind"] == "params" else "speedup"
    better = [
        row for row in others
        if row["effect"] < found["effect"] and _costs_no_more(row["predicted"][key], found["predicted"][key], key)
    ]  # fmt: skip
    simple = [row for row in better if row["kind"] != "next best"]
    if simple:
        best = min(simple, key=lambda row: row["effect"])
        return f"{told}; {best['name']} does better at no more cost: effect {number(best['effect'])}"
    compared = [row for row in others if row["kind"] not in ("next best", "random")]
    if not compared:
        return told
    best = min(compared, key=lambda row: row["effect"])
    return (
        f"{told}; the best simple plan beside it, {best['name']}: {times(best['speedup']['median'])}, "
        f"effect {number(best['effect'])}"
    )


def _tell_speed(goal: dict, speed: dict) -> str:
    """What has to be said of a speed: that it is unsteady, or less than was asked for."""
    doubts = [] if speed["steady"] else ["unsteady"]
    if goal["kind"] == "target" and speed["high"] < goal["value"]:
        doubts.append("less than asked for: ask for a little more")
    return f" ({', '.join(doubts)})" if doubts else ""


def _costs_no_more(value: float, found: float, key: str) -> bool:
    return value <= found if key == "parameters" else value >= 0.99 * found


def make_search_charts(data: dict) -> Charts:
    """A heat map a chain, and what was predicted against what was measured."""
    chains = [chain["path"] for chain in data["search"]["chains"]]
    maps = [_heat_map(path, [one for one in data["library"] if one["path"] == path]) for path in chains]
    return {"library": [one for one in maps if one is not None], "predicted": _predicted(data["rows"])}


def _heat_map(path: str, library: Sequence[dict]) -> Chart | None:
    columns = sorted({one["label"] for one in library})
    spans = sorted({tuple(one["span"]) for one in library}, key=lambda span: (len(span), span))
    known = {(tuple(one["span"]), one["label"]): one["effect"] for one in library if is_number(one["effect"])}
    effects = sorted(known.values())
    if not effects:
        return None
    return HeatMap(
        f"What each candidate does alone: {path}",
        [_span_name(span) for span in spans],
        columns,
        [[known.get((span, column), math.nan) for column in columns] for span in spans],
        x_label="part",
        y_label="blocks that it replaces",
        scale="end effect",
        show=lambda value: f"{value:.3f}",
        high=effects[min(len(effects) - 1, int(STRONG * len(effects)))] or None,
        note="End effect of one candidate in the predecessor, solved; the darker, the more harm. Blocks that are kept have none.",
    )


def _predicted(rows: Sequence[dict]) -> list[Chart]:
    """Effects and speed-ups, each with the line on which both agree."""

    def series(read: Any) -> list[Series]:
        found = []
        for kind, tone in TONES.items():
            some = [(row, read(row)) for row in rows if row["kind"] == kind]
            some = [(row, point) for row, point in some if all(map(is_number, point))]
            tips = [f"{row['name']}: predicted {brief(x)}, measured {brief(y)}" for row, (x, y) in some]
            if some:
                found.append(Series(kind, [point for _, point in some], tone, tips=tips))
        return found

    effects = series(lambda row: (row["predicted"]["effect"], row["effect"]))
    speeds = series(lambda row: (row["predicted"]["speedup"], row["speedup"]["median"]))
    charts: list[Chart] = []
    if effects:
        x, y = Axis("predicted: the sum of its candidates' effects"), Axis("measured whole")
        charts.append(Lines("Effect, predicted and measured", effects, x, y, diagonal=True, joined=False))
    if speeds:
        x, y = Axis("predicted times as fast", show=times), Axis("measured", show=times)
        charts.append(Lines("Speed, predicted and measured", speeds, x, y, diagonal=True, joined=False))
    return charts


COLUMNS = [
    Column("plan", "name"),
    Column("effect", "effect", number),
    Column("predicted", "predicted_effect", number),
    Column("score", "score", number),
    Column("kept", "kept", share),
    Column("speed-up", "speed", times),
    Column("predicted ×", "predicted_speedup", times),
    Column("parameters", "parameters", count),
    Column("slots", "slots"),
]


def _shown(row: dict) -> dict[str, Any]:
    speed = row["speedup"]
    return {
        **row,
        "predicted_effect": row["predicted"]["effect"],
        "predicted_speedup": row["predicted"]["speedup"],
        "speed": speedup_cell(
            ShownSpeedup(speed["median"], interval=(speed["low"], speed["high"]), steady=speed["steady"])
        ),
        "slots": _tell_parts(row["plan"]),
    }


def _tell_parts(plan: Sequence[dict]) -> str:
    return "; ".join(f"{_span_name(slot['span'])} {part_name(slot)}" for slot in plan)


def part_name(slot: dict) -> str:
    """A slot's part with its options."""
    told = ", ".join(f"{key} {value}" for key, value in slot.get("options", {}).items())
    return f"{slot['part']} ({told})" if told else str(slot["part"])


def _span_name(span: Sequence[int]) -> str:
    return str(span[0]) if len(span) == 1 else f"{span[0]}–{span[-1]}"


def _tell_costs(about: dict) -> str:
    timing = about.get("timing") or {}
    return (
        f"{about['scored']} candidates were solved on {about['tokens']:,} tokens each. {share(about['outside'])} of the "
        f"predecessor's time is spent outside of its blocks, for texts of {about['length']} tokens at batch size "
        f"{about['batch_size']} on {timing.get('device', '?')}, threads: {timing.get('threads', '?')}. Slots are the blocks that "
        "are replaced; the others are kept."
    )
