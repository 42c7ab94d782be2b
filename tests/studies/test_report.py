import json

import pytest

from plankwise.kinds import list_kinds, load_kind
from plankwise.studies import Axis, Published
from plankwise.studies._report import show_tables, write_tables

PUBLISHED = Published("Xu et al. 2020, Table 0", "in percent", ("RTE",), {"good": (88.5,), "bad": (None,)}, places=2)


def test_failed_cells_are_shown_as_failed_with_the_reason(measured, request_for, printed):
    request = request_for("init")
    show_tables([measured], PUBLISHED, request.console)
    lines = [line.split() for line in printed(request).splitlines()]
    assert ["bad", "failed", "0", "of", "2"] in lines
    assert ["good", "0.5000", "0.5000", "0.5000", "-0.2500", "1", "of", "2", "25%"] in lines
    assert "failed: good, seed 1: the disk is full" in printed(request)


def test_the_files_hold_the_same_with_text_from_data_shown_literally(measured, request_for):
    request = request_for("init")
    write_tables(request, [measured], PUBLISHED, Axis("x"))
    text = (request.folder / "table.md").read_text("utf-8")
    assert "| bad | failed |  |  |  | 0 of 2 |  |" in text
    assert "- failed: bad, seed 0: a \\| b" in text
    arms = json.loads((request.folder / "table.json").read_text("utf-8"))["tasks"][0]["arms"]
    assert [arm["median"] for arm in arms] == [0.5, None]
    assert [arm["difference"] for arm in arms] == [-0.25, None]
    assert arms[1]["cells"][0]["failure"] == "a | b"


def test_published_figures_stand_apart_with_the_places_of_their_source(measured, request_for):
    request = request_for("init")
    write_tables(request, [measured], PUBLISHED, Axis("x"))
    own, _, published = (request.folder / "table.md").read_text("utf-8").partition("## published, not measured here: ")
    assert "88.5" not in own
    assert published.startswith("Xu et al. 2020, Table 0 (in percent)")
    assert "| good | 88.50 |" in published
    assert "| bad | – |" in published


@pytest.mark.parametrize("name", list_kinds("studies"))
def test_no_printed_line_is_wider_than_100(name, measured, request_for, printed):
    request = request_for(name)
    show_tables([measured], load_kind("studies", name, key="study").PUBLISHED, request.console)
    assert max(len(line.rstrip()) for line in printed(request).splitlines()) <= 100
