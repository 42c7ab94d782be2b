"""A search for a plan as the terminal shows it."""

from rich.console import Console
from rich.table import Table

from plankwise.report.search import part_name, search_verdict
from plankwise.report.speed import UNSTEADY
from plankwise.report.text import MISSING, count, number, share, slot_name, times

WIDTH = 110  # letters that the tables take


def show_search_table(data: dict, console: Console) -> None:
    """The slots of the plan that was found, then all plans that were measured whole."""
    about, found = data["search"], data["rows"][0]
    known = {(one["path"], tuple(one["span"]), part_name(one)): one for one in data["library"]}
    slots = _table(console, "slot", "part", "effect alone", "× of its span", "parameters")
    for slot in found["plan"]:
        one = known[slot["path"], tuple(slot["span"]), part_name(slot)]
        slots.add_row(
            slot_name(slot), part_name(slot), number(one["effect"]), times(one["speedup"]), count(one["parameters"])
        )
    plans = _table(
        console, "plan", "effect", "predicted", about["metric"], "kept", "speed-up", "predicted", "parameters"
    )
    for row in data["rows"]:
        plans.add_row(
            row["name"],
            number(row["effect"]),
            number(row["predicted"]["effect"]),
            number(row["score"]),
            share(row["kept"]) if row["kept"] is not None else MISSING,
            times(row["speedup"]["median"]) + ("" if row["speedup"]["steady"] else " ~"),
            times(row["predicted"]["speedup"]),
            count(row["parameters"]),
        )
    for shown in (slots, plans):
        # A narrow terminal wraps lines: figures are not cut off.
        console.print(shown, crop=False, width=max(console.width, WIDTH))
    console.print(
        f"no plan is trained; effect: how far answers are from the predecessor's, whose score is "
        f"{number(about['predecessor']['score'])}; blocks in no slot are kept; ~ {UNSTEADY}",
        soft_wrap=True,
    )
    console.print(search_verdict(data), soft_wrap=True)


def _table(console: Console, *names: str) -> Table:
    found = Table(box=None, pad_edge=False, width=None if console.width >= WIDTH else WIDTH)
    for index, name in enumerate(names):
        found.add_column(name, justify="left" if index == 0 or name == "part" else "right", no_wrap=True)
    return found
