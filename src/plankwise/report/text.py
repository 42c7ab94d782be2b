"""Numbers and names as a reader sees them, and text from data as HTML and Markdown show it literally."""

import html
import math
from collections.abc import Callable
from typing import Any, TypeGuard

MISSING = "–"
MODELS = (
    "predecessor",
    "truncated",
    "successor",
    "model",
)  # the models of a record, in the order in which they are shown


def esc(text: object) -> str:
    """Text that stands for itself in HTML, between tags or in an attribute."""
    return html.escape(str(text), quote=True)


def as_markdown(text: object) -> str:
    """Text from data as Markdown shows it literally, on one line."""
    line = " ".join(str(text).split())
    return "".join(f"\\{sign}" if sign in "\\|*_`[]" else "&lt;" if sign == "<" else sign for sign in line)


def cut(text: str, length: int) -> str:
    """At most `length` characters on one line; what is left out is marked."""
    line = " ".join(str(text).split())
    return line if len(line) <= length else f"{line[: length - 1]}…"


def is_number(value: Any) -> TypeGuard[float]:
    """Whether it can be drawn and rounded: an int or a float that is neither infinite nor undefined."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def number(value: Any, places: int = 4) -> str:
    return f"{value:,.{places}f}" if is_number(value) else MISSING


def signed(value: Any) -> str:
    """A difference, with its sign."""
    return f"{value:+,.4f}" if is_number(value) else MISSING


def fixed(places: int) -> Callable[[Any], str]:
    """`number` with so many places."""
    return lambda value: number(value, places)


def brief(value: float) -> str:
    """A number as an axis shows it: as few digits as tell it apart."""
    size = abs(value)
    for limit, sign in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if size >= limit:
            return f"{value / ({'k': 1e3}.get(sign, limit)):.4g} {sign}"
    return f"{value:.4g}"


def share(value: Any) -> str:
    return f"{value:.1%}" if is_number(value) else MISSING


def times(value: Any) -> str:
    return f"{value:.2f}×" if is_number(value) else MISSING


def count(value: Any) -> str:
    """A number of parameters or operations, to one place of thousands, millions, billions and so on."""
    if not is_number(value):
        return MISSING
    for limit, sign in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.1f} {sign}"
    return f"{value:g}"


def duration(seconds: Any) -> str:
    if not is_number(seconds):
        return MISSING
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def slot_name(slot: dict) -> str:
    """A slot as the plan prints it: its path and the blocks it takes."""
    span = slot.get("span") or []
    if not span:
        return str(slot["path"])
    return f"{slot['path']} {span[0]}" + (f"–{span[-1]}" if len(span) > 1 else "")


FORMS: dict[str, Callable[[Any], str]] = {"count": lambda value: f"{value:,.0f}", "share": share, "number": fixed(2)}


def change(before: Any, after: Any, form: str) -> str:
    """A figure of an error view before and after, in one of FORMS; only once where it is the same."""
    show = FORMS[form]
    shown = [show(value) if is_number(value) else MISSING for value in (before, after)]
    return shown[0] if shown[0] == shown[1] else " → ".join(shown)
