"""Requests for studies on the tiny recipe."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from plankwise.config import load_data
from plankwise.studies import Arm, Measured, Point, StudyRequest


@pytest.fixture
def request_for(recipe, tmp_path, tiny_expert_folder):
    """A request on a predecessor that knows its task; further recipes are copies of the tiny one under other names."""
    usual = (f"predecessor.path={tiny_expert_folder}", "predecessor.training.max_steps=1", "evaluation.latency=false")

    def make(
        name: str, *overrides: str, values: list[str] | None = None, names: tuple[str, ...] = ("tiny",)
    ) -> StudyRequest:
        data = [load_data(recipe, [*usual, *overrides, f"run.name={own}"]) for own in names]
        return StudyRequest(name, data, values, [0], tmp_path / "study", Console(file=StringIO(), width=120))

    return make


@pytest.fixture
def printed():
    def read(request: StudyRequest) -> str:
        file = request.console.file
        assert isinstance(file, StringIO)
        return file.getvalue()

    return read


@pytest.fixture
def measured() -> Measured:
    """Two arms with two seeds, one of which failed in one arm and both in the other."""
    good, bad = Arm("good", "good"), Arm("bad", "bad")
    points = [
        Point(good, 0, 0.5, idle_share=0.25),
        Point(good, 1, None, "the disk is full"),
        Point(bad, 0, None, "a | b"),
        Point(bad, 1, None, "no"),
    ]
    return Measured("tiny", "accuracy", [good, bad], points, 0.75)


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "study"
