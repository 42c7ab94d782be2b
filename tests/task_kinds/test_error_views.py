"""The contract of every kind's error view, plug-ins included: the common shape, or the kind says that it has none."""

import json
from functools import cache
from io import StringIO
from pathlib import Path

import pytest
import torch
from rich.console import Console

from plankwise.analysis_options import AnalysisOptions
from plankwise.cli.analyse import _show_view
from plankwise.errors import ConfigError
from plankwise.evaluation.error_view import MOST_CASES
from plankwise.evaluation.errors import MODELS
from plankwise.kinds import list_kinds
from plankwise.report._error_view import cases
from plankwise.report._errors import errors
from plankwise.report.text import esc
from plankwise.runtimes.torch import TorchPredictor
from plankwise.task_kinds import ErrorRequest

EVERY_KIND = pytest.mark.parametrize("name", list_kinds("task_kinds"))
NO_FILES = ErrorRequest()
FORMS = {"count": int, "share": (int, float), "number": (int, float)}


@pytest.fixture(scope="module")
def find(opened):
    """Asks a kind for the errors of its model and of one that was never trained, or of the same model twice."""
    others = {}

    def find(name, *, same=False, request=NO_FILES, **options):
        one = opened(name)
        if name not in others:
            torch.manual_seed(0)
            others[name] = one.task.load(one.loader, one.config.predecessor.path).model
            with torch.no_grad():
                for parameter in others[name].parameters():
                    parameter.normal_()
        models = dict(zip(MODELS, (one.loaded.model, one.loaded.model if same else others[name]), strict=True))
        return one.task.find_errors(
            lambda model: TorchPredictor(models[model]), AnalysisOptions(**options), request, {}, Console(width=200)
        )

    return find


@pytest.fixture(scope="module")
def found(find):
    """What a kind finds, asked once."""
    return cache(find)


def view_of(found):
    if found is None or "tables" not in found:
        pytest.skip("the kind has a shape of its own, or none")
    return found


@EVERY_KIND
def test_a_kind_gives_an_analysis_of_errors_that_is_the_same_each_time_or_says_that_it_has_none(
    name, find, found, capsys
):
    view = found(name)
    if view is None:
        assert "errors: left out" in capsys.readouterr().out
    else:
        json.dumps(view, allow_nan=False)
        assert find(name) == view


@EVERY_KIND
def test_a_view_has_the_common_shape(name, found):
    view = view_of(found(name))
    assert view["kind"] == name
    assert all(view[key] for key in ("unit", "note", "cases_title", "examples"))
    if "cells" in view:
        assert set(view["cells"]) == {"both_right", "lost", "gained", "both_wrong"}
        assert view["cells_of"]
    assert view["tables"]
    for table in view["tables"]:
        assert table["rows_total"] >= len(table["rows"]) > 0
        forms = [FORMS[column["form"]] for column in table["columns"]]
        for row in table["rows"]:
            assert isinstance(row["name"], str)
            assert (row["of"] is None) == (not table["of"])
            for figures in (row["before"], row["after"]):
                assert all(
                    figure is None or isinstance(figure, form) for figure, form in zip(figures, forms, strict=True)
                )
    assert len(view["cases"]) == min(view["cases_total"], MOST_CASES)
    for case in view["cases"]:
        assert case["before"]
        assert case["after"]


@EVERY_KIND
def test_a_view_is_shown_on_the_page_and_in_the_terminal(name, found):
    view = view_of(found(name))
    record, terminal = {"analysis": {"errors": view}}, StringIO()
    page = errors(record) + cases(record, "cases", MOST_CASES)
    _show_view(view, Console(file=terminal, width=80))
    for table in view["tables"]:
        assert esc(table["title"]) in page
        assert table["title"] in terminal.getvalue()
        assert all(esc(row["name"]) in page and row["name"] in terminal.getvalue() for row in table["rows"])
    assert page.count("<li>") == len(view["cases"]) > 0


@EVERY_KIND
def test_a_model_loses_nothing_against_itself(name, find, found):
    view_of(found(name))
    view = find(name, same=True)
    cells = view.get("cells", {"lost": 0, "gained": 0})
    assert view["cases_total"] == cells["lost"] == cells["gained"] == 0
    assert all(row["before"] == row["after"] for table in view["tables"] for row in table["rows"])


@EVERY_KIND
def test_texts_that_are_confidential_are_not_kept_but_all_figures_are(name, find, found):
    assert find(name, texts=False) == {**view_of(found(name)), "cases": []}


@EVERY_KIND
def test_labelling_by_hand_is_for_classes_of_whole_texts_alone(name, find, found, tmp_path):
    view_of(found(name))
    for request in (ErrorRequest(sample=tmp_path / "errors.csv"), ErrorRequest(labels=Path("errors.csv"))):
        with pytest.raises(ConfigError) as caught:
            find(name, request=request)
        assert str(caught.value) == (
            f"the run's task is on {name}, but errors are labelled by hand only where whole texts have classes; leave --sample "
            "and --labels out"
        )
    assert not list(tmp_path.iterdir())
