"""A study from request to files: plan, check, measure, then tables and plots."""

from types import ModuleType

from plankwise.config import validate_config
from plankwise.errors import ConfigError, MissingExtraError
from plankwise.kinds import load_kind, summary
from plankwise.studies._plot import check_plots, write_plots
from plankwise.studies._report import show_tables, write_tables
from plankwise.studies._study import Measured, Request
from plankwise.studies._trials import check_data


def find_study(name: str) -> ModuleType:
    """The study of that name.

    Raises:
        ConfigError: there is none.
    """
    return load_kind("studies", name, key="study")


def run_study(request: Request) -> list[Measured]:
    """Measures what the request asks for, prints it beside the published figures and writes it to the request's folder.

    Raises:
        PlankwiseError: anything that the user can mend. Bad input is found before anything is trained.
    """
    study = find_study(request.name)
    if len(request.recipes) < study.MIN_RECIPES:
        raise ConfigError(
            f"study {request.name} needs at least {study.MIN_RECIPES} recipes, but {len(request.recipes)} is given; "
            f"it is about: {summary(study)}"
        )
    for recipe in request.recipes:
        validate_config(recipe)
    names = [recipe["run"]["name"] for recipe in request.recipes]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two recipes have the run.name {name!r}, which names their folder; give each its own")
    trials = study.plan(request)
    for recipe in request.recipes:
        check_data(recipe)
    plots = _can_plot(request)
    results = study.measure(trials, request)
    write_tables(request, results, study.PUBLISHED)
    if plots:
        write_plots(results, study.AXIS, request.name, request.folder)
    show_tables(results, study.PUBLISHED, request.console)
    return results


def _can_plot(request: Request) -> bool:
    try:
        check_plots()
    except MissingExtraError as missing:
        request.console.print(f"{missing}; the tables are written without it", soft_wrap=True)
        return False
    return True
