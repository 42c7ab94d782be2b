"""Grades of effort: which keys a run's `effort` sets, and how long `within` is.

`seconds`: thin layers, for labels and rankings the higher the thinner, unless the plan says otherwise; solved, no training.
`minutes`: thin layers, solved, then a short training.
`hours`: plan, method and learning rate are searched, several seeds are trained, and the best is taken; what chooses is kept apart
from dev, which reports.
"""

import re
from typing import Any, Literal, get_args

from plankwise.errors import ConfigError

Effort = Literal["seconds", "minutes", "hours"]
SECONDS, MINUTES, HOURS = get_args(Effort)

# Half of the blocks' multiply-adds, and with heads as they are still a plain checkpoint.
THIN: dict[str, Any] = {"cut": "each", "part": "thin", "options": {"ffn": 0.25}}
# Half, too, and nearer to the predecessor where an answer is read off the first token; plankwise has to be there to load it.
TAPERED: dict[str, Any] = {"cut": "tapered", "part": "thin"}
FOR_TAPERED = ("labels", "ranking")  # kinds of task

SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    SECONDS: {
        "plan": {"init": "solved", **THIN},
        "method": {"name": "solve"},
        "evaluation": {"truncated": False},
    },
    MINUTES: {
        "plan": {"init": "solved", **THIN},
        "method": {"name": "replacing"},
        "training": {"max_steps": 200, "learning_rate": 5e-5},
        "evaluation": {"truncated": False},
    },
    HOURS: {
        "plan": {"init": "solved", "cut": "late"},
        "evaluation": {"truncated": False, "choose_on": "train"},
    },
}
# Where the recipe itself says which blocks are replaced, or by what.
AS_PLANNED: dict[str, dict[str, dict[str, Any]]] = {
    SECONDS: {"plan": {"init": "solved", "cut": "late"}},
    MINUTES: {"plan": {"init": "solved", "cut": "late"}, "training": {"max_steps": 200, "learning_rate": 1.5e-4}},
    HOURS: {},
}
SHAPE = {"successors", "cut", "spans", "slots", "part", "options"}  # keys of [plan] that say so
UNITS = {"s": 1, "sec": 1, "min": 60, "m": 60, "h": 3600}
SHORTEST = {HOURS: 1800, MINUTES: 120, SECONDS: 0}  # seconds, from which on a grade is worth it


def read_duration(text: str, key: str = "run.within") -> float:
    """Seconds of a time such as "90s", "20min" or "1.5h".

    Raises:
        ConfigError: it is not one.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", text.lower())
    if found is None or found[2] not in UNITS or float(found[1]) <= 0:
        raise ConfigError(f"{key} is {text!r}; give a time with its unit, for example 90s, 20min or 2h")
    return float(found[1]) * UNITS[found[2]]


def find_effort(run: Any) -> str | None:
    """The grade that a [run] section asks for, by name or by the time it leaves; None if it asks for none."""
    if not isinstance(run, dict):
        return getattr(run, "effort", None)
    effort, within = run.get("effort"), run.get("within")
    if effort is None and isinstance(within, str):
        seconds = read_duration(within)
        effort = next(grade for grade, shortest in SHORTEST.items() if seconds >= shortest)
    return effort if isinstance(effort, str) and effort in SETTINGS else None


def lay_under(data: dict, kind: str | None) -> dict:
    """A config's data with what its effort sets, where nothing is said otherwise; `kind` is that of its task.

    Raises:
        ConfigError: the effort and the method contradict each other.
    """
    effort = find_effort(data.get("run", {}))
    if effort is None:
        return data
    method = data.get("method", {})
    given = method.get("name") if isinstance(method, dict) else getattr(method, "name", None)
    if effort == SECONDS and given not in (None, "solve"):
        raise ConfigError(
            f"run.effort is 'seconds', in which nothing is trained, but method.name is {given!r}; leave one of them out"
        )
    filled = dict(data)
    run = data.get("run", {})
    if isinstance(run, dict):
        filled["run"] = {**run, "effort": effort}
    plan = data.get("plan", {})
    settings = SETTINGS[effort]
    if not isinstance(plan, dict) or SHAPE & plan.keys():
        settings = settings | AS_PLANNED[effort]
    elif effort == SECONDS and kind in FOR_TAPERED:
        settings = settings | {"plan": {"init": "solved", **TAPERED}}
    for section, values in settings.items():
        own = data.get(section, {})
        if not isinstance(own, dict) or (section == "method" and "name" in own):
            continue
        steps = {"max_steps"} if section == "training" and "epochs" in own else set()
        filled[section] = {**{key: value for key, value in values.items() if key not in steps}, **own}
    return filled


def keeps_all_layers(plan: dict[str, Any]) -> bool:
    """Whether a plan has a thin layer for each layer, as `seconds` and `minutes` make it."""
    return plan["part"] == THIN["part"] and plan["slots"] is None and plan["cut"] in (THIN["cut"], TAPERED["cut"])


def unless_shaped(values: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """A method's defaults for the plan; where a recipe says itself which blocks are replaced, or by what, none of them does."""
    if any(given.get(key) is not None for key in SHAPE - {"options"}):
        return {key: value for key, value in values.items() if key not in SHAPE}
    return values
