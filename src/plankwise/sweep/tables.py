"""What a sweep leaves, as table.json has it: the space, every trial, and the command that repeats the best one."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plankwise.record import read_run_record
from plankwise.sweep.scores import tell_choice

if TYPE_CHECKING:
    from plankwise.sweep.trials import Trials


def tabulate(
    trials: Trials,
    count: int,
    record_of: Callable[[int], Path],
    holders: Mapping[str, bool],
    about: Mapping[str, Any],
    command: Sequence[str],
) -> dict[str, Any]:
    """All of it; of `rows` the best trial comes first, and of equals the earliest."""
    from plankwise.sweep.trials import FAILURE, STATES

    rows: list[dict[str, Any]] = []
    for trial in trials.all()[:count]:
        state, file = STATES[trial.state], record_of(trial.number)
        if state == "running" and holders.get(file.parent.name, True):
            state = "stopped"  # its worker is gone; whoever comes next goes on with it
        row: dict[str, Any] = {
            "trial": trial.number,
            "state": state,
            "values": trials.values_of(trial),
            "score": trial.value if state == "finished" else None,
            "failure": trial.user_attrs.get(FAILURE),
            "folder": str(file.parent),
        }
        if state == "finished" and file.is_file():
            record = read_run_record(file.parent)
            row |= {
                "reported": tell_choice(record).reported,
                "seconds": record["seconds"],
                "steps": record["steps"],
                "parameters": record["successor"]["parameters"],
            }
        rows.append(row)
    rows.sort(key=lambda row: (row["score"] is None, -(row["score"] or 0.0), row["trial"]))
    best = rows[0] if rows and rows[0]["score"] is not None else None
    states = [row["state"] for row in rows]
    return {
        "sweep": {
            **about,
            "trials": count,
            "states": {state: states.count(state) for state in dict.fromkeys(states)},
            "best": None if best is None else best["trial"],
            "command": None if best is None else shlex.join([*command, *_keys(best["values"])]),
        },
        "rows": rows,
    }


def _keys(values: Mapping[str, str]) -> list[str]:
    return [f"{key}={text}" for key, text in values.items()]
