"""A plan as a recipe: TOML that `plankwise compress` runs, with the reasons for every slot as comments, for the user to edit."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import tomli_w

from plankwise.core.plan import Plan
from plankwise.toml import without_none

SAID_BY_SLOTS = ("successors", "spans", "slots", "cut", "chains", "part", "options")  # keys of [plan]
PLANNED = "planned"  # what the name of a run with the plan ends in
WIDTH = 120


def as_recipe(
    recipe: Mapping[str, Any],
    plan: Plan,
    predecessor: str | None,
    told: Sequence[str],
    why: Sequence[str] | None = None,
    *,
    ending: str = PLANNED,
    init: str | None = None,
) -> str:
    """The recipe with a plan of listed slots; `told` stands at its top, and each of `why` above its slot.

    `predecessor`: the folder of one that was trained on the way, which need not be trained again. `ending`: of the run's name.
    `init`: `plan.init`, if it is to be another than the recipe's.
    """
    data = {section: dict(keys) for section, keys in without_none(dict(recipe)).items()}
    run = data.setdefault("run", {})
    run["name"] = f"{run.get('name', 'run')}-{ending}"
    if run.get("folder"):
        run["folder"] = f"{str(run['folder']).rstrip('/')}-{ending}"
    if predecessor is not None:
        given = data.setdefault("predecessor", {})
        given["path"] = predecessor
        if given.get("finetune") is True:
            given["finetune"] = "auto"
    rest = {key: value for key, value in data.pop("plan", {}).items() if key not in SAID_BY_SLOTS}
    rest |= {} if init is None else {"init": init}
    lines = [*_commented(told), "", tomli_w.dumps(data).rstrip(), "", "[plan]"]
    lines += [f"{_key(key)} = {_inline(value)}" for key, value in rest.items()]
    lines.append("slots = [")
    for slot, reason in zip(plan.slots, why or [""] * len(plan.slots), strict=True):
        own = {"path": slot.path, "span": list(slot.span), "part": slot.part}
        lines += [
            *_commented([reason] if reason else [], "    "),
            f"    {_inline(own | ({'options': slot.options} if slot.options else {}))},",
        ]
    return "\n".join([*lines, "]", ""])


def _commented(lines: Sequence[str], indent: str = "") -> list[str]:
    """Lines as comments, each broken where it is too long."""
    found = []
    for line in lines:
        text = ""
        for word in line.split():
            if text and len(indent) + len(text) + len(word) + 3 > WIDTH:
                found.append(f"{indent}# {text}")
                text = f"  {word}"
            else:
                text = f"{text} {word}" if text else word
        found.append(f"{indent}# {text}".rstrip())
    return found


def _inline(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_key(key)} = {_inline(item)}' for key, item in value.items())} }}" if value else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_inline, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    # What JSON makes of text is text in TOML too, but for the sign that only TOML does not take as it is.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f") if isinstance(value, str) else repr(value)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key)
