"""A study from request to files: plan, check, measure, then tables and plots."""

from typing import Any

from plankwise.config import validate_config
from plankwise.context import open_context
from plankwise.errors import ConfigError, MissingExtraError
from plankwise.kinds import summary
from plankwise.studies import Measured, StudyRequest
from plankwise.studies._plot import check_plots, write_plots
from plankwise.studies._report import show_tables, write_tables
from plankwise.studies._trials import check_data
from plankwise.training.interruption import interruptible


def run(study: Any, request: StudyRequest) -> list[Measured]:
    """What `run_study` does, for a study's module."""
    if len(request.recipes) < study.MIN_RECIPES:
        raise ConfigError(
            f"study {request.name} needs at least {study.MIN_RECIPES} recipes, but {len(request.recipes)} is given; "
            f"it is about: {summary('studies', request.name)}"
        )
    for recipe in request.recipes:
        validate_config(recipe)
    names = [recipe["run"]["name"] for recipe in request.recipes]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two recipes have the run.name {name!r}, which names their folder; give each its own")
    if request.workers is not None:
        request.workers.check()
    trials = study.plan(request)
    for recipe in request.recipes:
        check_data(recipe)
    plots = _can_plot(request)
    with interruptible():
        results = study.measure(trials, request)

    def write() -> None:
        write_tables(request, results, study.PUBLISHED, study.AXIS)
        if plots:
            write_plots(results, study.AXIS, request.name, request.folder)

    open_context(request.console, request.folder, 0).on_main(write)
    show_tables(results, study.PUBLISHED, request.console)
    return results


def _can_plot(request: StudyRequest) -> bool:
    try:
        check_plots()
    except MissingExtraError as missing:
        request.console.print(f"{missing}; the tables are written without it", soft_wrap=True)
        return False
    return True
