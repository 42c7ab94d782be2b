"""What a run does with the time that it may take: steps that fit into `within`, and the search of `effort = "hours"`."""

from dataclasses import replace
from typing import Any

from plankwise.efforts import HOURS, MINUTES, SECONDS, TAPERED, keeps_all_layers, read_duration
from plankwise.errors import ConfigError
from plankwise.estimate.phases import duration
from plankwise.run.inputs import Run
from plankwise.run.searching import TRAININGS
from plankwise.run.training import PREDECESSOR

WHY = {
    SECONDS: "successors are solved by least squares; nothing is trained",
    MINUTES: "successors are solved by least squares, then trained for a short time at a learning rate that suits such a start",
}


def fit_steps(run: Run, estimate: dict | None) -> tuple[Run, dict[str, Any] | None]:
    """The run with as many steps as its time allows, by the estimate, and what the record says of its effort; None if it has none.

    Raises:
        ConfigError: the time is too short for a single step.
    """
    options = run.config.run
    if options.effort is None:
        return run, None
    notes: dict[str, Any] = {"grade": options.effort, "within": options.within, "why": WHY.get(options.effort, "")}
    if options.effort == SECONDS:
        head = run.config.plan.solving.head
        notes["why"] += " and no label is read" if head == "kept" else ", and the head is solved on labels"
    if options.effort in (SECONDS, MINUTES) and keeps_all_layers(run.config.plan.model_dump()):
        thinner = "the higher the thinner" if run.config.plan.cut == TAPERED["cut"] else "thinner"
        notes["why"] += (
            f"; all layers stay, {thinner}, which kept more than fewer whole ones with as many multiply-adds"
        )
    if options.within is None or estimate is None or options.effort == SECONDS:
        return run, notes
    trained = {
        name: one for name, one in estimate["phases"].items() if one["steps"] and name not in (PREDECESSOR, "head")
    }
    steps = sum(one["steps"] for one in trained.values())
    seconds = sum(one["estimated"] for one in trained.values())
    times = TRAININGS if options.effort == HOURS else 1
    left = read_duration(options.within) - (estimate["seconds"]["estimated"] - seconds)
    fitting = int(left / max(1e-9, times * seconds / max(1, steps)))
    if fitting < 1:
        fixed = duration(estimate["seconds"]["estimated"] - seconds)
        raise ConfigError(
            f"run.within is {options.within}, but what cannot be shortened takes about {fixed}; "
            "give more time, or choose run.effort = 'seconds'"
        )
    chosen = min(steps, fitting)
    notes["steps"] = {"wanted": steps, "fitting": fitting, "taken": chosen}
    training = run.config.training.model_copy(update={"max_steps": chosen})
    return replace(run, config=run.config.model_copy(update={"training": training})), notes
