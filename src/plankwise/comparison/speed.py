"""How fast the rows of a comparison are: the best model of each, all measured in turn, beside the predecessor."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from plankwise.comparison.cells import kept_successors, read_kept
from plankwise.comparison.given import GIVEN, Given
from plankwise.config import RunConfig, validate_config
from plankwise.errors import ConfigError
from plankwise.evaluation.latency import as_json, measure_latency
from plankwise.files import write_text
from plankwise.run.inputs import Run
from plankwise.run.speed import tell_speed

PREDECESSOR, LATENCY = "predecessor", "latency.json"


def find_latency(
    rows: Mapping[str, RunConfig], folder: Path, predecessor: str, run: Run, given: Sequence[Given]
) -> dict[str, Any]:
    """Times, speed-ups and conditions of the rows' predictions, all measured in turn; what was measured before is taken from
    there, and has no speed-ups if an earlier version wrote it."""
    paths = {}
    for label in rows:
        for path in kept_successors(folder / label):
            paths[label] = str(path)
    made_by: dict[str, dict] = {label: rows[label].model_dump(mode="json", exclude={"run"}) for label in paths}
    made_by |= {row.label: {GIVEN: row.path} for row in given}
    paths |= {row.label: row.model for row in given}
    if not paths:
        return {}
    options, file = run.config.evaluation, folder / LATENCY
    known = read_kept(file) if file.is_file() else {"made_by": {}}
    if any(_in_todays_form(known["made_by"].get(label)) != made for label, made in made_by.items()):
        run.context.console.print(
            f"latency: {options.latency_predictions} predictions a model, on {run.context.device.type}"
        )
        measured = measure_latency(
            {name: run.open(path) for name, path in {PREDECESSOR: predecessor, **paths}.items()},
            run.task.timed(),
            batch_sizes=options.latency_batch_sizes[:1],  # the one that the table shows
            predictions=options.latency_predictions,
        )
        tell_speed(measured, run.context.console, f"delete {file} and run the same command again")
        speedups, timing = as_json(measured.speedups), measured.timing()
        known = {"made_by": made_by, "latency": measured.latency, "speedups": speedups, "timing": timing}
        write_text(file, json.dumps(known, indent=2))
    return {
        "latency": {name: known["latency"][name] for name in (PREDECESSOR, *paths)},
        "speedups": {name: one for name, one in known.get("speedups", {}).items() if name in paths},
        "timing": known.get("timing"),
    }


def _in_todays_form(config: dict | None) -> dict | None:
    """A config that an earlier version may have written, with the keys of today; None if it cannot be read any more. What a given
    row is made by stays as it is."""
    if config is not None and GIVEN in config:
        return config
    try:
        return None if config is None else validate_config(config).model_dump(mode="json", exclude={"run"})
    except ConfigError:
        return None
