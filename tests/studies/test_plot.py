import importlib.util
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from plankwise.errors import MissingExtraError
from plankwise.studies import Arm, Axis, Measured, Point, find_study
from plankwise.studies._flow import run
from plankwise.studies._plot import check_plots, write_plots


@pytest.fixture
def without_matplotlib(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "matplotlib" else find(name, *rest)
    )


def texts(folder) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", (folder / "plot.svg").read_text("utf-8"))


def test_text_from_data_is_shown_literally(measured, folder):
    write_plots([replace(measured, task=r"$\frac{a}$ & \$", metric="f_1")], Axis("a_b"), "init", folder)
    shown = texts(folder)
    assert r"study init: $\frac{a}$ &amp; \$" in shown
    assert "f_1 on dev" in shown
    assert "a_b" in shown


def test_axes_and_legend_name_what_is_seen(folder):
    arms = [Arm("a-1", "1", "a"), Arm("a-2", "2", "a"), Arm("b-1", "1", "b")]
    points = [Point(arm, seed, 0.5 + seed / 10) for arm in arms for seed in (0, 1)]
    write_plots([Measured("task", "accuracy", arms, points, 0.9)], Axis("layers", numeric=True), "depth", folder)
    assert {"layers", "accuracy on dev", "1", "2", "a", "b", "predecessor"} <= set(texts(folder))


def test_the_same_results_give_the_same_file(measured, folder):
    for name in ("one", "two"):
        write_plots([measured], Axis("x"), "init", folder / name)
    assert (folder / "one" / "plot.svg").read_bytes() == (folder / "two" / "plot.svg").read_bytes()


def test_a_task_whose_cells_all_failed_leaves_an_empty_panel(measured, folder):
    points = [replace(point, score=None) for point in measured.points]
    write_plots([replace(measured, points=points, baseline=None)], Axis("x"), "init", folder)
    assert "good" in texts(folder)


def test_a_missing_matplotlib_is_named_with_its_extra(without_matplotlib):
    with pytest.raises(MissingExtraError, match=r"needs the package matplotlib; .* pip install plankwise\[plots\]"):
        check_plots()


def test_without_matplotlib_the_tables_are_written_all_the_same(without_matplotlib, measured, request_for, printed):
    request = request_for("init")
    init = find_study("init")
    known = SimpleNamespace(**{**vars(init), "measure": lambda trials, request: [measured]})
    run(known, request)
    assert sorted(path.name for path in request.folder.iterdir()) == ["table.json", "table.md"]
    assert "the study's plot needs the package matplotlib" in printed(request)
